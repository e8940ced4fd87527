"""The server's side of WebSocket: an ASGI application that makes a channel for every socket (subprotocol ``mcp``).

A custom transport in every revision: each message is one frame, in both directions. Owns the handshake, its guards, and
both directions of a socket. ``serve`` handles the messages.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from antiphon.channel import MAX_FRAME, Channel, Oversized
from antiphon.errors import InvalidRequest
from antiphon.machine.asyncio_tasks import end_tasks
from antiphon.protocol.caller import Caller
from antiphon.protocol.http.rules import Denied, Gate, HttpRefusal, check_unambiguous
from antiphon.transports.http.server import entrance
from antiphon.transports.http.server.asgi import Http, Receive, RequestHeaders, Scope, Send, send_response
from antiphon.transports.inbox import ClosedOnce
from antiphon.transports.queued import QueuedChannel
from antiphon.transports.websocket import EXPIRED, SUBPROTOCOL

log = logging.getLogger(__name__)

Serve = Callable[[Channel, Caller | None, Mapping[str, str]], Awaitable[None]]
"""``(channel, who opened it, headers of the opening request)``; returns when the peer or the channel has ended."""

_STALL = 30.0
"""Seconds without reading after which a client counts as gone."""

_REFUSED = 1008
_GOING_AWAY = 1001


class WebSocketApp:
    """Serves WebSocket at one path. Guards as in ``HttpApp``; ``max_open`` sockets, ``max_frame`` bytes per frame."""

    def __init__(
        self,
        serve: Serve,
        *,
        path: str = "/ws",
        allowed_hosts: Sequence[str] | None = None,
        allowed_origins: Sequence[str] | None = None,
        check_token: entrance.CheckToken | None = None,
        gate: Gate | None = None,
        max_frame: int = MAX_FRAME,
        max_open: int = 5_000,
    ) -> None:
        self._serve = serve
        self._path = path.rstrip("/")
        self._guard = entrance.Guard(allowed_hosts, allowed_origins)
        self._gate = entrance.TokenCheck(check_token) if check_token is not None else gate
        self._max_frame = max_frame
        self._max_open = max_open
        self._channels: set[_Socket] = set()
        self._closed = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI scope."""
        if scope["type"] == "websocket":
            await self._meet(scope, receive, send)
        elif scope["type"] == "http":
            await self.serve(Http(scope, receive, send))

    async def serve(self, http: Http) -> None:
        """Serve a request that opens no socket: a public document, or that this is a place for sockets."""
        document = None if self._gate is None else entrance.document_at(self._gate, http)
        if document is not None and not self._guard.check(http.headers):
            await entrance.send_document(http, document)
        else:
            await send_response(http, 426, ((b"upgrade", b"websocket"), (b"connection", b"upgrade")))

    async def close(self, *, drain: float = 0.0) -> None:
        """Accept no more sockets, and close those that are open at once: none would close by itself."""
        self._closed = True
        await asyncio.gather(*(channel.close() for channel in self._channels))

    async def _meet(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        headers: dict[bytes, bytes] = dict(scope["headers"])
        offered: Sequence[str] = scope.get("subprotocols") or ()
        caller = await self._caller(scope, headers, offered)
        if isinstance(caller, Denied):
            await _send_denial(scope, send, caller)
            return
        await send({"type": "websocket.accept", "subprotocol": SUBPROTOCOL if SUBPROTOCOL in offered else None})
        await self._run(_Socket(send, self._max_frame), receive, caller, RequestHeaders(headers))

    async def _caller(
        self, scope: Scope, headers: dict[bytes, bytes], offered: Sequence[str]
    ) -> Caller | Denied | None:
        """Return who opens a socket, or why the socket must be refused."""
        if self._closed or len(self._channels) >= self._max_open:
            return _NOBODY
        if self._guard.check(headers) or check_unambiguous(scope["headers"], headers):
            return _NOBODY
        if not self._is_here(scope) or (offered and SUBPROTOCOL not in offered):
            return _NOBODY
        if self._gate is None:
            return None
        found = await self._gate.admit("GET", self._path, headers)
        return found if isinstance(found, Denied) else found.caller

    def _is_here(self, scope: Scope) -> bool:
        # Mounted: ASGI leaves the prefix in the path.
        return scope["path"].removeprefix(scope.get("root_path", "")).rstrip("/") == self._path

    async def _run(self, channel: _Socket, receive: Receive, caller: Caller | None, headers: Mapping[str, str]) -> None:
        self._channels.add(channel)
        reading = asyncio.get_running_loop().create_task(channel.read(receive))
        # A socket carries no token after its opening, so it ends with the one it was opened with.
        timer = entrance.schedule_expiry(caller, channel.expire)
        try:
            await self._serve(channel, caller, headers)
        except Exception:
            log.exception("serving a WebSocket failed")
        finally:
            if timer is not None:
                timer.cancel()
            await channel.close()
            self._channels.discard(channel)
            await end_tasks(reading)


async def _send_denial(scope: Scope, send: Send, denied: Denied) -> None:
    """Refuse a socket before it is accepted: with the response of the gate where the server can send one, or 403."""
    if denied.headers and "websocket.http.response" in (scope.get("extensions") or {}):
        headers = [*denied.headers, (b"content-length", b"0")]
        await send({"type": "websocket.http.response.start", "status": denied.refusal.status, "headers": headers})
        await send({"type": "websocket.http.response.body", "body": b""})
    else:
        await send({"type": "websocket.close", "code": _REFUSED})


_NOBODY = Denied(HttpRefusal(403, InvalidRequest("Forbidden")))


class _Socket(ClosedOnce, QueuedChannel):
    is_framed = True

    def __init__(self, send: Send, max_frame: int) -> None:
        self._work = asyncio.Event()
        super().__init__(self._work.set)
        self._send = send
        self._max_frame = max_frame
        self._gone = False
        self._code = _GOING_AWAY
        self._writing = asyncio.get_running_loop().create_task(self._write())

    async def read(self, receive: Receive) -> None:
        """Receive frames until the client is gone."""
        while True:
            message = await receive()
            if message["type"] == "websocket.disconnect":
                self._lose("The client closed the WebSocket")
                return
            text: str | None = message.get("text")
            data: bytes = text.encode() if text is not None else message.get("bytes") or b""
            self._inbox.put([data if len(data) <= self._max_frame else Oversized(len(data))])
            if self._held.full is not None:
                await self._held

    async def _write(self) -> None:
        try:
            while self._outbox or not self._outbox.ended:
                await self._work.wait()
                self._work.clear()
                while (data := self._outbox.pop()) is not None:
                    async with asyncio.timeout(_STALL):
                        await self._send({"type": "websocket.send", "text": data.decode()})
        except TimeoutError:
            self._lose(f"The client read nothing for {_STALL:g} s")
        except (OSError, RuntimeError):
            # RuntimeError: some ASGI servers raise it for a send just after the end.
            self._lose("The client is gone")

    def _lose(self, reason: str) -> None:
        self._gone = True
        super()._lose(reason)

    def expire(self) -> None:
        """Take nothing more: the token it was opened with has expired, and the client is told so."""
        self._code = EXPIRED
        self.end("The token of the WebSocket has expired")

    async def _close(self) -> None:
        self.end("The WebSocket was closed on this side", drop=True)
        self._outbox.end()
        await self._writing
        if self._gone:
            return
        try:
            async with asyncio.timeout(_STALL):
                await self._send({"type": "websocket.close", "code": self._code})
        except (TimeoutError, OSError, RuntimeError):
            log.debug("a WebSocket was gone before it could be closed")
