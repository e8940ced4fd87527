"""The time that a call of ours has left, for all that is done for it.

One deadline covers what a call needs: listings, its requests, the checks of its result. While an ask is answered its
clock stands still, because a person may be thinking. What a machine takes meanwhile counts all the same: whoever waits
for one looks at the time that ``counting`` has set, waits no longer, and takes off it what it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar

from antiphon.errors import CallTimeout

__all__ = ["TimeLeft", "counting", "current"]


class TimeLeft:
    """``seconds`` that are left of those ``given``; ``None``: there is no limit."""

    __slots__ = ("given", "seconds")

    def __init__(self, given: float | None) -> None:
        self.given = given
        self.seconds = given

    @classmethod
    def of(cls, timeout: float | TimeLeft | None) -> TimeLeft:
        """Return what is left of a call, or begin with its timeout."""
        return timeout if isinstance(timeout, TimeLeft) else cls(timeout)

    def spend(self, seconds: float) -> None:
        """Take note that so much has passed."""
        if self.seconds is not None:
            self.seconds = max(0.0, self.seconds - seconds)

    @property
    def is_over(self) -> bool:
        """Whether nothing is left."""
        return self.seconds is not None and self.seconds <= 0

    def too_late(self, what: str) -> CallTimeout:
        """Make the error that says so. ``what``: the method of the call."""
        return CallTimeout(f"{what} was not answered within {self.given:g} s")

    @asynccontextmanager
    async def limit(self, what: str) -> AsyncGenerator[None]:
        """Let something take what is left, and no more.

        Raises:
            CallTimeout: it would have taken longer.
        """
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


_current: ContextVar[TimeLeft | None] = ContextVar("antiphon-call-time", default=None)


def current() -> TimeLeft | None:
    """Return the time of the call that is worked for here; ``None`` where none is known, or a person decides."""
    return _current.get()


@contextmanager
def counting(time: TimeLeft | None) -> Generator[None]:
    """Work for a call that has this time; with ``None`` for a person, whose time does not count."""
    token = _current.set(time)
    try:
        yield
    finally:
        _current.reset(token)
