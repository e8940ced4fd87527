"""A store of a server in a database: opened on first use, closed with ``async with``.

Owns what such stores have in common; each adds its tables and the operations on them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from antiphon.sql.location import runner_at
from antiphon.sql.patience import Patience

if TYPE_CHECKING:
    from sqlalchemy import Connection

__all__ = ["DatabaseStore"]

T = TypeVar("T")


class DatabaseStore:
    """A store at a ``place``, as ``runner_at`` takes it."""

    _make: Callable[[Connection], object]
    """Creates the tables that are missing; set by the subclass, which imports its tables late."""

    def __init__(self, place: str | Path) -> None:
        self._runner = runner_at(place, extra="sql", durable=True)
        self._patience = Patience(self._runner.last_turn)
        self._ready = False

    async def aclose(self) -> None:
        """Close the database; the store cannot be used afterwards."""
        await self._runner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _run(self, work: Callable[[Connection], T], *, write: bool = True) -> T:
        """Run one piece of work in a transaction.

        Raises:
            StoreStalled: the database does not answer.
            Whatever the work raises.
        """
        if not self._ready:
            await self._patience.wait(self._runner.run(self._make))
            self._ready = True
        return await self._patience.wait(self._runner.run(work, write=write))
