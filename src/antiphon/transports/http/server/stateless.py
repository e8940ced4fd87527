"""Requests that stand alone, so that any idle peer can serve them: all modern ones, and legacy ones without sessions.

2026-07-28 basic/transports/streamable-http. A peer that has answered with JSON holds no state of that request and
serves the next one; all others are dropped. Closing a stream cancels its request: of a modern one because the revision
says so, of a legacy one because nobody could receive its reply, or cancel it in any other way.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import ClassVar

from msgspec import UNSET

from antiphon.channel import Channel, Frame, Oversized, Peer
from antiphon.errors import ConnectionClosed
from antiphon.protocol.http.rules import status_of
from antiphon.transports.http.server.asgi import Http, RequestHeaders, send_empty
from antiphon.transports.http.server.entrance import EndpointSettings, schedule_expiry
from antiphon.transports.http.server.post_exchange import Exchange
from antiphon.wire.common import RequestParams
from antiphon.wire.envelope import Envelope, RequestId

Connect = Callable[[Channel, "str | None", Mapping[str, str], "str | None"], Peer]
"""Makes a peer from a channel, the principal, the headers, and the legacy revision of messages that stand alone."""

_POOL = 64


class _PooledChannel:
    """The channel of a pooled peer; it leads to the exchange that is being served."""

    __slots__ = ("exchange", "owner", "peer")

    def __init__(self, connect: Connect, http: Http, revision: str | None) -> None:
        self.exchange: _SingleExchange | None = None
        self.owner = http.principal, revision
        """Whose requests its peer serves, and at which legacy revision, if at one."""
        self.peer: Peer = connect(self, http.principal, RequestHeaders(http.headers), revision)

    async def receive(self) -> Sequence[bytes | Oversized]:
        """Return an empty sequence: every message is passed in directly."""
        return ()

    def send(self, frame: Frame) -> Awaitable[None] | None:
        exchange = self.exchange
        # "These notifications MUST relate to the originating client request."
        if exchange is None or frame.related_to != exchange.id:
            return None
        return exchange.take(frame)

    async def close(self) -> None:
        if self.exchange is not None:
            self.exchange.end(503)

    def closed_error(self) -> ConnectionClosed:
        return ConnectionClosed("The request has ended")


class _SingleExchange(Exchange, eq=False, kw_only=True):
    modern: ClassVar[bool] = True
    id: RequestId
    _peer: Peer
    _method: object
    holder: str = ""
    """The process that has to serve it instead."""

    def pass_on(self, holder: str) -> None:
        """Note that another process has to serve this."""
        self.holder = holder
        self._peer.withdraw(self.id, "another process serves it")

    def must_stream(self) -> bool:
        return self._method == "subscriptions/listen"

    def disconnected(self) -> None:
        # "Closing the SSE response stream MUST be treated by the server as cancellation of that request."
        self._peer.withdraw(self.id, "the client closed the stream")

    def expire(self) -> None:
        """End a stream that would go on for ever with the token it was opened with."""
        self._peer.withdraw(self.id, "the token has expired")
        self.end()


class _LegacySingleExchange(_SingleExchange, eq=False, kw_only=True):
    def _status_of(self, code: int | None) -> int:
        return status_of(code, modern=False)


class Stateless:
    """Serves messages that stand alone."""

    def __init__(self, connect: Connect, settings: EndpointSettings) -> None:
        self._connect = connect
        self._settings = settings
        self._lines: set[_PooledChannel] = set()
        """Those of all peers; one is busy while it leads to an exchange."""
        self._idle: list[_PooledChannel] = []
        self._closed = False

    async def serve(
        self,
        http: Http,
        envelope: Envelope,
        params: RequestParams | None,
        revision: str | None = None,
        *,
        pass_on: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        """Serve one message that was checked, and respond.

        ``params`` as in ``channel.Peer``; ``revision``: the legacy one that is assumed, if it is no modern message;
        ``pass_on``: has another process respond, if there are several.
        """
        line = self._take(http, revision)
        id = envelope.id
        if id is UNSET or id is None:
            if (wait := line.peer.tell(envelope)) is not None:
                await wait
            await self._keep(line)
            await send_empty(http, 202)
            return
        peer, caller = line.peer, http.caller
        kind = _SingleExchange if revision is None else _LegacySingleExchange
        exchange = line.exchange = kind(http, self._settings, id=id, _peer=peer, _method=envelope.method)
        timer = None if caller is None or not exchange.must_stream() else schedule_expiry(caller, exchange.expire)
        try:
            if pass_on is None:
                await peer.handle(envelope, waits=exchange.waits, params=params, caller=caller)
            else:
                await peer.handle(
                    envelope, waits=exchange.waits, params=params, caller=caller, pass_on=exchange.pass_on
                )
            if pass_on is not None and exchange.holder:
                await pass_on(exchange.holder)
            elif (wait := exchange.answer()) is not None:
                await wait
        finally:
            line.exchange = None
            if timer is not None:
                timer.cancel()
            if exchange.waited:
                exchange.let_go()
            if exchange.reply is None or exchange.gone:
                await self._drop(line)
            elif self._closed or peer.is_over or len(self._idle) >= _POOL:
                await self._keep(line)
            else:
                self._idle.append(line)

    async def _keep(self, line: _PooledChannel) -> None:
        """Keep a peer for its principal's next request; the one kept longest is dropped to make room."""
        if self._closed or line.peer.is_over:
            await self._drop(line)
            return
        self._idle.append(line)
        if len(self._idle) > _POOL:
            await self._drop(self._idle.pop(0))

    async def _drop(self, line: _PooledChannel) -> None:
        self._lines.discard(line)
        await line.peer.close()

    @property
    def is_busy(self) -> bool:
        """Whether a request is being served that will end by itself."""
        return any(line.exchange is not None and not line.exchange.must_stream() for line in self._lines)

    async def close(self) -> None:
        """End what is being served."""
        self._closed = True
        self._idle = []
        for line in list(self._lines):
            await line.peer.close()
            if line.exchange is not None:
                line.exchange.end(503)

    def _take(self, http: Http, revision: str | None) -> _PooledChannel:
        """Return the idle peer of this principal that was used last, or make one."""
        idle, owner = self._idle, (http.principal, revision)
        if idle and idle[-1].owner == owner:
            line = idle.pop()
        else:
            line = next((each for each in reversed(idle) if each.owner == owner), None)
            if line is None:
                line = _PooledChannel(self._connect, http, revision)
                self._lines.add(line)
                return line
            idle.remove(line)
        line.peer.headers = RequestHeaders(http.headers)
        return line
