"""How long anybody waits for a database.

Owns the bound, and the error of whoever has waited for too long. What was begun is finished all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

__all__ = ["PATIENCE", "Patience", "StoreStalled"]

T = TypeVar("T")

PATIENCE = 6.0
"""Seconds that a request waits for each thing it wants of a store: longer than it takes until whoever vanished in the
middle of a transaction is given up (``runner.IDLE``), short beside the patience of whoever made the call."""
_AGAIN = 0.5
"""Seconds of patience while the last thing that was wanted has not been answered: nobody waits out both."""


class StoreStalled(OSError):
    """The store did not answer in time. What it was told to do may still happen."""


class Patience:
    """The patience of those who use one store."""

    def __init__(self) -> None:
        self._stalled = False

    async def wait(self, waiting: Awaitable[T], seconds: float | None = None) -> T:
        """Wait for the store, ``PATIENCE`` seconds by default. To stop waiting must undo nothing.

        Raises:
            StoreStalled: it did not answer. Whatever ``waiting`` raises.
        """
        bound = _AGAIN if self._stalled else seconds or PATIENCE
        try:
            async with asyncio.timeout(bound):
                result = await waiting
        except TimeoutError:
            self._stalled = True
            raise StoreStalled(f"the store did not answer within {bound:g} s") from None
        self._stalled = False
        return result
