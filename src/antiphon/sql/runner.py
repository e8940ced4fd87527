"""Where transactions run: in a thread or at once for SQLite, on connections of the event loop for PostgreSQL.

Owns connections, and the atomicity of transactions. The work in a transaction is a plain function of a connection, the
same for both. SQLite gets one thread per store instead of an asyncio driver, because such a driver switches to its
thread and back for each statement, which takes longer than the statement. Even one switch for a transaction takes
longer than a brief transaction, so these run on the event loop while the thread has nothing to do.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory
from typing import Any, Protocol, TypeVar, cast
from urllib.parse import quote
from weakref import WeakSet

import msgspec
from sqlalchemy import URL, Connection, create_engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from antiphon.errors import ConfigError, LocalProtocolError
from antiphon.machine.asyncio_tasks import settle_future, start_in
from antiphon.machine.files import keep_from_others
from antiphon.sql.notices import ChannelNotices, WatchedFile

T = TypeVar("T")
Work = Callable[[Connection], T]

_BUSY = 5.0
"""Seconds to wait for the transactions of other processes; each takes about a millisecond."""
_POLL = 20
"""Milliseconds that SQLite waits for a lock, more and more slowly, before the transaction is begun anew. A process that
polled slowly would find the lock taken each time while another one has many transactions to do."""
_BRIEF = 0.05
"""Most seconds that a brief transaction may keep the event loop. After a longer one, as on a slow disk, all run in the
thread for ``_THREAD_ONLY`` times as long as it took."""
_THREAD_ONLY = 10.0
"""Slow transactions then take less than a tenth of the event loop's time. A call takes a fifth more processor time
in the thread, so a disk that stops for a moment must not keep all transactions there for seconds."""
_UNMERGED = 128
"""Transactions on the event loop, of some four pages each, after which the thread merges the log into the file. That
waits for the disk. SQLite does it by itself in the thread, once there are 1,000 pages."""
_OPENING = threading.Lock()
"""Held while a file is created and opened, so that no thread has it open while ``_make_file`` closes it."""
CLOSING = 5.0
"""Seconds that closing waits for running transactions, and as many again for connections to be closed."""
_AT_ONCE = 14
"""Most transactions at once on a server; its default bound for all clients together is 100 connections."""
_CONNECTING = 5.0
"""Seconds a server has to accept a connection."""
IDLE = 4.0
"""Seconds of inactivity after which the server ends a transaction, because its process has vanished and others wait for
it. Our transactions take milliseconds, so this only affects a process that was suspended or cut off."""
LOCKED = 8.0
"""Seconds the server waits for a lock: longer than ``IDLE``, so that a vanished holder is ended first."""
STATEMENT = 10.0
"""Most seconds the server works on one statement."""
TRANSACTION = 12.0
"""Seconds after which the connection of an unfinished transaction is given up: the server does not answer any more."""
_SETTINGS = {
    "idle_in_transaction_session_timeout": int(IDLE * 1000),
    "lock_timeout": int(LOCKED * 1000),
    "statement_timeout": int(STATEMENT * 1000),
    # A client that vanished is noticed after 10 + 3 * 5 seconds, which frees its locks and its connection.
    "tcp_keepalives_idle": 10,
    "tcp_keepalives_interval": 5,
    "tcp_keepalives_count": 3,
}
_log = logging.getLogger("antiphon.host")
_BOUND = "SELECT " + ", ".join(f"set_config('{name}', '{value}', false)" for name, value in _SETTINGS.items())


class DatabaseVersion(msgspec.Struct, frozen=True):
    """A version of a SQLite file, as one connection sees it."""

    driver: sqlite3.Connection
    others: int
    """Changes whenever another connection has changed the file."""
    own: int
    """Rows that this connection has changed."""
    undone: int
    """Transactions of this connection that were rolled back."""


class Runner(Protocol):
    """Runs functions in transactions."""

    _turn = -math.inf
    _loop: asyncio.AbstractEventLoop | None = None
    _process = 0

    def bind(self) -> asyncio.AbstractEventLoop:
        """Return the event loop that transactions are run for; it may be another one when the last has ended."""
        loop, process = asyncio.get_running_loop(), os.getpid()
        before = self._loop or loop
        # A forked child has neither the thread of a file, nor a right to its connection.
        if self._process not in (0, process) or (before is not loop and before.is_running()):
            raise LocalProtocolError("The store is in use in another process or event loop: make a store for each")
        self._loop, self._process = loop, process
        return loop

    def run(self, work: Work[T], *, write: bool = True, brief: bool = False) -> asyncio.Future[T]:
        """Run a function in a transaction, which is committed when it returns and rolled back when it raises.

        A transaction that has begun is finished even if the caller stops waiting. ``write=False`` promises that the
        function only reads, so that no other transaction waits for it. ``brief=True`` promises that it takes far less
        than a millisecond, so it may run on the event loop. If the connection is lost before the commit, the function
        is run once more.
        """
        ...

    @property
    def read_only(self) -> bool:
        """Whether nothing can be written there, as far as that is known before a transaction."""
        return False

    def last_turn(self) -> float:
        """Return when a transaction last began or ended, as ``time.monotonic`` counts."""
        return self._turn

    def notices(self, channel: str) -> ChannelNotices | None:
        """Return the notices of the database on a channel; ``None`` if it sends none."""
        return None

    def watched(self, statement: str) -> WatchedFile | None:
        """Return a watch on the one row that a statement returns; ``None`` if ``notices`` tell when it changes."""
        return None

    def version(self, connection: Connection, began: DatabaseVersion | None = None) -> DatabaseVersion | None:
        """Return what is equal only to versions of the same content; ``None`` if the database cannot tell.

        To be called within a transaction that writes. ``began``: the version at its beginning, for that after its
        changes, which counts only if it is committed: no later version is equal to it otherwise.
        """
        return None

    async def aclose(self) -> None:
        """Close all connections, within a limited time."""


class SqliteRunner(Runner):
    """One file, one thread, one connection."""

    def __init__(self, path: Path, *, durable: bool = False) -> None:
        """Name the file. ``durable``: what is committed survives a power cut, too."""
        self._path = path
        self._durable = durable
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="antiphon-store")
        self._connection: Connection | None = None
        self._file: tuple[Path, os.stat_result] | None = None
        """The path of the file that is open to be written, and what identifies that file."""
        self._merging: Connection | None = None
        """The connection of merges."""
        self._is_beside = False
        """Whether transactions went on during the last merge on its own connection."""
        self._closing = False
        self._copy: TemporaryDirectory[str] | None = None
        self._submitted = 0
        """Transactions that the thread has not ended yet, as the event loop knows."""
        self._is_on_loop: bool | None = None
        """Whether the connection is set up for the event loop, which waits for nothing; ``None`` if it is new."""
        self._unmerged = 0
        self._undone = 0
        self._thread_until = -math.inf

    @property
    def read_only(self) -> bool:
        """See ``Runner.read_only``. True for a file that exists and cannot be written, by its mode or its mount."""
        path = self._path.resolve()
        return path.exists() and not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK))

    def watched(self, statement: str) -> WatchedFile:
        """See ``Runner.watched``. The file must exist before it is watched."""
        return WatchedFile(self._path, statement)

    def version(self, connection: Connection, began: DatabaseVersion | None = None) -> DatabaseVersion:
        if began is not None:
            return DatabaseVersion(began.driver, began.others, began.driver.total_changes, self._undone)
        driver = _driver_of(connection)
        [others] = driver.execute("PRAGMA data_version").fetchone()
        return DatabaseVersion(driver, others, driver.total_changes, self._undone)

    def run(self, work: Work[T], *, write: bool = True, brief: bool = False) -> asyncio.Future[T]:
        """See ``Runner.run``. The transaction begins at once."""
        loop = self.bind()
        done: asyncio.Future[T] = loop.create_future()
        if brief and not self._submitted and self._run_here(done, work):
            return done
        self._submitted += 1
        # Sent to the loop directly: ``run_in_executor`` needs a second future, and one more turn of the loop,
        # each time.
        self._thread.submit(self._work, loop, done, work, write)
        return done

    async def aclose(self) -> None:
        """See ``Runner.aclose``. Transactions that have not begun after ``CLOSING`` seconds are dropped."""
        self._submitted += 1
        closing = asyncio.get_running_loop().run_in_executor(self._thread, self._close)
        await asyncio.wait([closing], timeout=CLOSING)
        self._closing = True
        self._thread.shutdown(wait=False)

    def _run_here(self, done: asyncio.Future[T], work: Work[T]) -> bool:
        """Run a brief transaction on the event loop; return whether it could begin.

        It cannot while another process has the lock, or while the disk is slow. Nothing here waits for the disk: what
        is committed is in the log, and the thread merges the log.
        """
        connection, began = self._connection, time.monotonic()
        if self._durable or self._closing or connection is None or began < self._thread_until:
            return False
        try:
            self._check_file()
            if self._is_on_loop is not True:
                self._set_up_for(connection, on_loop=True)
            driver = _driver_of(connection)
            driver.execute("BEGIN IMMEDIATE")
        except (OSError, sqlite3.Error):
            return False
        _run_transaction(done, partial(self._finish, connection, driver, work))()
        self._turn = time.monotonic()
        took = self._turn - began
        if took > _BRIEF:
            self._thread_until = self._turn + _THREAD_ONLY * took
        self._unmerged += 1
        if self._unmerged >= _UNMERGED:
            self._unmerged = 0
            # Only after a merge of the whole log does it begin anew, so every other one lets transactions wait.
            self._is_beside = not self._is_beside
            self._submitted += not self._is_beside
            self._thread.submit(self._merge, None if self._is_beside else asyncio.get_running_loop())
        return True

    def _merge(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """Merge the log into the file; ``loop`` is where transactions wait for it."""
        # Another process may be at it.
        with suppress(sqlite3.Error, DBAPIError):
            # It creates no file in the place of one that was deleted.
            place = _make_url(self._path.resolve(), mode="rw")
            self._merging = self._merging or _connect_database(place, _set_up_to_read)
            _driver_of(self._merging).execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        if loop is not None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._ended)

    def _ended(self, end: Callable[[], object] | None = None) -> None:
        self._turn = time.monotonic()
        self._submitted -= 1
        if end is not None:
            end()

    def _work(self, loop: asyncio.AbstractEventLoop, done: asyncio.Future[T], work: Work[T], write: bool) -> None:
        # The next one begins when this one ends.
        self._turn = time.monotonic()
        end = _run_transaction(done, partial(self._transact_in_turn, work, write))
        with suppress(RuntimeError):
            # The loop is closed, so nobody waits any more.
            loop.call_soon_threadsafe(self._ended, end)

    def _transact_in_turn(self, work: Work[T], write: bool) -> T:
        """Run a transaction, again and again while other processes have the lock."""
        until = self._turn + _BUSY
        while True:
            try:
                return self._transact(work, write)
            except (sqlite3.Error, DBAPIError) as error:
                if not _is_busy(error) or time.monotonic() >= until:
                    raise

    def _transact(self, work: Work[T], write: bool) -> T:
        if self._closing:
            raise ConnectionAbortedError("the store is closed")
        connection = self._connection or self._open()
        self._check_file()
        self._set_up_for(connection, on_loop=False)
        # Executed on the driver, because SQLAlchemy's work around a transaction takes longer than the
        # transaction. Immediate: the write lock is taken before anything is read, so that nothing read can be
        # outdated.
        driver = _driver_of(connection)
        driver.execute("BEGIN IMMEDIATE" if write else "BEGIN")
        return self._finish(connection, driver, work)

    def _check_file(self) -> None:
        """Check that the file is still there: SQLite writes to one that was deleted, and nobody would see it again."""
        if self._file is None:
            return
        path, opened = self._file
        try:
            if os.path.samestat(path.stat(), opened):
                return
        except FileNotFoundError:
            pass
        raise ConnectionAbortedError(
            f"{self._path}: was deleted or replaced while it was in use; put it back, or start again with the new file"
        )

    def _set_up_for(self, connection: Connection, *, on_loop: bool) -> None:
        """Set whether the connection waits for locks, and merges the log by itself."""
        if self._is_on_loop != on_loop:
            self._is_on_loop = on_loop
            for setting in (f"busy_timeout={0 if on_loop else _POLL}", f"wal_autocheckpoint={0 if on_loop else 1000}"):
                _driver_of(connection).execute(f"PRAGMA {setting}")

    def _finish(self, connection: Connection, driver: sqlite3.Connection, work: Work[T]) -> T:
        """Do the work of a transaction that has begun, and end it."""
        try:
            result = work(connection)
            # As a statement, which the driver keeps prepared; its ``commit`` would prepare one each time.
            driver.execute("COMMIT")
        except BaseException:
            self._undone += 1
            driver.rollback()
            connection.rollback()
            raise
        if connection.in_transaction():
            connection.commit()
        return result

    def _open(self) -> Connection:
        # Resolve links here: SQLite would create a missing target with a mode that lets everybody read it.
        path = self._path.resolve()
        with _OPENING:
            if self.read_only:
                self._connection = self._open_to_read(path)
            else:
                _make_file(path)
                # SQLite reads the file first: what is no database, and perhaps another program's, keeps its rights.
                opened = _connect_database(
                    URL.create("sqlite", database=str(path)), partial(_set_up, durable=self._durable)
                )
                try:
                    _keep_from_others(path)
                except ConfigError:
                    opened.close()
                    raise
                self._connection, self._file = opened, (path, path.stat())
        return self._connection

    def _open_to_read(self, path: Path) -> Connection:
        try:
            return _connect_database(_make_url(path, mode="ro"), _set_up_to_read)
        except DBAPIError:
            # Changes that a killed host has not merged can be read only if they can be merged, which
            # needs writing.
            log = path.with_name(f"{path.name}-wal")
            if not log.exists() or not log.stat().st_size:
                return _connect_database(_make_url(path, immutable="1"), _set_up_to_read)
            self._copy = TemporaryDirectory(prefix="antiphon-store-")
            copy = Path(self._copy.name) / path.name
            for file in (path, log):
                copyfile(file, copy.with_name(file.name))
            return _connect_database(URL.create("sqlite", database=str(copy)), _set_up)

    def _close(self) -> None:
        for connection in (self._merging, self._connection):
            if connection is not None:
                connection.close()
        self._merging = self._connection = None
        if self._copy is not None:
            self._copy.cleanup()
            self._copy = None


def _connect_database(url: URL, set_up: Callable[[sqlite3.Connection], None]) -> Connection:
    # The thread and the event loop use it in turn.
    engine = create_engine(url, poolclass=NullPool, hide_parameters=True, connect_args={"check_same_thread": False})
    event.listen(engine, "connect", partial(_prepare_connection, set_up))
    return engine.connect()


def _make_url(path: Path, **how: str) -> URL:
    return URL.create("sqlite", database=f"file:{quote(str(path))}", query={**how, "uri": "true"})


def _make_file(path: Path) -> None:
    """Create the file of a store with its mode, if it is missing; SQLite uses the same mode for the files beside it.

    An existing file must not be opened and closed here: closing it drops the locks that this process holds on it
    through SQLite, and another process would then remove the log we write to (sqlite.org/howtocorrupt.html). Raises
    ``ConfigError``: there is a folder, a pipe or a device.
    """
    if path.is_dir():
        raise ConfigError(f"{path}: is a folder; name a file in it, as in {path / 'host.db'}")
    if path.exists() and not path.is_file():
        raise ConfigError(f"{path}: is a pipe or a device, not a file")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _keep_from_others(path: Path) -> None:
    """Remove all rights to the files of a store from everybody but the owner.

    Raises ``ConfigError``: the rights cannot be changed.
    """
    for file in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        try:
            keep_from_others(file)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise ConfigError(f"{file}: others may read or write it: chmod 600 ({error.strerror})") from None


class PostgresRunner(Runner):
    """A few connections to a server."""

    def __init__(self, url: URL) -> None:
        # Imported here, so that users of files need not load it.
        from sqlalchemy.ext.asyncio import create_async_engine

        bounds = {"timeout": _CONNECTING, "command_timeout": TRANSACTION}
        self._engine = create_async_engine(
            url, pool_size=4, max_overflow=_AT_ONCE - 4, connect_args=bounds, hide_parameters=True
        )
        self._places = asyncio.Semaphore(_AT_ONCE)
        event.listen(self._engine.sync_engine, "connect", self._connected)
        self._options = {**self._engine.dialect.create_connect_args(url)[1], **bounds}
        self._notices: WeakSet[ChannelNotices] = WeakSet()
        self._running: set[asyncio.Task[Any]] = set()
        self._drivers: WeakSet[Any] = WeakSet()
        self._closing = False

    def run(self, work: Work[T], *, write: bool = True, brief: bool = False) -> asyncio.Future[T]:
        self.bind()
        # In a task of its own, because cancelling it halfway would leave the connection in an unknown state.
        return asyncio.shield(start_in(self._running, self._transact(work)))

    def notices(self, channel: str) -> ChannelNotices:
        notices = ChannelNotices(self._options, channel, self.run)
        self._notices.add(notices)
        return notices

    async def aclose(self) -> None:
        """See ``Runner.aclose``. What has not ended after ``CLOSING`` seconds is cut off."""
        for notices in list(self._notices):
            notices.close()
        if self._running:
            await asyncio.wait(self._running, timeout=CLOSING)
        self._closing = True
        await self._cut_off()
        try:
            async with asyncio.timeout(CLOSING):
                await self._engine.dispose()
        except TimeoutError:
            # The server does not answer on idle connections either.
            for driver in list(self._drivers):
                driver.terminate()

    async def _cut_off(self) -> None:
        """End the transactions that still wait for the server, with an error."""
        left = list(self._running)
        if not left:
            return
        for driver in list(self._drivers):
            driver.terminate()
        for transaction in left:
            # Cancels those that have no connection yet; the others have received their error already.
            transaction.cancel()
        await asyncio.wait(left)

    async def _transact(self, work: Work[T]) -> T:
        # Here and not in the pool, which would give up those that wait behind others.
        async with self._places:
            self._turn = time.monotonic()
            attempt = _Attempt()
            try:
                return await self._attempt_transaction(work, attempt)
            except DBAPIError as error:
                # A pooled connection may have been closed meanwhile, which is noticed only in use.
                if self._closing or attempt.over or not error.connection_invalidated:
                    raise
            return await self._attempt_transaction(work, _Attempt())

    async def _attempt_transaction(self, work: Work[T], attempt: _Attempt) -> T:
        async with self._engine.connect() as connection:
            attempt.driver = (await connection.get_raw_connection()).driver_connection
            # If it were cancelled instead, it would wait for the unresponsive server to roll back.
            deadline = asyncio.get_running_loop().call_later(TRANSACTION, attempt.give_up)
            try:
                result = await connection.run_sync(work)
                attempt.over = True
                await connection.commit()
            finally:
                deadline.cancel()
        return result

    def _connected(self, connection: DBAPIConnection, record: Any) -> None:
        """Set the limits of a new connection, for this connection only."""
        self._drivers.add(cast("Any", connection).driver_connection)
        cursor = connection.cursor()
        cursor.execute(_BOUND)
        cursor.close()
        connection.commit()


class _Attempt:
    over = False
    """Whether it must not be repeated: it may have been committed, or the server does not answer."""
    driver: Any = None
    """The connection of asyncpg, which has no types."""

    def give_up(self) -> None:
        """Close its connection."""
        self.over = True
        if self.driver is not None:
            self.driver.terminate()


def _driver_of(connection: Connection) -> sqlite3.Connection:
    driver: Any = connection.connection.dbapi_connection
    return driver


def _run_transaction(done: asyncio.Future[T], transact: Callable[[], T]) -> Callable[[], None]:
    try:
        return partial(settle_future, done, None, transact())
    except sqlite3.Error as error:
        # Wrap the error as SQLAlchemy does, whichever way the statement was run.
        return partial(settle_future, done, DBAPIError.instance(None, None, error, sqlite3.Error))
    except BaseException as error:
        return partial(settle_future, done, error)


def _is_busy(error: sqlite3.Error | DBAPIError) -> bool:
    found = error.orig if isinstance(error, DBAPIError) else error
    return (
        isinstance(found, sqlite3.OperationalError)
        and getattr(found, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
    )


def _prepare_connection(
    set_up: Callable[[sqlite3.Connection], None], connection: sqlite3.Connection, record: Any
) -> None:
    try:
        set_up(connection)
    except sqlite3.Error:
        # Nothing else uses it yet.
        connection.close()
        raise


def _set_up_to_read(connection: sqlite3.Connection) -> None:
    connection.isolation_level = None
    connection.execute(f"PRAGMA busy_timeout={_POLL}")
    # SQLite opens the file only now.
    connection.execute("SELECT name FROM sqlite_master LIMIT 1").fetchall()


def _set_up(connection: sqlite3.Connection, *, durable: bool = False) -> None:
    # Otherwise the driver would begin transactions by itself, and too late.
    connection.isolation_level = None
    for setting in (
        "journal_mode=WAL",
        # A killed process loses nothing; a power cut may lose the last transactions, but neither order nor
        # consistency.
        f"synchronous={'FULL' if durable else 'NORMAL'}",
        f"busy_timeout={_POLL}",
    ):
        connection.execute(f"PRAGMA {setting}")
