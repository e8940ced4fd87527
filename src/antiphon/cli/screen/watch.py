"""Keeping up with the queue: when to look again, when to ring, what is done while the store cannot be read.

Owns the waiting. What is looked at is ``stage``'s business.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection

from antiphon.cli.screen.sheet import now
from antiphon.host.review.queue import Queue

__all__ = ["Bell", "persisting", "readable", "watch"]

_PAUSE = 0.1
"""Seconds between two looks at a queue that changes all the time."""
_TROUBLE = 2.0
"""Seconds until a store is tried again that could not be read."""
_QUIET = 2.0
"""Seconds between two bells, however much arrives."""

Act = Callable[[], Awaitable[None]]


async def watch(queue: Queue, look: Act, trouble: Callable[[], None]) -> None:
    """Look each time that a question has changed, here or elsewhere, until cancelled."""

    async def follow() -> None:
        async for _ in queue.changes():
            await look()
            await asyncio.sleep(_PAUSE)

    await persisting(follow, trouble)


async def persisting(act: Act, trouble: Callable[[], None]) -> None:
    """Do something that has no end of its own, and again where the store could not be read, until cancelled."""
    while True:
        await readable(act, trouble)
        await asyncio.sleep(_TROUBLE)


async def readable(act: Act, trouble: Callable[[], None]) -> None:
    """Do something with the store; tell of ``trouble`` where it cannot be read just now."""
    from sqlalchemy.exc import SQLAlchemyError

    try:
        await act()
    except (OSError, SQLAlchemyError):
        trouble()


class Bell:
    """Rings when something has arrived: once for all that arrives within a moment, and not for what was there."""

    def __init__(self, ring: Callable[[], object], clock: Callable[[], float] = now) -> None:
        self._ring = ring
        self._clock = clock
        self._known: frozenset[str] | None = None
        self._rung = -_QUIET

    def hear(self, waiting: Collection[str]) -> None:
        """Take what waits now, by its ids."""
        new = self._known is not None and not self._known.issuperset(waiting)
        self._known = frozenset(waiting)
        if new and self._clock() - self._rung >= _QUIET:
            self._rung = self._clock()
            self._ring()
