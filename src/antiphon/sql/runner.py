"""Where transactions run: a thread of their own for SQLite, the event loop's connections for PostgreSQL.

Owns connections, and what makes a transaction whole. What is done within one is a plain function of a connection, the
same for both. SQLite has one thread per store, and no driver for asyncio: such a driver hops to its thread and back for
each statement, which takes longer than the statement.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import stat
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory
from typing import Any, Protocol, TypeVar, cast
from urllib.parse import quote
from weakref import WeakSet

from sqlalchemy import URL, Connection, create_engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from antiphon.errors import ConfigError

__all__ = ["CLOSING", "IDLE", "LOCKED", "STATEMENT", "TRANSACTION", "PostgresRunner", "Runner", "SqliteRunner"]

T = TypeVar("T")
Work = Callable[[Connection], T]

_BUSY = 5_000
"""Milliseconds SQLite waits for another process to finish its transaction; each takes about one."""
_OPENING = threading.Lock()
"""Held while a file is made and opened, so that nobody has it open while ``_make`` closes it."""
CLOSING = 5.0
"""Seconds that closing waits for transactions that have begun, and as many again for connections to be closed."""
_CONNECTING = 5.0
"""Seconds a server has to take a connection."""
IDLE = 4.0
"""Seconds a transaction may stand still before the server ends it: its process has vanished, and others wait for it.

Ours take some milliseconds, so only a process that was stopped, or cut off, is met by it."""
LOCKED = 8.0
"""Seconds the server waits for a lock: longer than ``IDLE``, so that one who vanished is outlasted."""
STATEMENT = 10.0
"""Seconds the server works on one statement."""
TRANSACTION = 12.0
"""Seconds after which a connection is given up whose transaction has not ended: the server does not answer any more."""
_SETTINGS = {
    "idle_in_transaction_session_timeout": int(IDLE * 1000),
    "lock_timeout": int(LOCKED * 1000),
    "statement_timeout": int(STATEMENT * 1000),
    # Whoever vanished without a word is noticed in 10 + 3 * 5 seconds, so that its locks and its connection are freed.
    "tcp_keepalives_idle": 10,
    "tcp_keepalives_interval": 5,
    "tcp_keepalives_count": 3,
}
_log = logging.getLogger("antiphon.host")
_BOUND = "SELECT " + ", ".join(f"set_config('{name}', '{value}', false)" for name, value in _SETTINGS.items())


class Runner(Protocol):
    """Runs functions within transactions."""

    def run(self, work: Work[T], *, write: bool = True) -> Awaitable[T]:
        """Run a function in a transaction: committed when it returns, undone when it raises.

        What has begun is finished even if nobody waits for it any more.
        ``write=False`` promises that it only reads; nobody waits for it then. Where the connection was lost before
        anything was committed, the function is run once more.
        """
        ...

    @property
    def read_only(self) -> bool:
        """Whether nothing can be written there."""
        ...

    async def aclose(self) -> None:
        """Close all connections, within a bounded time."""
        ...


class SqliteRunner:
    """One file, one thread, one connection."""

    def __init__(self, path: Path, *, durable: bool = False) -> None:
        """``durable``: what is committed outlives a power cut, too."""
        self._path = path
        self._durable = durable
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="antiphon-store")
        self._connection: Connection | None = None
        self._closing = False
        self._copy: TemporaryDirectory[str] | None = None

    @property
    def read_only(self) -> bool:
        """See ``Runner.read_only``: a file that is there, mounted so or without the right to write."""
        path = self._path.resolve()
        return path.exists() and not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK))

    def run(self, work: Work[T], *, write: bool = True) -> asyncio.Future[T]:
        """See ``Runner.run``. It is begun at once."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        # Told straight to the loop: ``run_in_executor`` needs a second future, and one more turn, for each transaction.
        self._thread.submit(self._work, loop, done, work, write)
        return done

    async def aclose(self) -> None:
        """See ``Runner.aclose``. What has not begun after ``CLOSING`` seconds does not happen any more."""
        closing = asyncio.get_running_loop().run_in_executor(self._thread, self._close)
        await asyncio.wait([closing], timeout=CLOSING)
        self._closing = True
        self._thread.shutdown(wait=False)

    def _work(self, loop: asyncio.AbstractEventLoop, done: asyncio.Future[T], work: Work[T], write: bool) -> None:
        try:
            end = partial(_succeed, done, self._transact(work, write))
        except sqlite3.Error as error:
            # As SQLAlchemy would have it, whoever ran the statement.
            end = partial(_fail, done, DBAPIError.instance(None, None, error, sqlite3.Error))
        except BaseException as error:
            end = partial(_fail, done, error)
        with suppress(RuntimeError):
            # The loop is closed: nobody waits any more.
            loop.call_soon_threadsafe(end)

    def _transact(self, work: Work[T], write: bool) -> T:
        if self._closing:
            raise ConnectionAbortedError("the store is closed")
        connection = self._connection or self._open()
        driver = cast("sqlite3.Connection", connection.connection.dbapi_connection)
        # Said to the driver: what SQLAlchemy does around a transaction takes longer than the transaction.
        # Immediate: the right to write is had before anything is read, so that nothing read can be out of date.
        driver.execute("BEGIN IMMEDIATE" if write else "BEGIN")
        try:
            result = work(connection)
        except BaseException:
            driver.rollback()
            connection.rollback()
            raise
        driver.commit()
        if connection.in_transaction():
            connection.commit()
        return result

    def _open(self) -> Connection:
        # A link is followed here, not by SQLite: it would make the file that is missing at its end for all to read.
        path = self._path.resolve()
        with _OPENING:
            if self.read_only:
                self._connection = self._open_to_read(path)
            else:
                _make(path)
                _keep_from_others(path)
                self._connection = _connected(
                    URL.create("sqlite", database=str(path)), partial(_set_up, durable=self._durable)
                )
        return self._connection

    def _open_to_read(self, path: Path) -> Connection:
        try:
            return _connected(_reading(path, mode="ro"), _set_up_to_read)
        except DBAPIError:
            # What a host that was killed has not merged yet can be read only where it can be merged.
            log = path.with_name(f"{path.name}-wal")
            if not log.exists() or not log.stat().st_size:
                return _connected(_reading(path, immutable="1"), _set_up_to_read)
            self._copy = TemporaryDirectory(prefix="antiphon-store-")
            copy = Path(self._copy.name) / path.name
            for file in (path, log):
                copyfile(file, copy.with_name(file.name))
            return _connected(URL.create("sqlite", database=str(copy)), _set_up)

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._copy is not None:
            self._copy.cleanup()
            self._copy = None


def _connected(url: URL, set_up: Callable[[sqlite3.Connection], None]) -> Connection:
    engine = create_engine(url, poolclass=NullPool, hide_parameters=True)
    event.listen(engine, "connect", partial(_prepare, set_up))
    return engine.connect()


def _reading(path: Path, **how: str) -> URL:
    return URL.create("sqlite", database=f"file:{quote(str(path))}", query={**how, "uri": "true"})


def _make(path: Path) -> None:
    """Make the file of a store for its mode, if it is not there; SQLite gives the same to those it keeps beside it.

    A file that is there must not be opened and closed by hand: closing it drops the locks that this process has on it
    through SQLite, and another process would then take away the log that we write to (sqlite.org/howtocorrupt.html).
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _keep_from_others(path: Path) -> None:
    """Take every right to the files of a store from everybody but its owner.

    Raises:
        ConfigError: that cannot be done.
    """
    for file in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        with suppress(FileNotFoundError):
            rights = stat.S_IMODE(file.stat().st_mode)
            # Elsewhere the bits say nothing of others.
            if os.name != "posix" or not rights & 0o077:
                continue
            try:
                file.chmod(rights & 0o700)
            except OSError as error:
                raise ConfigError(f"{file}: others may read or write it: chmod 600 ({error.strerror})") from None
            _log.warning("%s: others could read or write it; they cannot any more", file)


class PostgresRunner:
    """A few connections to a server."""

    read_only = False

    def __init__(self, url: URL) -> None:
        # Here, because whoever has a file need not load it.
        from sqlalchemy.ext.asyncio import create_async_engine

        bounds = {"timeout": _CONNECTING, "command_timeout": TRANSACTION}
        self._engine = create_async_engine(
            url, pool_size=4, pool_timeout=LOCKED, connect_args=bounds, hide_parameters=True
        )
        event.listen(self._engine.sync_engine, "connect", self._connected)
        self._running: set[asyncio.Task[Any]] = set()
        self._drivers: WeakSet[_Driver] = WeakSet()
        self._closing = False

    async def run(self, work: Work[T], *, write: bool = True) -> T:
        """See ``Runner.run``."""
        # In a task of its own: given up halfway, it would leave a connection of which nobody knows how it stands.
        transaction = asyncio.create_task(self._transact(work))
        self._running.add(transaction)
        transaction.add_done_callback(self._running.discard)
        return await asyncio.shield(transaction)

    async def aclose(self) -> None:
        """See ``Runner.aclose``. What has not ended after ``CLOSING`` seconds is cut off."""
        if self._running:
            await asyncio.wait(self._running, timeout=CLOSING)
        self._closing = True
        await self._cut_off()
        try:
            async with asyncio.timeout(CLOSING):
                await self._engine.dispose()
        except TimeoutError:
            # The server does not answer to those either that nobody uses.
            for driver in list(self._drivers):
                driver.terminate()

    async def _cut_off(self) -> None:
        """End what still waits for the server, with an error."""
        left = list(self._running)
        if not left:
            return
        for driver in list(self._drivers):
            driver.terminate()
        for transaction in left:
            # Of those that have no connection yet; the others have got their error already.
            transaction.cancel()
        await asyncio.wait(left)

    async def _transact(self, work: Work[T]) -> T:
        attempt = _Attempt()
        try:
            return await self._attempted(work, attempt)
        except DBAPIError as error:
            # A connection that was kept may have been closed meanwhile: nobody looks before it is used.
            if self._closing or attempt.over or not error.connection_invalidated:
                raise
        return await self._attempted(work, _Attempt())

    async def _attempted(self, work: Work[T], attempt: _Attempt) -> T:
        async with self._engine.connect() as connection:
            attempt.driver = cast("_Driver", (await connection.get_raw_connection()).driver_connection)
            # Cancelled instead, it would wait for a server that does not answer to roll back.
            deadline = asyncio.get_running_loop().call_later(TRANSACTION, attempt.give_up)
            try:
                result = await connection.run_sync(work)
                attempt.over = True
                await connection.commit()
            finally:
                deadline.cancel()
        return result

    def _connected(self, connection: DBAPIConnection, record: Any) -> None:
        """Set the bounds of a new connection, for itself alone."""
        self._drivers.add(cast("_Adapted", connection).driver_connection)
        cursor = connection.cursor()
        cursor.execute(_BOUND)
        cursor.close()
        connection.commit()


class _Attempt:
    """How far a transaction came."""

    over = False
    """Whether it must not be tried again: nobody knows if it happened, or the server does not answer."""
    driver: _Driver | None = None

    def give_up(self) -> None:
        """Close its connection."""
        self.over = True
        if self.driver is not None:
            self.driver.terminate()


class _Driver(Protocol):
    """A connection of asyncpg."""

    def terminate(self) -> None:
        """Close it at once, whatever waits."""
        ...


class _Adapted(Protocol):
    """A connection as SQLAlchemy has it."""

    driver_connection: _Driver


def _succeed(done: asyncio.Future[T], result: T) -> None:
    if not done.done():
        done.set_result(result)


def _fail(done: asyncio.Future[T], error: BaseException) -> None:
    if not done.done():
        done.set_exception(error)


def _prepare(set_up: Callable[[sqlite3.Connection], None], connection: sqlite3.Connection, record: Any) -> None:
    try:
        set_up(connection)
    except sqlite3.Error:
        # Nobody else has it yet.
        connection.close()
        raise


def _set_up_to_read(connection: sqlite3.Connection) -> None:
    connection.isolation_level = None
    connection.execute(f"PRAGMA busy_timeout={_BUSY}")
    # Only now the file is opened.
    connection.execute("SELECT name FROM sqlite_master LIMIT 1").fetchall()


def _set_up(connection: sqlite3.Connection, *, durable: bool = False) -> None:
    # The driver would begin transactions by itself, and too late.
    connection.isolation_level = None
    for setting in (
        "journal_mode=WAL",
        # A killed process loses nothing; a power cut may lose the last transactions, but never the order or the whole.
        f"synchronous={'FULL' if durable else 'NORMAL'}",
        f"busy_timeout={_BUSY}",
    ):
        connection.execute(f"PRAGMA {setting}")
