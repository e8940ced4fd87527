"""How long callers wait for a database.

Owns the limit, and the error for a caller that has waited too long. A transaction that has begun is finished
nevertheless. A caller that waits behind others waits as long as these make progress: only the time since the database
last began or ended a transaction counts.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
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
    """The waiting of all callers of one store.

    Args:
        last_turn: returns when the database last began or ended a transaction, as ``time.monotonic`` counts.
    """

    def __init__(self, last_turn: Callable[[], float] = lambda: -math.inf) -> None:
        self._last_turn = last_turn
        self._stalled = False

    async def wait(self, waiting: Awaitable[T], seconds: float | None = None) -> T:
        """Wait for the store, ``PATIENCE`` seconds without progress by default. The operation continues after that.

        Within a call it waits at most for the time that the call has left, and subtracts the time it took from that. It
        waits ``_AGAIN`` seconds even if no time is left, so that a person's decision is not lost for want of the
        milliseconds of a transaction.

        Raises:
            StoreStalled: it did not answer in time.
            Whatever ``waiting`` raises.
        """
        bound = _AGAIN if self._stalled else seconds or PATIENCE
        time = current()
        left = math.inf if time is None or time.seconds is None else max(_AGAIN, time.seconds)
        bound = min(bound, left)
        loop = asyncio.get_running_loop()
        clock = loop.time
        began = clock()
        limit = asyncio.timeout(None)

        def look() -> None:
            nonlocal timer
            due = min(began + left, self._last_turn() + bound)
            if due <= clock():
                limit.reschedule(due)
            else:
                timer = loop.call_at(due, look)

        timer = loop.call_at(began + bound, look)
        try:
            async with limit:
                result = await waiting
        except TimeoutError:
            self._stalled = True
            raise StoreStalled(f"the store did not answer within {bound:g} s") from None
        finally:
            timer.cancel()
            if time is not None:
                time.spend(clock() - began)
        self._stalled = False
        return result
