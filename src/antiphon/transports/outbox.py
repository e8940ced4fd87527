"""Frames that wait to be written by one task: in order, bounded by asking senders to wait.

Owns the waiting only; who writes them, and how, is the business of its users.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable

from antiphon.transports.backpressure import Room

__all__ = ["HIGH_WATER", "Outbox"]

HIGH_WATER = 256 * 1024
"""Bytes waiting for a slow peer before senders are asked to wait; they go on at half of it."""


class Outbox:
    """Hold frames for one writer; ``wake`` is called whenever there is something to do."""

    __slots__ = ("_frames", "_held", "_room", "_wake", "ended")

    def __init__(self, wake: Callable[[], object]) -> None:
        self._frames: deque[bytes] = deque()
        self._held = 0
        self._room = Room()
        self._wake = wake
        self.ended = False
        """Whether nothing more is taken; what waits may still be written."""

    def __bool__(self) -> bool:
        """Tell whether frames wait."""
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
        """Take the next frame; ``None`` if there is none."""
        if not self._frames:
            return None
        data = self._frames.popleft()
        self._held -= len(data)
        if self._room.full is not None and self._held <= HIGH_WATER // 2:
            self._room.open()
        return data

    def end(self, *, drop: bool = False) -> None:
        """Take nothing more; with ``drop`` what waits is gone, too. Nobody waits for room any longer."""
        self.ended = True
        if drop:
            self._frames.clear()
            self._held = 0
        self._room.open()
        self._wake()
