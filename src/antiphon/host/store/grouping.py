"""Changes that are waited for at the same time, made in one transaction.

A transaction of SQLite costs far more than what is done in it. While one is under way the next changes gather, and all
of them go together: each still happens whole or not at all, in the order they came. Owns that order, and what happens
where one of them is refused; what a change is, and how it is made, is the store's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

__all__ = ["Grouped"]

C = TypeVar("C")
MAX_GROUP = 64
"""Changes in one transaction: beyond that little is won, and other processes wait for it."""


class Grouped(Generic[C]):
    """Gathers changes. ``make`` makes some in one transaction: all of them, or none and it raises."""

    def __init__(self, make: Callable[[Sequence[C]], Awaitable[None]], refused: type[Exception]) -> None:
        """Take what makes changes. ``refused``: raised where one of several is not allowed; each is then made alone."""
        self._make = make
        self._refused = refused
        self._waiting: list[tuple[C, asyncio.Future[None]]] = []
        self._working: asyncio.Task[None] | None = None

    async def add(self, change: C) -> None:
        """Make a change, with whatever others there are. Whoever stops waiting does not undo it.

        Raises:
            Whatever making it raises.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((change, done))
        if self._working is None:
            self._working = asyncio.create_task(self._work(), name="antiphon-store-writer")
        await done

    async def finish(self) -> None:
        """Wait until all changes are made that were added so far."""
        if self._working is not None:
            await asyncio.wait([self._working])

    async def _work(self) -> None:
        # One turn of the loop passed since the first was added: whoever was about to add one has done so.
        while self._waiting:
            group, self._waiting = self._waiting[:MAX_GROUP], self._waiting[MAX_GROUP:]
            await self._together(group)
        self._working = None

    async def _together(self, group: list[tuple[C, asyncio.Future[None]]]) -> None:
        try:
            await self._make([change for change, _ in group])
        except Exception as error:
            if len(group) > 1 and isinstance(error, self._refused):
                # Nothing happened: whose fault it was shows when each is made by itself.
                for one in group:
                    await self._together([one])
                return
            _end(group, error)
        else:
            _end(group, None)


def _end(group: Sequence[tuple[object, asyncio.Future[None]]], error: Exception | None) -> None:
    for _, done in group:
        if done.done():
            continue
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)
