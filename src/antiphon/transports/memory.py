"""Two linked channels in one event loop. Frames are real bytes, and nothing else is shared."""

from __future__ import annotations

from collections.abc import Awaitable

from antiphon.channel import MAX_FRAME, Channel, Frame, Oversized
from antiphon.errors import ConnectionClosed
from antiphon.transports.inbox import Inbox, Receiving, Room


class _MemoryChannel(Receiving):
    """One side of a pair. What it sends is put directly into the inbox of the other side."""

    __slots__ = ("_inbox", "_max_frame", "_reason", "_room", "other")

    def __init__(self, max_frame: int) -> None:
        self._max_frame = max_frame
        # Returned by the other side's ``send`` when our inbox is full.
        self._room = Room()
        self._inbox = Inbox(self._room.shut, self._room.open)
        self._reason = "The in-memory channel was not closed"
        self.other = self

    def send(self, frame: Frame) -> Awaitable[None] | None:
        return self.other.deliver(frame.data)

    def deliver(self, data: bytes) -> Awaitable[None] | None:
        """Take a frame from the other side; return an awaitable if it should wait."""
        self._inbox.put([data if len(data) <= self._max_frame else Oversized(len(data))])
        return self._room.full

    async def close(self) -> None:
        self.end("The in-memory channel was closed on this side", drop=True)
        self.other.end("The peer closed the in-memory channel", drop=False)

    def end(self, reason: str, *, drop: bool) -> None:
        """End receiving on this side. The first reason is kept."""
        if not self._inbox.ended:
            self._reason = reason
        self._inbox.end(drop=drop)

    def closed_error(self) -> ConnectionClosed:
        return ConnectionClosed(self._reason)


def memory_pair(max_frame: int = MAX_FRAME) -> tuple[Channel, Channel]:
    """Return two linked channels: what one sends, the other receives.

    Each side holds about 1 MiB for its receiver before ``send`` on the other side asks to wait. Closing either side
    ends both; the peer still receives what was sent before. A frame above ``max_frame`` bytes arrives as ``Oversized``.
    Both belong to the same event loop.
    """
    left, right = _MemoryChannel(max_frame), _MemoryChannel(max_frame)
    left.other, right.other = right, left
    return left, right
