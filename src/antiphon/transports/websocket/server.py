"""The server's side of WebSocket: an ASGI application that makes a channel for every socket (subprotocol ``mcp``).

A custom transport in every revision: each message is one frame, in both directions. Owns the handshake, its guards, and
both directions of a socket. ``serve`` handles the messages.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import CoroutineType
from typing import Any

from antiphon.channel import MAX_FRAME, Channel, Frame, Oversized, Take
from antiphon.errors import ConnectionClosed
from antiphon.protocol.http.rules import check_unambiguous
from antiphon.transports.backpressure import Room
from antiphon.transports.http.server.asgi import AtOnce, Receive, RequestHeaders, Scope, Send
from antiphon.transports.http.server.guards import CheckToken, Guard, TokenCheck
from antiphon.transports.inbox import Frames, Inbox
from antiphon.transports.outbox import Outbox

__all__ = ["SUBPROTOCOL", "Serve", "WebSocketApp"]

log = logging.getLogger(__name__)

SUBPROTOCOL = "mcp"

Serve = Callable[[Channel, str | None, Mapping[str, str]], Awaitable[None]]
"""``(channel, principal, headers of the opening request)``; returns when the peer or the channel has ended."""

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
        check_token: CheckToken | None = None,
        max_frame: int = MAX_FRAME,
        max_open: int = 5_000,
    ) -> None:
        self._serve = serve
        self._path = path.rstrip("/")
        self._guard = Guard(allowed_hosts, allowed_origins)
        self._tokens = TokenCheck(check_token) if check_token is not None else None
        self._max_frame = max_frame
        self._max_open = max_open
        self._channels: set[_Socket] = set()
        self._closed = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send, at_once: AtOnce | None = None) -> None:
        """Serve one ASGI scope."""
        if scope["type"] == "websocket":
            await self._meet(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            headers = [(b"content-length", b"0"), (b"upgrade", b"websocket"), (b"connection", b"upgrade")]
            await send({"type": "http.response.start", "status": 426, "headers": headers})
            await send({"type": "http.response.body", "body": b""})

    async def close(self) -> None:
        """Accept no more sockets, and close those that are open."""
        self._closed = True
        await asyncio.gather(*(channel.close() for channel in self._channels))

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self._closed = False
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await self.close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _meet(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        headers: dict[bytes, bytes] = dict(scope["headers"])
        offered: Sequence[str] = scope.get("subprotocols") or ()
        principal = await self._principal(scope, headers, offered)
        if isinstance(principal, _Nobody):
            # Closed before it is accepted, so the client gets 403.
            await send({"type": "websocket.close", "code": _REFUSED})
            return
        await send({"type": "websocket.accept", "subprotocol": SUBPROTOCOL if SUBPROTOCOL in offered else None})
        await self._run(_Socket(send, self._max_frame), receive, principal, RequestHeaders(headers))

    async def _principal(
        self, scope: Scope, headers: dict[bytes, bytes], offered: Sequence[str]
    ) -> str | _Nobody | None:
        """Return the principal that opens a socket, or that the socket must be refused."""
        if self._closed or len(self._channels) >= self._max_open:
            return _NOBODY
        if self._guard.check(headers) or check_unambiguous(scope["headers"], headers):
            return _NOBODY
        if not self._is_here(scope) or (offered and SUBPROTOCOL not in offered):
            return _NOBODY
        if self._tokens is None:
            return None
        return await self._tokens.principal(headers) or _NOBODY

    def _is_here(self, scope: Scope) -> bool:
        path: str = scope["path"]
        root: str = scope.get("root_path", "")
        if root and path.startswith(root):
            path = path[len(root) :]
        return path.rstrip("/") == self._path

    async def _run(self, channel: _Socket, receive: Receive, principal: str | None, headers: Mapping[str, str]) -> None:
        self._channels.add(channel)
        reading = asyncio.get_running_loop().create_task(channel.read(receive))
        try:
            await self._serve(channel, principal, headers)
        except Exception:
            log.exception("serving a WebSocket failed")
        finally:
            await channel.close()
            self._channels.discard(channel)
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)


class _Nobody:
    """The type of ``_NOBODY``, which means that the socket is refused; ``None`` means that tokens are not checked."""


_NOBODY = _Nobody()


class _Socket:
    """The channel of one socket."""

    def __init__(self, send: Send, max_frame: int) -> None:
        self._send = send
        self._max_frame = max_frame
        self._held = Room()
        self._inbox = Inbox(self._held.shut, self._held.open)
        self._work = asyncio.Event()
        self._outbox = Outbox(self._work.set)
        self._reason = ""
        self._gone = False
        self._closing: asyncio.Task[None] | None = None
        self._writing = asyncio.get_running_loop().create_task(self._write())

    def receive(self) -> CoroutineType[Any, Any, Frames]:
        return self._inbox.take()

    def offer_to(self, take: Take) -> None:
        self._inbox.take_now = take

    def send(self, frame: Frame) -> Awaitable[None] | None:
        return self._outbox.put(frame.data)

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
        self._end(reason)
        self._outbox.end(drop=True)

    def _end(self, reason: str, *, drop: bool = False) -> None:
        self._reason = self._reason or reason
        self._inbox.end(drop=drop)

    def closed_error(self) -> ConnectionClosed:
        return ConnectionClosed(self._reason or "The WebSocket was not closed")

    async def close(self) -> None:
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        self._end("The WebSocket was closed on this side", drop=True)
        self._outbox.end()
        await self._writing
        if self._gone:
            return
        try:
            async with asyncio.timeout(_STALL):
                await self._send({"type": "websocket.close", "code": _GOING_AWAY})
        except (TimeoutError, OSError, RuntimeError):
            log.debug("a WebSocket was gone before it could be closed")
