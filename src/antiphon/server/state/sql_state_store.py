"""A state store in a database: a SQLite file for the processes of one machine, or PostgreSQL.

Owns one table and when its rows are deleted. Each operation is one statement, so it is atomic.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from antiphon.errors import ConfigError
from antiphon.machine.state_store import CompareAndSetStore
from antiphon.sql.database_store import DatabaseStore

if TYPE_CHECKING:
    from sqlalchemy import Connection

T = TypeVar("T")

MAX_STORED = 1024 * 1024 * 1024
"""Most bytes a store in a database keeps; beyond that, what expires first is dropped. Most calls need a few
kilobytes."""
SWEEP = 60.0
"""Seconds between two sweeps of one process for what has expired or exceeds the limit."""

_log = logging.getLogger("antiphon.server")


class SqlStateStore(DatabaseStore, CompareAndSetStore):
    """A ``CompareAndSetStore`` in SQLite or PostgreSQL: for the processes of one server, on one machine or several.

    It opens when first used, and creates its table, ``server_states``, if that is missing. What is committed survives
    ``kill -9`` and a power cut. Close it when the server ends (``async with``, for instance in a lifespan).
    """

    def __init__(self, place: str | Path, *, limit: int = MAX_STORED, clock: Callable[[], float] | None = None) -> None:
        """Name the database; it is opened on first use.

        Args:
            place: a path, ``"sqlite:///path"`` or ``"postgresql://user@host/name"``; a new file gets mode 0600.
            limit: most bytes to keep, 1 GiB by default; may be exceeded for up to a minute.
            clock: returns seconds since the epoch; by default the machine's clock for a file, and the database's own
                clock for PostgreSQL, so that the clocks of its clients do not matter.

        Raises:
            ConfigError: the address is of another kind, the limit is not positive, or the packages of ``antiphon[sql]``
                (and ``antiphon[postgres]``) are missing.
        """
        if limit <= 0:
            raise ConfigError(f"SqlStateStore: limit is a number of bytes above 0, not {limit}")
        super().__init__(place)
        # Imported here, so that servers without such a store do not need its packages.
        from antiphon.server.state import state_table

        self._table, self._make = state_table, state_table.TABLES.make
        self._limit = limit
        self._clock = clock
        self._swept = -SWEEP
        self._sweeping: asyncio.Task[None] | None = None

    async def get(self, key: str) -> bytes | None:
        return await self._run(partial(self._table.get, key=key, at=self._now()), write=False)

    async def put(self, key: str, value: bytes, ttl: float) -> None:
        await self._store(partial(self._table.put, key=key, value=value, ttl=ttl, at=self._now()))

    async def add(self, key: str, value: bytes, ttl: float) -> bool:
        return await self._store(partial(self._table.add, key=key, value=value, ttl=ttl, at=self._now()))

    async def replace(self, key: str, value: bytes, ttl: float, *, expected: bytes) -> bool:
        replacing = partial(self._table.replace, key=key, value=value, ttl=ttl, expected=expected, at=self._now())
        return await self._store(replacing)

    async def delete(self, key: str) -> None:
        await self._run(partial(self._table.delete, key=key))

    async def sweep(self) -> None:
        """Delete what has expired or exceeds the limit. The store also does this itself, once a minute while in use."""
        await self._run(partial(self._table.sweep, limit=self._limit, at=self._now()))

    async def aclose(self) -> None:
        """Close the database; the store cannot be used afterwards."""
        if self._sweeping is not None and not self._sweeping.done():
            await asyncio.wait([self._sweeping])
        await super().aclose()

    async def _store(self, work: Callable[[Connection], T]) -> T:
        """Run something that stores. Now and then this starts a sweep, without waiting for it."""
        stored = await self._run(work)
        if time.monotonic() - self._swept >= SWEEP:
            self._swept = time.monotonic()
            self._sweeping = asyncio.create_task(self.sweep(), name="antiphon-state-sweep")
            self._sweeping.add_done_callback(_log_failed_sweep)
        return stored

    def _now(self) -> float | None:
        """Return the time, or ``None`` to use that of the database."""
        return None if self._clock is None else self._clock()


def _log_failed_sweep(sweeping: asyncio.Task[None]) -> None:
    """Log that a sweep failed; the next one deletes what this one left."""
    error = None if sweeping.cancelled() else sweeping.exception()
    if error is not None:
        _log.warning("the state store was not swept: %s", type(error).__name__)
