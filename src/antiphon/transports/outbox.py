"""Frames that wait to be written by one task, in order; when there are many, senders are asked to wait.

Owns the waiting only; its users write the frames.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable

from antiphon.transports.backpressure import Room

__all__ = ["HIGH_WATER", "Outbox"]

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
