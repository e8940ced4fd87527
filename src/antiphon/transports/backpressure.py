"""Back-pressure for senders: an awaitable that ends once there is room again.

Owns the waiting only; what counts as full is decided by whoever shuts and opens it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator

__all__ = ["Room"]


class Room:
    """Something many tasks can await, each on its own: cancelling one wait does not touch the others.

    Unlike a coroutine it may be ignored, and unlike a future it may be awaited again the next time it is shut.
    """

    __slots__ = ("_waiters", "full")

    def __init__(self) -> None:
        self._waiters: set[asyncio.Future[None]] = set()
        self.full: Room | None = None
        """Itself, to be awaited, while there is no room; else ``None``: what ``Channel.send`` returns."""

    def shut(self) -> None:
        """Let those who come now wait."""
        self.full = self

    def open(self) -> None:
        """Let everybody go on."""
        self.full = None
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def __await__(self) -> Generator[asyncio.Future[None], None, None]:
        """Wait until it is opened; at once if it is."""
        if self.full is None:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            yield from waiter
        finally:
            self._waiters.discard(waiter)
