"""The time that is left of a call's ``timeout``: one for all that the call needs.

A call may need more than its own requests: a list of the server's tools for whoever consents to it or for checking its
result, a new connection, another try. All of them spend from the same time. What a person takes is not counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from antiphon.errors import CallTimeout

__all__ = ["TimeLeft"]


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
