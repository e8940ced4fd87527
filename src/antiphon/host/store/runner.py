"""Where transactions run: a thread of their own for SQLite, the event loop's connections for PostgreSQL.

Owns connections, and what makes a transaction whole. What is done within one is a plain function of a connection, the
same for both. SQLite has one thread per store, and no driver for asyncio: such a driver hops to its thread and back for
each statement, which takes longer than the statement.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol, TypeVar

from sqlalchemy import URL, Connection, create_engine, event
from sqlalchemy.pool import NullPool

__all__ = ["PostgresRunner", "Runner", "SqliteRunner"]

T = TypeVar("T")
Work = Callable[[Connection], T]

_BUSY = 10_000
"""Milliseconds SQLite waits for another process to finish its transaction; each takes about one."""


class Runner(Protocol):
    """Runs functions within transactions."""

    async def run(self, work: Work[T], *, write: bool = True) -> T:
        """Run a function in a transaction: committed when it returns, undone when it raises.

        ``write=False`` promises that it only reads; nobody waits for it then.
        """
        ...

    async def aclose(self) -> None:
        """Close all connections."""
        ...


class SqliteRunner:
    """One file, one thread, one connection."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="antiphon-store")
        self._connection: Connection | None = None
        self._begin = "BEGIN"

    async def run(self, work: Work[T], *, write: bool = True) -> T:
        """See ``Runner.run``. What is under way is finished even if nobody waits for it any more."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._transact, work, write)

    async def aclose(self) -> None:
        """See ``Runner.aclose``."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
        self._thread.shutdown(wait=False)

    def _transact(self, work: Work[T], write: bool) -> T:
        connection = self._connection or self._open()
        # Immediate: the right to write is had before anything is read, so that nothing read can be out of date.
        self._begin = "BEGIN IMMEDIATE" if write else "BEGIN"
        with connection.begin():
            return work(connection)

    def _open(self) -> Connection:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Made here for its mode; SQLite gives the same one to the files it keeps beside it.
        os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600))
        engine = create_engine(URL.create("sqlite", database=str(self._path)), poolclass=NullPool)
        event.listen(engine, "connect", _prepare)
        event.listen(engine, "begin", self._begun)
        self._connection = engine.connect()
        return self._connection

    def _begun(self, connection: Connection) -> None:
        connection.exec_driver_sql(self._begin)

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class PostgresRunner:
    """A few connections to a server."""

    def __init__(self, url: URL) -> None:
        # Here, because whoever has a file need not load it.
        from sqlalchemy.ext.asyncio import create_async_engine

        self._engine = create_async_engine(url, pool_size=4, pool_pre_ping=True)

    async def run(self, work: Work[T], *, write: bool = True) -> T:
        """See ``Runner.run``."""
        async with self._engine.begin() as connection:
            return await connection.run_sync(work)

    async def aclose(self) -> None:
        """See ``Runner.aclose``."""
        await self._engine.dispose()


def _prepare(connection: sqlite3.Connection, record: Any) -> None:
    # The driver would begin transactions by itself, and too late.
    connection.isolation_level = None
    for setting in (
        "journal_mode=WAL",
        # A killed process loses nothing; a power cut may lose the last transactions, but never the order or the whole.
        "synchronous=NORMAL",
        f"busy_timeout={_BUSY}",
    ):
        connection.execute(f"PRAGMA {setting}")
