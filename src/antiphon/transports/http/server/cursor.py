"""What makes a stream of server-sent events resumable: the ids of its events, and where they are kept.

2025-11-25 basic/transports, "Resumability and Redelivery". Who reads the stream, and when, is ``stream``'s business.
"""

from __future__ import annotations

from collections.abc import Awaitable

from msgspec import Struct

from antiphon.protocol.http.sse import encode_event
from antiphon.transports.http.server.event_store import EventStore, MemoryEventStore

__all__ = ["RETRY", "Cursor"]

RETRY = 1000
"""Milliseconds a client should wait before it resumes a stream."""


class Cursor(Struct):
    """Makes a stream resumable: where its events are kept, and how they are numbered."""

    store: EventStore
    key: str
    """What the store knows the stream by."""
    number: str
    """What the client knows the stream by."""
    priming: bool
    """Whether a response begins with an event that has an id and no data."""
    last: int = 0

    def id(self, number: int) -> str:
        """Write the id of an event: the stream, and its place in it."""
        return f"{self.number}-{number}"

    @property
    def is_instant(self) -> bool:
        """Whether the store keeps an event without waiting."""
        # One that is made of it may have another ``append``.
        return type(self.store) is MemoryEventStore

    def opening(self, after: int | None = None) -> bytes:
        """Write what a response begins with: an event that only has an id, if any."""
        if not self.priming:
            return b""
        return encode_event(b"", id=self.id(self.last if after is None else after), retry=RETRY)

    def following(self, data: bytes) -> bytes:
        """Write the event that comes next; it is not counted before it is kept."""
        return encode_event(data, id=self.id(self.last + 1))

    async def keep(self, data: bytes) -> bytes:
        """Keep the data that comes next, and return its event."""
        event = self.following(data)
        self.last += 1
        await self.store.append(self.key, self.last, data)
        return event

    def keep_now(self, data: bytes) -> None:
        """Keep the data of the event that was sent last, where the store ``is_instant``."""
        assert isinstance(self.store, MemoryEventStore)
        self.last += 1
        self.store.keep(self.key, self.last, data)

    def forget(self) -> Awaitable[None] | None:
        """Have the store drop the stream; returns what is to be awaited, if it takes its time."""
        if self.is_instant:
            assert isinstance(self.store, MemoryEventStore)
            self.store.drop(self.key)
            return None
        return self.store.forget(self.key)

    async def since(self, after: int) -> bytes:
        """Write the events after one again, as far as they are kept."""
        kept = await self.store.after(self.key, after)
        return b"".join([encode_event(data, id=self.id(number)) for number, data in kept])
