"""What a store must still be told, because it could not be reached when it was to be.

A settlement that fails for a lost connection would keep its reservation as long as the process lives, and a question
whose closing fails would be shown to people though nobody waits for it. Owns that such work is done later, and once.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from sqlalchemy import Connection

__all__ = ["MAX_OWED", "Owed"]

Work = Callable[[Connection], None]

MAX_OWED = 1_000
"""Pieces of work that are remembered; beyond, what came first is given up. It is put in order when the process ends."""

_log = logging.getLogger("antiphon.host")


class Owed:
    """Work to be done when the store can be reached again. ``run`` does some in a transaction."""

    def __init__(self, run: Callable[[Work], Awaitable[None]]) -> None:
        self._run = run
        self._works: dict[str, Work] = {}

    def __len__(self) -> int:
        return len(self._works)

    def add(self, key: str, work: Work) -> None:
        """Remember work; the same key twice is one. It must do no harm if it turns out to have happened already."""
        self._works[key] = work
        if len(self._works) > MAX_OWED:
            del self._works[next(iter(self._works))]
            _log.error("more than %d changes could not be saved; what they held counts as spent", MAX_OWED)

    async def pay(self) -> None:
        """Do what is remembered, each in a transaction of its own.

        Raises:
            Whatever the store raises; the rest is still remembered then.
        """
        for key, work in list(self._works.items()):
            await self._run(work)
            self._works.pop(key, None)
