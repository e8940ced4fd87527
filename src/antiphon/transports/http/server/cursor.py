"""Resumable streams of server-sent events: the ids of their events, and the store that keeps them.

2025-11-25 basic/transports, "Resumability and Redelivery". ``stream`` sends the events.
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

    @property
    def is_instant(self) -> bool:
        """Whether the store keeps an event without waiting."""
        # Not ``isinstance``: a subclass may have another ``append``.
        return type(self.store) is MemoryEventStore

    def opening(self, after: int | None = None) -> bytes:
        """Encode the beginning of a response: an event with only an id, if wanted."""
        if not self.priming:
            return b""
        return encode_event(b"", id=self.id(self.last if after is None else after), retry=RETRY)

    def following(self, data: bytes) -> bytes:
        """Encode the next event; it is counted only when it is stored."""
        return encode_event(data, id=self.id(self.last + 1))

    async def keep(self, data: bytes) -> bytes:
        """Store the next data, and return its event."""
        await self.begin()
        event = self.following(data)
        self.last += 1
        await self.store.append(self.key, self.last, data)
        return event

    async def begin(self) -> None:
        """Store the head, if it is not stored yet."""
        if self.head:
            head, self.head = self.head, b""
            await self.store.append(self.key, 0, head)

    def keep_now(self, data: bytes) -> None:
        """Store the data of the event that was sent last, if the store ``is_instant``."""
        assert isinstance(self.store, MemoryEventStore)
        self.last += 1
        self.store.keep(self.key, self.last, data)

    def forget(self) -> Awaitable[None] | None:
        """Have the store drop the stream; returns an awaitable if that takes time."""
        if self.is_instant:
            assert isinstance(self.store, MemoryEventStore)
            self.store.drop(self.key)
            return None
        return self.store.forget(self.key)

    async def since(self, after: int) -> bytes:
        """Encode the stored events after one."""
        kept = await self.store.after(self.key, after)
        return b"".join([encode_event(data, id=self.id(number)) for number, data in kept])
