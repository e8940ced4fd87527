"""The client's side of WebSocket: a message is a frame, in both directions (a custom transport, subprotocol ``mcp``).

Owns the two tasks that read and write the socket. There is no reconnect: the session ends with the socket.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Literal

import aiohttp
from yarl import URL

from antiphon.errors import ConnectionClosed, Unauthorized
from antiphon.machine.asyncio_tasks import both_stopped, end_tasks, wait_at_most
from antiphon.machine.web_requests import origin_of, show_address
from antiphon.transports.http.client import error_replies, http_request
from antiphon.transports.inbox import ClosedOnce
from antiphon.transports.queued import QueuedChannel
from antiphon.transports.websocket import EXPIRED, SUBPROTOCOL

_HEARTBEAT = 30.0
"""Seconds between pings: less than the minute after which proxies close a silent connection."""

_FAREWELL = 2.0
"""Seconds for each step of the shutdown."""


class WebSocketClientChannel(ClosedOnce, QueuedChannel):
    """Frames to and from one WebSocket server. Made by ``open``."""

    is_framed = True

    def __init__(
        self, session: aiohttp.ClientSession, socket: aiohttp.ClientWebSocketResponse[Literal[False]], where: str
    ) -> None:
        self._work = asyncio.Event()
        super().__init__(self._work.set)
        self._session = session
        self._socket = socket
        self._where = where
        loop = asyncio.get_running_loop()
        self._reading = loop.create_task(self._read())
        self._writing = loop.create_task(self._write())

    @classmethod
    async def open(cls, to: error_replies.Dial) -> WebSocketClientChannel:
        """Connect to a WebSocket server (ws or wss).

        Raises ``ConfigError``: the address or a header cannot be used. Raises ``ConnectionClosed``: the server cannot
        be reached, or does not speak WebSocket there. Raises ``PeerError``: the server wants a login or more scopes
        (401, 403), as for a request.
        """
        target = http_request.check_url(to.url, ("ws", "wss"))
        sent = http_request.check_headers(to.headers or {})
        session = http_request.new_session(
            ssl=to.ssl, proxy=to.proxy, trust_env=to.trust_env, middlewares=(_staying_at(target),), access=to.access
        )
        entry = None if to.access is None else to.access.begin()

        async def connect() -> aiohttp.ClientWebSocketResponse[Literal[False]]:
            more: Mapping[str, str] = {} if entry is None else await entry.headers("GET", str(target.with_user(None)))
            return await session.ws_connect(
                target if entry is None else target.with_user(None),
                protocols=(SUBPROTOCOL,),
                headers={**sent, **more},
                max_msg_size=to.max_frame,
                heartbeat=_HEARTBEAT,
                decode_text=False,
            )

        try:
            async with asyncio.timeout(http_request.CONNECT_TIMEOUT) as limit:
                socket = await _let_in(show_address(target), connect, entry, lambda: both_stopped(to.pause, limit))
        except BaseException as error:
            await session.close()
            if isinstance(error, error_replies.HttpFailure) and error.code in error_replies.REFUSING:
                raise error.ended() from None
            reason = _why_not(error)
            if reason is None:
                raise
            raise ConnectionClosed(f"cannot open a WebSocket to {show_address(target)}: {reason}") from None
        return cls(session, socket, show_address(target))

    async def _read(self) -> None:
        try:
            while True:
                message = await self._socket.receive()
                if message.type not in (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY):
                    break
                self._inbox.put([message.data])
                if self._held.full is not None:
                    await self._held
        finally:
            self._lose(self._why_ended())

    def _why_ended(self) -> str:
        code = self._socket.close_code
        if code == EXPIRED:
            return (
                f"{self._where} closed the WebSocket, because the token it was opened with has expired: connect again"
            )
        if code == 1009:
            return f"A message of {self._where} was larger than the limit"
        return f"{self._where} closed the WebSocket" + ("" if code in (None, 1000, 1005) else f" (code {code})")

    async def _write(self) -> None:
        try:
            while self._outbox or not self._outbox.ended:
                await self._work.wait()
                self._work.clear()
                while (data := self._outbox.pop()) is not None:
                    await self._socket.send_frame(data, aiohttp.WSMsgType.TEXT)
        except (aiohttp.ClientError, OSError):
            self._lose(f"{self._where} is gone")

    async def _close(self) -> None:
        """Write what is queued, close the socket, and release everything."""
        alive = not self._inbox.ended
        self.end(f"The connection to {self._where} was closed on this side", drop=True)
        self._outbox.end()
        if alive:
            # The writer ends by itself when it has nothing more to write.
            await asyncio.wait((self._writing,), timeout=_FAREWELL)
        await end_tasks(self._writing, self._reading)
        await wait_at_most(_FAREWELL, self._socket.close())
        await self._session.close()


async def _let_in(
    where: str,
    connect: Callable[[], Awaitable[aiohttp.ClientWebSocketResponse[Literal[False]]]],
    entry: error_replies.RequestCredentials | None,
    pause: error_replies.Pause,
) -> aiohttp.ClientWebSocketResponse[Literal[False]]:
    """Connect; where that is refused, do what it takes to be let in, and connect again."""
    while True:
        try:
            return await connect()
        except aiohttp.WSServerHandshakeError as error:
            lines = () if error.headers is None else error.headers.getall("WWW-Authenticate", ())
            if error.status != 401 and not (error.status == 403 and lines):
                # Also a server that is full, or has nothing there, answers a handshake with 403.
                raise
            why = await _handle_refusal(error, lines, entry, pause)
            if why is not None:
                raise error_replies.HttpFailure.not_let_in(where, error.status, why) from None


async def _handle_refusal(
    error: aiohttp.WSServerHandshakeError,
    lines: Sequence[str],
    entry: error_replies.RequestCredentials | None,
    pause: error_replies.Pause,
) -> str | None:
    """Do what it takes to be let in; if nothing helps, say why not."""
    refused = f"{HTTPStatus(error.status).phrase}{error_replies.suggest_remedy(error.status)}"
    if entry is None or error.headers is None:
        return refused
    entry.answered(error.headers)
    try:
        with pause():
            again = await entry.refused(error.status, error.headers, lines, ask=True)
    except Unauthorized as failed:
        return failed.message
    return None if again else entry.why(error.status) or refused


def _staying_at(origin: URL) -> Any:
    """Return a hook that stops a handshake from following a redirect to another origin with our headers."""

    async def check(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        if origin_of(request.url) != origin_of(origin):
            raise error_replies.HttpFailure(
                error_replies.UNUSABLE, f"it redirects to another origin, {show_address(request.url)}"
            )
        return await handler(request)

    return check


def _why_not(error: BaseException) -> str | None:
    if isinstance(error, aiohttp.WSServerHandshakeError):
        return f"it answered HTTP {error.status}{error_replies.suggest_remedy(error.status)}"
    if isinstance(error, TimeoutError):
        return f"no answer within {http_request.CONNECT_TIMEOUT:g} s"
    if isinstance(error, error_replies.HttpFailure):
        return error.message
    return http_request.describe_error(error) if isinstance(error, aiohttp.ClientError | OSError) else None
