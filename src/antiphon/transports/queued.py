"""Channels between two queues: what arrives waits for the session, and what it sends waits for a task that writes.

Owns the queues and why they ended. The tasks that move frames from and to the peer are the channels' own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable

from antiphon.channel import MAX_FRAME, Channel, Frame, Oversized
from antiphon.transports.inbox import Inbox, Receiving, Room

HIGH_WATER = 256 * 1024
"""Bytes that may wait for a slow peer before senders are asked to wait; they continue at half of it."""


class Outbox:
    """Holds frames for one writer; ``wake`` is called whenever there is something to do."""

    __slots__ = ("_frames", "_held", "_room", "_wake", "ended")

    def __init__(self, wake: Callable[[], object]) -> None:
        self._frames: deque[bytes] = deque()
        self._held = 0
        self._room = Room()
        self._wake = wake
        self.ended = False
        """Whether no more frames are accepted; those that wait may still be written."""

    def __bool__(self) -> bool:
        """Tell whether frames are waiting."""
        return bool(self._frames)

    def put(self, data: bytes) -> Awaitable[None] | None:
        """Add a frame, as ``Channel.send`` does. After the end it is dropped."""
        if self.ended:
            return None
        self._frames.append(data)
        self._held += len(data)
        if self._held > HIGH_WATER:
            self._room.shut()
        self._wake()
        return self._room.full

    def pop(self) -> bytes | None:
        """Remove and return the next frame; ``None`` if there is none."""
        if not self._frames:
            return None
        data = self._frames.popleft()
        self._held -= len(data)
        if self._room.full is not None and self._held <= HIGH_WATER // 2:
            self._room.open()
        return data

    def end(self, *, drop: bool = False) -> None:
        """Accept no more frames; with ``drop`` also discard those that wait. Senders no longer wait for room."""
        self.ended = True
        if drop:
            self._frames.clear()
            self._held = 0
        self._room.open()
        self._wake()


class QueuedChannel(Receiving):
    """What such channels share; ``wake`` is called when there is something to write, or nothing more will come."""

    def __init__(self, wake: Callable[[], object]) -> None:
        self._held = Room()
        self._inbox = Inbox(self._held.shut, self._held.open)
        self._outbox = Outbox(wake)

    def send(self, frame: Frame) -> Awaitable[None] | None:
        return self._outbox.put(frame.data)

    def _lose(self, reason: str) -> None:
        """Note that the peer is gone: what has arrived can still be received, what waits is not sent."""
        self.end(reason)
        self._outbox.end(drop=True)


class _MemoryChannel(Receiving):
    """One side of a pair. What it sends is put directly into the inbox of the other side."""

    __slots__ = ("_inbox", "_max_frame", "_reason", "_room", "other")

    def __init__(self, max_frame: int) -> None:
        self._max_frame = max_frame
        # Returned by the other side's ``send`` when our inbox is full.
        self._room = Room()
        self._inbox = Inbox(self._room.shut, self._room.open)
        self._reason = ""
        self.other = self

    def send(self, frame: Frame) -> Awaitable[None] | None:
        return self.other.deliver(frame.data)

    def deliver(self, data: bytes) -> Awaitable[None] | None:
        """Take a frame from the other side; return an awaitable if it should wait."""
        self._inbox.put([data if len(data) <= self._max_frame else Oversized(len(data))])
        return self._room.full

    async def close(self) -> None:
        self.end("The in-memory channel was closed on this side", drop=True)
        self.other.end("The peer closed the in-memory channel")


def memory_pair(max_frame: int = MAX_FRAME) -> tuple[Channel, Channel]:
    """Return two linked channels: what one sends, the other receives.

    Each side holds about 1 MiB for its receiver before ``send`` on the other side asks to wait. Closing either side
    ends both; the peer still receives what was sent before. A frame above ``max_frame`` bytes arrives as ``Oversized``.
    Both belong to the same event loop.
    """
    left, right = _MemoryChannel(max_frame), _MemoryChannel(max_frame)
    left.other, right.other = right, left
    return left, right
