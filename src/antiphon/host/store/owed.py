"""Work for a store that could not be reached, to be done later.

Otherwise a failed settlement would keep its reservation as long as the process lives, and a question whose closing
failed would be shown to people although nobody waits for it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from sqlalchemy import Connection

__all__ = ["MAX_OWED", "Owed"]

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
