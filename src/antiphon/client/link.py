"""The connection of a client, over its whole life: opened, reopened where the server has forgotten it, closed.

Owns which connection is the current one. How a target is reached is ``connect``'s, how a session is opened
``opening``'s business; what is called on it is the client's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Concatenate, ParamSpec, TypeVar

from msgspec import Struct

from antiphon.channel import Channel
from antiphon.client.answer import Answers
from antiphon.client.calls import Calls
from antiphon.client.connect import Address, Command, Opened, Serves, reach, speaks_oldest
from antiphon.client.headers import ToolHeaders
from antiphon.client.notices import Notices
from antiphon.client.opening import open_session
from antiphon.client.rounds import RoundLimits
from antiphon.engine.connection import Connection
from antiphon.errors import CallTimeout, ConnectionClosed, LocalProtocolError, PeerError
from antiphon.protocol.client_session import ClientSession
from antiphon.wire.common import Implementation, LoggingLevel
from antiphon.wire.revisions import Revision

__all__ = ["Link", "Settings"]

P = ParamSpec("P")
T = TypeVar("T")
Peer = Connection[ClientSession]


class Settings(Struct, frozen=True, kw_only=True):
    """What a connection is opened with. See ``Client``."""

    where: Serves | Command | Address
    allowed: tuple[Revision, ...]
    answers: Answers
    limits: RoundLimits
    info: Implementation
    log_level: LoggingLevel | None
    timeout: float | None
    notices: Notices
    headers: ToolHeaders
    errlog: Callable[[str], object] | None
    inherit_env: bool
    wrap: Callable[[Channel], Channel] | None


class Link:
    """One server's connection. See ``Client.connect`` for what opening raises."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._opened: Opened | None = None
        self._peer: Peer | None = None
        self._calls: Calls | None = None
        self._gate = asyncio.Lock()

    @property
    def is_open(self) -> bool:
        """Whether it was opened, and not closed since."""
        return self._peer is not None

    @property
    def session(self) -> ClientSession:
        """The rules of the current connection."""
        return self.calls.session

    @property
    def calls(self) -> Calls:
        """The calls of the current connection."""
        if self._peer is None or self._calls is None:
            raise LocalProtocolError("Not connected: use the client inside `async with`")
        return self._calls

    @property
    def is_http(self) -> bool:
        """Whether the server is reached by URL over HTTP."""
        where = self._settings.where
        return isinstance(where, Address) and where.url.startswith("http")

    async def run(self, call: Callable[Concatenate[Calls, P], Awaitable[T]], *args: P.args, **options: P.kwargs) -> T:
        """Make a call; if the server has forgotten the session, open another one and make it again.

        2025-11-25 basic/transports, Session Management: on 404 a client "MUST start a new session". The call is made
        again only if it was surely not carried out.
        """
        calls = self.calls
        if not self.is_http:
            return await call(calls, *args, **options)
        if calls.peer.is_over:
            calls = await self._renewed(calls)
        try:
            return await call(calls, *args, **options)
        except PeerError as error:
            from antiphon.transports.http_client.failures import has_session_gone

            if not has_session_gone(error):
                raise
        return await call(await self._renewed(calls), *args, **options)

    async def _renewed(self, old: Calls) -> Calls:
        """Open a new session in the place of one that is gone; calls that find it gone together share one."""
        async with self._gate:
            if self._calls is old:
                await self.open()
        return self.calls

    async def open(self) -> None:
        """Reach the server and open a session. See ``Client.connect``."""
        limit = self._settings.timeout
        try:
            async with asyncio.timeout(limit):
                too_old = speaks_oldest(self._settings.where)
                self._peer = await open_session(await self._reach(), self._settings.allowed, self._reach, too_old)
        except TimeoutError:
            failure = self._too_late()
            await self.close()
            raise failure from None
        except ConnectionClosed as error:
            cause = self._cause()
            await self.close()
            raise cause or error from None
        except BaseException:
            await self.close()
            raise

    async def _reach(self, *, oldest: bool = False) -> Peer:
        if (cause := self._cause()) is not None:
            # A server in memory that failed: starting it anew would hide why.
            raise cause
        await self.close()
        wanted = self._settings
        self._opened = await reach(wanted.where, errlog=wanted.errlog, inherit_env=wanted.inherit_env, oldest=oldest)
        wanted.headers.attach(self._opened.channel)
        channel = wanted.wrap(self._opened.channel) if wanted.wrap is not None else self._opened.channel
        session = ClientSession(wanted.info, wanted.answers.capabilities())
        session.set_log_level(wanted.log_level)
        calls = Calls(session, wanted.answers, wanted.where, wanted.limits)
        notices = wanted.notices
        peer = Connection(
            channel, session, calls.handlers(), notified=notices.take, ended=notices.ended, stops_clock=True
        )
        calls.peer = peer
        self._calls, self._peer = calls, peer
        peer.start()
        return peer

    async def close(self) -> None:
        """End the session and, if it is a child process, the server."""
        peer, self._peer = self._peer, None
        opened, self._opened = self._opened, None
        if peer is not None:
            await peer.close()
        if opened is not None and opened.serving is not None:
            await asyncio.wait([opened.serving])

    def _too_late(self) -> CallTimeout:
        said = self._opened.channel.closed_error().stderr if self._opened is not None else ""
        text = f"The server did not open a session within {self._settings.timeout:g} s"
        return CallTimeout(f"{text}\n--- stderr of the server ---\n{said}" if said else text)

    def _cause(self) -> BaseException | None:
        """Return what ended a server in memory: the real cause, where the channel only knows that it is gone."""
        serving = self._opened.serving if self._opened is not None else None
        if serving is None or not serving.done() or serving.cancelled():
            return None
        return serving.exception()
