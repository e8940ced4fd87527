"""Changes that are waited for at the same time, made in one transaction.

A transaction of SQLite costs far more than what is done in it. While one is under way the next changes gather, and all
of them go together: each still happens whole or not at all, in the order they came. Owns that order, and what happens
where one of them is refused; what a change is, and how it is made, is the store's.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Generic, NamedTuple, TypeVar

__all__ = ["Grouped"]

C = TypeVar("C")


class _Waiting(NamedTuple, Generic[C]):
    """A change, and who waits for it."""

    change: C
    done: asyncio.Future[None]


MAX_GROUP = 64
"""Changes in one transaction: beyond that little is won, and other processes wait for it."""


class Grouped(Generic[C]):
    """Gathers changes. ``make`` makes some in one transaction: all of them, or none and it raises."""

    def __init__(self, make: Callable[[Sequence[C]], Awaitable[None]], refused: type[Exception]) -> None:
        """Take what makes changes. ``refused``: raised where one of several is not allowed; each is then made alone."""
        self._make = make
        self._refused = refused
        self._waiting: list[_Waiting[C]] = []
        self._alone: deque[_Waiting[C]] = deque()
        self._making: asyncio.Future[None] | None = None

    async def add(self, change: C) -> None:
        """Make a change, with whatever others there are. Whoever stops waiting does not undo it.

        Raises:
            Whatever making it raises.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(change, done))
        if self._making is None:
            self._begin()
        await done

    async def finish(self) -> None:
        """Wait until all changes are made that were added so far."""
        while self._making is not None:
            await asyncio.wait([self._making])

    def _begin(self) -> None:
        """Begin with the next ones. The first that comes waits for nobody: the others gather behind it."""
        if self._alone:
            group = [self._alone.popleft()]
        else:
            group, self._waiting = self._waiting[:MAX_GROUP], self._waiting[MAX_GROUP:]
        try:
            making = asyncio.ensure_future(self._make([one.change for one in group]))
        except Exception as error:
            # It could not even be begun. Told as if it had been, so that whoever is next has a try of their own.
            making = asyncio.get_running_loop().create_future()
            making.set_exception(error)
        self._making = making
        making.add_done_callback(partial(self._made, group))

    def _made(self, group: list[_Waiting[C]], making: asyncio.Future[None]) -> None:
        error = asyncio.CancelledError() if making.cancelled() else making.exception()
        if len(group) > 1 and isinstance(error, self._refused):
            # Nothing happened: whose fault it was shows when each is made by itself.
            self._alone.extend(group)
        else:
            for one in group:
                _end(one.done, error)
        self._making = None
        if self._alone or self._waiting:
            self._begin()


def _end(done: asyncio.Future[None], error: BaseException | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)
