"""Following the queue: when to read again, when to ring, and what happens while the store cannot be read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection

from antiphon.cli.screen.sheet import now
from antiphon.host.review.queue import Queue

__all__ = ["Bell", "persisting", "readable", "watch"]

_PAUSE = 0.1
"""Least seconds between two reads of the queue, for one that changes all the time."""
_TROUBLE = 2.0
"""Seconds until another attempt to read a store."""
_QUIET = 2.0
"""Seconds between two bells, however many questions come."""

Act = Callable[[], Awaitable[None]]


async def watch(queue: Queue, look: Act, trouble: Callable[[], None]) -> None:
    """Read whenever a question has changed, in this process or another, until cancelled."""

    async def follow() -> None:
        async for _ in queue.changes():
            await look()
            await asyncio.sleep(_PAUSE)

    await persisting(follow, trouble)


async def persisting(act: Act, trouble: Callable[[], None]) -> None:
    """Run an endless task, and start it again whenever the store could not be read, until cancelled."""
    while True:
        await readable(act, trouble)
        await asyncio.sleep(_TROUBLE)


async def readable(act: Act, trouble: Callable[[], None]) -> None:
    """Use the store; call ``trouble`` if it cannot be read."""
    from sqlalchemy.exc import SQLAlchemyError

    try:
        await act()
    except (OSError, SQLAlchemyError):
        trouble()


class Bell:
    """Rings when questions come: once for all that come within a moment, and not for those from before."""

    def __init__(self, ring: Callable[[], object], clock: Callable[[], float] = now) -> None:
        self._ring = ring
        self._clock = clock
        self._known: frozenset[str] | None = None
        self._rung = -_QUIET

    def hear(self, waiting: Collection[str]) -> None:
        """Note the ids of the questions that wait now."""
        new = self._known is not None and not self._known.issuperset(waiting)
        self._known = frozenset(waiting)
        if new and self._clock() - self._rung >= _QUIET:
            self._rung = self._clock()
            self._ring()
