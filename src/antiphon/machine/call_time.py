"""The time that a call of ours has left, including everything that is done for it.

One deadline covers listings, requests and the checks of the result. The clock is stopped while a person answers a
request of the server, because people need time to think. Time that a program needs to answer counts: code that waits
for one reads the time set by ``count_time``, waits no longer than that, and subtracts what it used.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from antiphon.errors import CallTimeout

T = TypeVar("T")


class TimeLeft:
    """The ``seconds`` that are left of those ``given``; ``None``: no limit."""

    __slots__ = ("given", "seconds")

    def __init__(self, given: float | None) -> None:
        self.given = given
        self.seconds = given

    @classmethod
    def of(cls, timeout: float | TimeLeft | None) -> TimeLeft:
        """Return the given time, or start one with a timeout."""
        return timeout if isinstance(timeout, TimeLeft) else cls(timeout)

    def spend(self, seconds: float) -> None:
        """Subtract time that was used."""
        if self.seconds is not None:
            self.seconds = max(0.0, self.seconds - seconds)

    @property
    def is_over(self) -> bool:
        """Whether no time is left."""
        return self.seconds is not None and self.seconds <= 0

    def too_late(self, what: str) -> CallTimeout:
        """Make the error for an exceeded timeout. ``what``: the method of the call."""
        return CallTimeout(f"{what} was not answered within {self.given:g} s")

    @asynccontextmanager
    async def limit(self, what: str) -> AsyncGenerator[None]:
        """Run a block with the time that is left as its timeout; raises ``CallTimeout`` if it took longer."""
        if self.is_over:
            raise self.too_late(what)
        clock = asyncio.get_running_loop().time
        began = clock()
        limit = asyncio.timeout(self.seconds)
        try:
            async with limit:
                yield
        except TimeoutError:
            if not limit.expired():
                raise
            raise self.too_late(what) from None
        finally:
            self.spend(clock() - began)


CURRENT: ContextVar[TimeLeft | None] = ContextVar("antiphon-call-time", default=None)
"""The time of the current call; ``None`` if there is none, or a person decides. Code that runs in every call sets it
directly, because ``count_time`` takes several times as long."""

CARRIED: ContextVar[Any] = ContextVar("antiphon-carried", default=None)
"""What whoever makes a call knows of it, for those who answer its asks: an older server's come to another task."""


@contextmanager
def hold_variable(variable: ContextVar[T], value: T) -> Generator[None]:
    """Give a context variable a value until the block has ended."""
    before = variable.set(value)
    try:
        yield
    finally:
        variable.reset(before)


def count_time(time: TimeLeft | None) -> AbstractContextManager[None]:
    """Set the time of the current call; ``None`` while a person decides, whose time does not count."""
    return hold_variable(CURRENT, time)
