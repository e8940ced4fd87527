"""Events of resumable streams, kept so that a client that lost its connection misses none.

2025-11-25 basic/transports, "Resumability and Redelivery". ``session`` decides which stream an event belongs to, and
who may resume it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Protocol

__all__ = ["EventStore", "MemoryEventStore"]


class EventStore(Protocol):
    """Keeps the events of each stream. Numbers within one stream increase."""

    async def append(self, stream: str, number: int, data: bytes) -> None:
        """Keep one event.

        Args:
            stream: id of the stream.
            number: number of the event in its stream.
            data: the message, as JSON.
        """
        ...

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
        ...


class MemoryEventStore:
    """Keeps the newest events of all streams in memory, at most ``max_bytes`` in all; the oldest are dropped first."""

    def __init__(self, max_bytes: int = 32 * 1024 * 1024, max_events: int = 50_000) -> None:
        self._max_bytes = max_bytes
        self._max_events = max_events
        self._bytes = 0
        self._events: OrderedDict[tuple[str, int], bytes] = OrderedDict()
        self._numbers: dict[str, list[int]] = {}

    async def append(self, stream: str, number: int, data: bytes) -> None:
        """See ``EventStore.append``."""
        self.keep(stream, number, data)

    def keep(self, stream: str, number: int, data: bytes) -> None:
        """Keep one event, and drop the oldest events of all streams to make room."""
        self._events[stream, number] = data
        self._numbers.setdefault(stream, []).append(number)
        self._bytes += len(data)
        while self._events and (self._bytes > self._max_bytes or len(self._events) > self._max_events):
            self._drop_oldest()

    async def after(self, stream: str, number: int) -> Sequence[tuple[int, bytes]]:
        """See ``EventStore.after``."""
        return [(each, self._events[stream, each]) for each in self._numbers.get(stream, ()) if each > number]

    async def forget(self, stream: str) -> None:
        """See ``EventStore.forget``."""
        self.drop(stream)

    def drop(self, stream: str) -> None:
        """Drop all events of a stream."""
        for number in self._numbers.pop(stream, ()):
            self._bytes -= len(self._events.pop((stream, number)))

    def _drop_oldest(self) -> None:
        (stream, number), data = self._events.popitem(last=False)
        self._bytes -= len(data)
        left = self._numbers[stream]
        left.remove(number)
        if not left:
            del self._numbers[stream]
