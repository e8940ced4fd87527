"""Notices of a PostgreSQL server (``NOTIFY``), received over a connection that is used for nothing else.

Owns that connection, which is made again when it is lost. It counts as working only once a notice of our own has come
through it, since a proxy in between may accept ``LISTEN`` and pass nothing on.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any, cast

from sqlalchemy import Connection, func, select

_PROOF = "?"
"""Prefix of the notices that a process sends to itself to test the connection. No other notice begins so."""
_PROOF_WITHIN = 5.0
"""Seconds in which such a notice must arrive."""
PROVED = 30.0
"""Seconds between two tests, because a connection can be lost without an error."""
_AGAIN, _AGAIN_AT_MOST = 1.0, 60.0
"""Seconds before the connection is made again; doubled with each failure in a row."""
_log = logging.getLogger("antiphon.host")


class ChannelNotices:
    """The notices of one channel.

    ``options``: arguments with which the driver connects. ``say``: runs a statement over another connection.
    """

    def __init__(
        self, options: Mapping[str, Any], channel: str, say: Callable[[Callable[[Connection], None]], Awaitable[None]]
    ) -> None:
        self._options = options
        self._channel = channel
        self._say = say
        self._driver: Any = None
        self._closing = False
        self.are_heard = False
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

        driver = self._driver = await connect(**self._options)
        try:
            driver.add_termination_listener(note_end)
            await driver.add_listener(self._channel, heard)
            while not lost.is_set():
                proof = _PROOF + os.urandom(8).hex()
                proofs.add(proof)
                async with asyncio.timeout(_PROOF_WITHIN):
                    await self._say(self._saying(proof))
                    await proved.wait()
                proofs.clear()
                proved.clear()
                if not self.are_heard:
                    self.are_heard = True
                    told(None)
                with suppress(TimeoutError):
                    async with asyncio.timeout(PROVED):
                        await lost.wait()
        finally:
            self._driver = None
            driver.terminate()

    def _saying(self, notice: str) -> Callable[[Connection], None]:
        def say(connection: Connection) -> None:
            connection.execute(select(func.pg_notify(self._channel, notice)))

        return say
