"""Concurrent changes, made in one transaction, and those that a store is owed until it can be reached again.

A transaction costs far more than the changes in it. While one runs, and for the rest of a turn of the event loop in
which one ran at once, the next changes are collected, and then made together: each of them still happens completely or
not at all, in order of arrival. Where changes come alone, each is made at once; while several come together now and
then, the first of them waits for the end of its turn as well. Owns this order, and what happens if one is refused.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from sqlalchemy import Connection

C = TypeVar("C")


class _WaitingChange(NamedTuple, Generic[C]):
    """A change, and the future of its caller."""

    change: C
    done: asyncio.Future[None]


MAX_GROUP = 64
"""Most changes in one transaction: more would gain little, and other processes wait for it."""


CALM = 8
"""Transactions in a row with a single change, after which the next change is not expected to have company."""


class Grouped(Generic[C]):
    """Groups changes. ``make`` makes several in one transaction: all of them, or none and it raises."""

    def __init__(self, make: Callable[[Sequence[C]], Awaitable[None]], refused: type[Exception]) -> None:
        """Take the function that makes changes.

        ``refused`` is raised if one is not allowed; each is then made by itself.
        """
        self._make = make
        self._refused = refused
        self._waiting: list[_WaitingChange[C]] = []
        self._alone: deque[_WaitingChange[C]] = deque()
        self._making: asyncio.Future[None] | None = None
        self._is_collecting = False
        """Whether changes are collected until the next turn of the event loop."""
        self._alone_in_row = CALM
        """How many transactions in a row had a single change."""

    def add(self, change: C) -> asyncio.Future[None]:
        """Make a change, together with any others. Cancelling the future does not undo it.

        Returns:
            Done when the change is made, with whatever making it raises.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(_WaitingChange(change, done))
        if self._making is None and not self._is_collecting:
            if self._alone_in_row < CALM:
                self._collect()
            else:
                self._begin()
        return done

    async def finish(self) -> None:
        """Wait until all changes added so far are made."""
        while self._making is not None or self._alone or self._waiting:
            await (asyncio.sleep(0) if self._making is None else asyncio.wait([self._making]))

    def _begin(self) -> None:
        """Start with the next changes, if there are any."""
        self._is_collecting = False
        if not self._alone and not self._waiting:
            return
        if self._alone:
            group = [self._alone.popleft()]
        else:
            group, self._waiting = self._waiting[:MAX_GROUP], self._waiting[MAX_GROUP:]
            self._alone_in_row = 0 if len(group) > 1 else self._alone_in_row + 1
        try:
            making = asyncio.ensure_future(self._make([one.change for one in group]))
        except Exception as error:
            # The transaction could not start. Handled like a failed one, so that the next change makes an
            # attempt of its own.
            making = asyncio.get_running_loop().create_future()
            making.set_exception(error)
        self._making = making
        if making.done():
            self._made(group, making)
        else:
            making.add_done_callback(partial(self._made, group))

    def _made(self, group: list[_WaitingChange[C]], making: asyncio.Future[None]) -> None:
        error = asyncio.CancelledError() if making.cancelled() else making.exception()
        if len(group) > 1 and isinstance(error, self._refused):
            # Nothing was changed: making each by itself shows which one is refused.
            self._alone.extend(group)
        else:
            for one in group:
                _end_commit(one.done, error)
        self._making = None
        self._collect()

    def _collect(self) -> None:
        """Begin the next transaction in the next turn of the event loop, with all changes until then."""
        self._is_collecting = True
        asyncio.get_running_loop().call_soon(self._begin)


def _end_commit(done: asyncio.Future[None], error: BaseException | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    elif isinstance(error, asyncio.CancelledError):
        done.cancel()
    else:
        done.set_exception(error)


Work = Callable[[Connection], None]

MAX_OWED = 1_000
"""Most pieces of work that are kept; beyond that the oldest is dropped, and recovered when the process has ended."""

_log = logging.getLogger("antiphon.host")


class Owed:
    """Work to do when the store can be reached again. ``run`` does some work in a transaction."""

    def __init__(self, run: Callable[[Work], Awaitable[None]]) -> None:
        self._run = run
        self._works: dict[str, Work] = {}

    def __len__(self) -> int:
        return len(self._works)

    def add(self, key: str, work: Work) -> None:
        """Add work; the same key twice is one. It must be harmless if it has happened already."""
        self._works[key] = work
        if len(self._works) > MAX_OWED:
            del self._works[next(iter(self._works))]
            _log.error("more than %d changes could not be saved; what they held counts as spent", MAX_OWED)

    async def pay(self) -> None:
        """Do the work, each piece in a transaction of its own.

        Raises:
            Whatever the store raises; the remaining work is then kept.
        """
        for key, work in list(self._works.items()):
            await self._run(work)
            self._works.pop(key, None)
