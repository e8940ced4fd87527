"""Back-pressure for senders: an awaitable that finishes when there is room again.

The users of ``Room`` decide when it is full.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator

__all__ = ["Room"]


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
