"""Frames that have arrived and wait for the task that receives them.

Owns the waiting, the end, and the bound on what is held. Its users put the frames in. In the other direction
``Room`` makes senders wait until there is room, and ``ClosedOnce`` closes a channel once for all who ask for it.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from types import CoroutineType
from typing import Any

from antiphon.channel import Oversized, Take
from antiphon.errors import ConnectionClosed

Frames = list[bytes | Oversized]

HIGH_WATER = 1024 * 1024
"""Bytes held before the source is told to pause: four of the largest reads (256 KiB) of asyncio and uvloop."""

FRAME_COST = 64
"""Bytes counted per frame in addition to its size: about what a short bytes object and its place in a list take."""


class Inbox:
    """Holds frames for one receiver; ``pause`` is called above ``HIGH_WATER`` bytes, ``resume`` once it is empty."""

    __slots__ = ("_frames", "_held", "_pause", "_paused", "_resume", "_waiter", "ended", "take_now")

    def __init__(self, pause: Callable[[], None], resume: Callable[[], None]) -> None:
        self._pause = pause
        self._resume = resume
        self._frames: Frames = []
        self._held = 0
        self._waiter: asyncio.Future[None] | None = None
        self._paused = False
        self.ended = False
        """Whether the end was announced; frames from before may still wait."""
        self.take_now: Take | None = None
        """The callback that gets each frame first, see ``channel.Offers``."""

    def put(self, frames: Frames) -> None:
        """Add frames. After the end they are dropped."""
        if self.ended:
            return
        if self._waiter is not None and not self._waiter.done():
            left = frames if self.take_now is None else _not_taken(frames, self.take_now)
            if left:
                # A receiver takes them in the next pass of the loop, so they need not be counted.
                self._frames = left
                self._waiter.set_result(None)
            return
        self._frames += frames
        self._held += sum(map(len, frames)) + FRAME_COST * len(frames)
        if self._held > HIGH_WATER and not self._paused:
            self._paused = True
            self._pause()

    def end(self, *, drop: bool = False) -> None:
        """Announce the end. Frames that wait can still be received, unless ``drop``."""
        self.ended = True
        if drop:
            self._frames, self._held = [], 0
        if self._paused:
            self._unpause()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def take(self) -> Frames:
        """Wait for frames and return all there are; an empty list at the end. Cancelling it loses nothing.

        Raises ``RuntimeError``: another task is waiting already.
        """
        if not self._frames and not self.ended:
            if self._waiter is not None:
                raise RuntimeError("two tasks receive from one channel")
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        frames, self._frames, self._held = self._frames, [], 0
        if self._paused:
            self._unpause()
        return frames

    def _unpause(self) -> None:
        self._paused = False
        self._resume()


class Receiving:
    """The half of a channel that receives, from its inbox, until it ends for a reason."""

    __slots__ = ()

    _inbox: Inbox
    _reason: str = ""
    """Why it has ended; empty until then."""

    def end(self, reason: str, *, drop: bool = False) -> None:
        """Receive no more, and with ``drop`` not what waits either. The first reason is kept."""
        self._reason = self._reason or reason
        self._inbox.end(drop=drop)

    def closed_error(self) -> ConnectionClosed:
        """Return why receiving ended."""
        return ConnectionClosed(self._reason or "The channel was not closed")

    def receive(self) -> CoroutineType[Any, Any, Frames]:
        return self._inbox.take()

    def offer_to(self, take: Take) -> None:
        self._inbox.take_now = take


def _not_taken(frames: Frames, take: Take) -> Frames:
    """Offer frames in order; return those from the first one on that is not taken."""
    for number, frame in enumerate(frames):
        if not take(frame):
            return frames[number:] if number else frames
    return []


class Room:
    """Something many tasks can await; cancelling one wait does not affect the others.

    Unlike a coroutine it may be ignored, and unlike a future it can be awaited again the next time it is shut.
    """

    __slots__ = ("_waiters", "full")

    def __init__(self) -> None:
        self._waiters: set[asyncio.Future[None]] = set()
        self.full: Room | None = None
        """Itself while there is no room, to be awaited; else ``None``. This is what ``Channel.send`` returns."""

    def shut(self) -> None:
        """Make those who await it from now on wait."""
        self.full = self

    def open(self) -> None:
        """Let all waiting tasks continue."""
        self.full = None
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def __await__(self) -> Generator[asyncio.Future[None], None, None]:
        """Wait until it is open."""
        if self.full is None:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            yield from waiter
        finally:
            self._waiters.discard(waiter)


class ClosedOnce(ABC):
    """A channel that takes time to close."""

    _closing: asyncio.Task[None] | None = None
    """Closes it; ``None`` while nobody has asked for that."""

    async def close(self) -> None:
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(), name="antiphon close a channel")
            # Not a ``finally`` inside the task: a task that is cancelled before it starts never enters it.
            self._closing.add_done_callback(lambda _: self._let_go())
        await asyncio.shield(self._closing)

    @abstractmethod
    async def _close(self) -> None:
        """End both directions, and wait for what is left to do."""

    def _let_go(self) -> None:
        """Release at once what ``_close`` has not, since it may have been cancelled; by default nothing."""
        return
