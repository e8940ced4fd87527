"""Notices when any process has changed a SQLite file: SQLite sends none, so the file is polled.

Owns the thread that polls, and its connection. A poll reads one number, which takes a few microseconds and no lock that
a writer waits for. It works alike on every system, and a killed process leaves nothing behind, unlike sockets between
the processes or the system's notices of changed files.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import quote

LOOK = 0.02
"""Seconds between two polls."""
_AGAIN = 1.0
"""Seconds before a file that could not be read is opened again."""
_ENDING = 1.0
"""Seconds that the thread has to close its connection."""
_log = logging.getLogger("antiphon.host")

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

        def end(error: sqlite3.Error | None) -> None:
            if error is None:
                ended.set_result(None)
            else:
                ended.set_exception(error)

        def run() -> None:
            error = None
            # The loop is closed, so nobody waits any more.
            with suppress(RuntimeError):
                try:
                    self._look(stop, lambda: loop.call_soon_threadsafe(changed))
                except sqlite3.Error as raised:
                    error = raised
                loop.call_soon_threadsafe(end, error)

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
