"""How long callers wait for a database.

Owns the limit, and the error for a caller that has waited too long. A transaction that has begun is finished
nevertheless.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from antiphon.call_time import current

__all__ = ["PATIENCE", "Patience", "StoreStalled"]

T = TypeVar("T")

PATIENCE = 6.0
"""Seconds a request waits for each operation of a store. Longer than a process that vanished in the middle of a
transaction can block others (``runner.IDLE``), and short compared with the timeout of a call."""
_AGAIN = 0.5
"""Seconds to wait while the previous operation is still unanswered, so that no caller waits for the full time twice."""


class StoreStalled(OSError):
    """The store did not answer in time. The operation may still happen."""


class Patience:
    """The waiting of all callers of one store."""

    def __init__(self) -> None:
        self._stalled = False

    async def wait(self, waiting: Awaitable[T], seconds: float | None = None) -> T:
        """Wait for the store, ``PATIENCE`` seconds by default. The operation continues when the wait ends.

        Within a call it waits at most for the time that the call has left, and subtracts the time it took from that. It
        waits ``_AGAIN`` seconds even if no time is left, so that a person's decision is not lost for want of the
        milliseconds of a transaction.

        Raises:
            StoreStalled: it did not answer in time.
            Whatever ``waiting`` raises.
        """
        bound = _AGAIN if self._stalled else seconds or PATIENCE
        time = current()
        if time is not None and time.seconds is not None:
            bound = max(_AGAIN, min(bound, time.seconds))
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            async with asyncio.timeout(bound):
                result = await waiting
        except TimeoutError:
            self._stalled = True
            raise StoreStalled(f"the store did not answer within {bound:g} s") from None
        finally:
            if time is not None:
                time.spend(clock() - began)
        self._stalled = False
        return result
