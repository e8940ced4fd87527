"""What was sent on resumable streams, kept so that a client that lost its connection misses nothing.

2025-11-25 basic/transports, "Resumability and Redelivery". Owns keeping and finding; which stream an event belongs to,
and who may resume it, is decided in ``session``.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Protocol

__all__ = ["EventStore", "MemoryEventStore"]


class EventStore(Protocol):
    """Keeps the events of streams, each stream by its own. Numbers of one stream increase."""

    async def append(self, stream: str, number: int, data: bytes) -> None:
        """Keep one event."""
        ...

    async def after(self, stream: str, number: int) -> Sequence[tuple[int, bytes]]:
        """Return the events of this stream after ``number``, in order, as far as they are kept."""
        ...

    async def forget(self, stream: str) -> None:
        """Drop a stream: nobody can resume it any more. Unknown streams are no error."""
        ...


class MemoryEventStore:
    """Keeps the newest events in memory, of all streams together at most ``max_bytes``; the oldest go first."""

    def __init__(self, max_bytes: int = 32 * 1024 * 1024, max_events: int = 50_000) -> None:
        self._max_bytes = max_bytes
        self._max_events = max_events
        self._bytes = 0
        self._events: OrderedDict[tuple[str, int], bytes] = OrderedDict()
        self._numbers: dict[str, list[int]] = {}

    async def append(self, stream: str, number: int, data: bytes) -> None:
        """See ``keep``."""
        self.keep(stream, number, data)

    def keep(self, stream: str, number: int, data: bytes) -> None:
        """Keep one event, and drop the oldest of all where there is no room."""
        self._events[stream, number] = data
        self._numbers.setdefault(stream, []).append(number)
        self._bytes += len(data)
        while self._events and (self._bytes > self._max_bytes or len(self._events) > self._max_events):
            self._drop_oldest()

    async def after(self, stream: str, number: int) -> Sequence[tuple[int, bytes]]:
        """Return what is kept of a stream after an event."""
        return [(each, self._events[stream, each]) for each in self._numbers.get(stream, ()) if each > number]

    async def forget(self, stream: str) -> None:
        """See ``drop``."""
        self.drop(stream)

    def drop(self, stream: str) -> None:
        """Keep nothing of a stream any more."""
        for number in self._numbers.pop(stream, ()):
            self._bytes -= len(self._events.pop((stream, number)))

    def _drop_oldest(self) -> None:
        (stream, number), data = self._events.popitem(last=False)
        self._bytes -= len(data)
        left = self._numbers[stream]
        left.remove(number)
        if not left:
            del self._numbers[stream]
