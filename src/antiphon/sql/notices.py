"""Notices when another process has changed a database: PostgreSQL sends them, a SQLite file is polled.

Owns the connection that hears a PostgreSQL server (``NOTIFY``) and is used for nothing else; it is made again when it
is lost. It counts as working only once a notice of our own has come through it, since a proxy in between may accept
``LISTEN`` and pass nothing on.

Owns also the thread that polls a file, and its connection. A poll reads one number, which takes a few microseconds and
no lock that a writer waits for. It works alike on every system, and a killed process leaves nothing behind, unlike
sockets between the processes or the system's notices of changed files.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

from msgspec import Struct
from sqlalchemy import Connection, func, select

from antiphon.machine.asyncio_tasks import settle_future, wait_at_most

_PROOF = "?"
"""Prefix of the notices that a process sends to itself to test the connection. No other notice begins so."""
_PROOF_WITHIN = 5.0
"""Seconds in which such a notice must arrive."""
PROVED = 30.0
"""Seconds between two tests, because a connection can be lost without an error."""
_AGAIN, _AGAIN_AT_MOST = 1.0, 60.0
"""Seconds before the connection or the file is opened again; for a connection doubled with each failure in a row."""
_log = logging.getLogger("antiphon.host")


class ChannelNotices(Struct, eq=False, weakref=True):
    """The notices of one channel.

    ``options``: arguments with which the driver connects. ``say``: runs a statement over another connection.
    """

    _options: Mapping[str, Any]
    _channel: str
    _say: Callable[[Callable[[Connection], None]], Awaitable[None]]
    _driver: Any = None
    _closing: bool = False
    are_heard: bool = False
    """Whether notices arrive, as far as is known."""

    async def hear(self, told: Callable[[str | None], None]) -> None:
        """Call a function with each notice, until this is cancelled or closed.

        ``told`` gets ``None`` if notices may have been missed: when the connection is lost, and when it is made again.
        """
        pause = _AGAIN
        while not self._closing:
            try:
                await self._hear_once(told)
            except Exception as error:
                if not self._closing:
                    _log.warning("the database cannot be listened to: %s", type(error).__name__)
            finally:
                was_heard, self.are_heard = self.are_heard, False
            if was_heard:
                pause = _AGAIN
                told(None)
            if not self._closing:
                await asyncio.sleep(pause)
                pause = min(2 * pause, _AGAIN_AT_MOST)

    def close(self) -> None:
        """Give up the connection, and make no other."""
        self._closing = True
        if self._driver is not None:
            self._driver.terminate()

    async def _hear_once(self, told: Callable[[str | None], None]) -> None:
        """Connect and listen; return when the connection is lost."""
        # Imported here, since only PostgreSQL needs it. It has no types.
        connect = cast("Callable[..., Awaitable[Any]]", import_module("asyncpg").connect)
        lost, proofs = asyncio.Event(), set[str]()
        proved = asyncio.Event()

        def heard(_driver: object, _pid: int, _channel: str, notice: object) -> None:
            text = str(notice)
            if not text.startswith(_PROOF):
                told(text)
            elif text in proofs:
                proved.set()

        def note_end(_driver: object) -> None:
            lost.set()

        def say(connection: Connection) -> None:
            connection.execute(select(func.pg_notify(self._channel, proof)))

        driver = self._driver = await connect(**self._options)
        try:
            driver.add_termination_listener(note_end)
            await driver.add_listener(self._channel, heard)
            while not lost.is_set():
                proof = _PROOF + os.urandom(8).hex()
                proofs.add(proof)
                async with asyncio.timeout(_PROOF_WITHIN):
                    await self._say(say)
                    await proved.wait()
                proofs.clear()
                proved.clear()
                if not self.are_heard:
                    self.are_heard = True
                    told(None)
                await wait_at_most(PROVED, lost.wait())
        finally:
            self._driver = None
            driver.terminate()


LOOK = 0.02
"""Seconds between two polls."""
_ENDING = 1.0
"""Seconds that the thread has to close its connection."""

Told = Callable[[str | None], None]


class WatchedFile:
    """Tells when the result of a statement has changed, whoever has changed it.

    ``statement`` returns one row. It is run every ``LOOK`` seconds, so it must not take long.
    """

    def __init__(self, path: Path, statement: str) -> None:
        self._path = path
        self._statement = statement
        self.are_heard = False
        """Whether changes are noticed, as far as is known."""

    async def hear(self, told: Told) -> None:
        """Call a function with ``None`` after each change, until this is cancelled.

        It is also called when the first poll has succeeded, and when the file cannot be read any more.
        """
        is_known = False
        while True:
            try:
                await self._hear_once(told)
            except sqlite3.Error as error:
                # Logged once, not at every attempt: a store on a read-only disk can be read but never watched.
                if self.are_heard or not is_known:
                    _log.warning("the store's file cannot be watched: %s", type(error).__name__)
                is_known = True
            finally:
                was_heard, self.are_heard = self.are_heard, False
            if was_heard:
                told(None)
            await asyncio.sleep(_AGAIN)

    async def _hear_once(self, told: Told) -> None:
        """Start the thread, and wait for it. Raises what ended it."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()
        stop = threading.Event()

        def changed() -> None:
            if not stop.is_set():
                self.are_heard = True
                told(None)

        def run() -> None:
            error = None
            # The loop is closed, so nobody waits any more.
            with suppress(RuntimeError):
                try:
                    self._look(stop, lambda: loop.call_soon_threadsafe(changed))
                except sqlite3.Error as raised:
                    error = raised
                loop.call_soon_threadsafe(settle_future, ended, error)

        # A daemon, so that a program that never closes its store ends nevertheless.
        threading.Thread(target=run, name="antiphon-store-watch", daemon=True).start()
        try:
            await asyncio.shield(ended)
        finally:
            stop.set()
            done, _ = await asyncio.wait([ended], timeout=_ENDING)
            if done:
                # Retrieved, so that asyncio does not report it: it only says that the thread was stopped.
                ended.exception()

    def _look(self, stop: threading.Event, changed: Callable[[], object]) -> None:
        """Run the statement until it is time to stop; call a function when its result differs."""
        address = f"file:{quote(str(self._path.resolve()))}?mode=ro"
        seen: object = None
        with closing(sqlite3.connect(address, uri=True, isolation_level=None)) as connection:
            while not stop.is_set():
                found = connection.execute(self._statement).fetchone()
                if found != seen:
                    seen = found
                    changed()
                stop.wait(LOOK)
