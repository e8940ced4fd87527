"""Events of resumable streams, kept so that a client that lost its connection misses none.

2025-11-25 basic/transports, "Resumability and Redelivery". ``session`` decides which stream an event belongs to, and
who may resume it. ``EventCursor`` makes the ids of events.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from antiphon.protocol.http.sse import encode_event


class EventStore(Protocol):
    """Keeps the events of each stream. Numbers within one stream increase."""

    async def append(self, stream: str, number: int, data: bytes) -> None:
        """Keep one event.

        Args:
            stream: id of the stream.
            number: number of the event in its stream.
            data: the message, as JSON.
        """

    async def after(self, stream: str, number: int) -> Sequence[tuple[int, bytes]]:
        """Return the kept events of a stream that follow an event, in order.

        Args:
            stream: id of the stream.
            number: number of the last event that the client received.
        """
        ...

    async def forget(self, stream: str) -> None:
        """Drop a stream, which nobody can resume any more. An unknown stream is no error.

        Args:
            stream: id of the stream.
        """


class MemoryEventStore:
    """Keeps the newest events of all streams in memory, at most ``max_bytes`` in all; the oldest are dropped first."""

    def __init__(self, max_bytes: int = 32 * 1024 * 1024, max_events: int = 50_000) -> None:
        self._max_bytes = max_bytes
        self._max_events = max_events
        self._bytes = 0
        self._events: OrderedDict[tuple[str, int], bytes] = OrderedDict()
        self._numbers: dict[str, list[int]] = {}

    async def append(self, stream: str, number: int, data: bytes) -> None:
        self._events[stream, number] = data
        self._numbers.setdefault(stream, []).append(number)
        self._bytes += len(data)
        while self._events and (self._bytes > self._max_bytes or len(self._events) > self._max_events):
            (oldest, place), dropped = self._events.popitem(last=False)
            self._bytes -= len(dropped)
            left = self._numbers[oldest]
            left.remove(place)
            if not left:
                del self._numbers[oldest]

    async def after(self, stream: str, number: int) -> Sequence[tuple[int, bytes]]:
        return [(each, self._events[stream, each]) for each in self._numbers.get(stream, ()) if each > number]

    async def forget(self, stream: str) -> None:
        for number in self._numbers.pop(stream, ()):
            self._bytes -= len(self._events.pop((stream, number)))


RETRY = 1000
"""Milliseconds a client should wait before it resumes a stream."""


class EventCursor(Struct):
    """The position in a resumable stream: where its events are stored, and how they are numbered."""

    store: EventStore
    key: str
    """Name of the stream in the store."""
    number: str
    """Name of the stream for the client."""
    priming: bool
    """Whether a response begins with an event that has an id and no data."""
    head: bytes = b""
    """Stored as event 0, before all others: what another process must know to end the stream. It is never sent."""
    last: int = 0

    def id(self, number: int) -> str:
        """Return the id of an event: the stream, and the position in it."""
        return f"{self.number}-{number}"

    def opening(self, after: int | None = None) -> bytes:
        """Encode the beginning of a response: an event with only an id, if wanted."""
        if not self.priming:
            return b""
        return encode_event(b"", id=self.id(self.last if after is None else after), retry=RETRY)

    async def keep(self, data: bytes) -> bytes:
        """Store the next data, and return its event."""
        await self.begin()
        self.last += 1
        await self.store.append(self.key, self.last, data)
        return encode_event(data, id=self.id(self.last))

    async def begin(self) -> None:
        """Store the head, if it is not stored yet."""
        if self.head:
            head, self.head = self.head, b""
            await self.store.append(self.key, 0, head)

    async def since(self, after: int) -> bytes:
        """Encode the stored events after one."""
        kept = await self.store.after(self.key, after)
        return b"".join([encode_event(data, id=self.id(number)) for number, data in kept])
