"""One POST with a request: collects what the engine sends for it, and responds with JSON or a stream.

The response is JSON if nothing but the reply is sent; the first other frame, or a handler that takes long, turns it
into server-sent events. Needs no task, queue or future if the handler does not wait.

Any idle peer can serve a request that stands alone: all modern ones, and legacy ones without sessions (2026-07-28
basic/transports/streamable-http). A peer that has answered with JSON holds no state of that request and serves the next
one; all others are dropped. Closing a stream cancels its request: of a modern one because the revision says so, of a
legacy one because nobody could receive its reply, or cancel it in any other way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import ClassVar

from msgspec import UNSET, Struct

from antiphon.channel import Channel, Frame, Oversized, Peer
from antiphon.errors import ConnectionClosed
from antiphon.protocol.http.rules import HeaderPair, status_of
from antiphon.transports.http.server.asgi import Http, RequestHeaders, send_json, send_response
from antiphon.transports.http.server.entrance import EndpointSettings, make_challenge, schedule_expiry
from antiphon.transports.http.server.sse_response import Carrier, ResponseStream
from antiphon.wire.common import RequestParams
from antiphon.wire.envelope import Envelope, RequestId

_UNWATCHED = 0.05
"""Seconds a handler may wait before the connection is watched; a reply before that saves the task."""


class Exchange(Struct, eq=False):
    """A request and its response; the subclasses have the differences between the eras.

    It is a struct because one is made for every request.
    """

    modern: ClassVar[bool] = False
    _http: Http
    _settings: EndpointSettings
    reply: Frame | None = None
    """The reply, while it can be sent as JSON."""
    stream: ResponseStream | None = None
    """The stream, once something other than the reply had to be sent."""
    gone: bool = False
    """Whether the client has closed the connection."""
    waited: bool = False
    """Whether the reply was not there at once."""
    _status: int | None = None
    _done: asyncio.Future[None] | None = None
    _timer: asyncio.TimerHandle | None = None
    _watch: asyncio.Task[None] | None = None
    _pump: asyncio.Task[None] | None = None
    _carrier: Carrier | None = None

    # --- for subclasses -----------------------------------------------------------------------------------------

    def new_stream(self) -> ResponseStream:
        """Make the stream for this request."""
        return ResponseStream()

    def disconnected(self) -> None:
        """Note that the client has closed the connection."""

    def aside(self, frame: Frame) -> Awaitable[None] | None:
        """Handle a frame that cannot be part of this response, because it must be JSON."""

    # --- called by the engine -----------------------------------------------------------------------------------

    def take(self, frame: Frame) -> Awaitable[None] | None:
        """Handle a frame that belongs to the request, as ``Channel.send`` does."""
        if self.stream is None:
            if frame.final:
                self.reply = frame
                self._finish()
                return None
            if self.reply is not None or self.gone or self._status is not None:
                return None
            if self._settings.json_only and not self.must_stream():
                return self.aside(frame)
            self.start_stream()
        assert self.stream is not None
        if not frame.data:
            self.stream.finish()
            self._finish()
            return None
        wait = self.stream.put(frame.data, last=frame.final)
        if frame.final:
            self._finish()
        return wait

    def must_stream(self) -> bool:
        """Tell whether this request cannot be answered with JSON at all."""
        return False

    def end(self, status: int = 202) -> None:
        """End the request without a reply. If no stream is open, the response has this status."""
        if self.stream is not None:
            self.stream.finish()
        elif self.reply is None:
            self._status = status
        self._finish()

    # --- course -------------------------------------------------------------------------------------------------

    def answer(self) -> Awaitable[None] | None:
        """Respond, after the peer was given the request. Returns an awaitable if that takes more than one step."""
        reply = self.reply
        if reply is not None and reply.data and not self.gone:
            if reply.code is None:
                return send_json(self._http, 200, reply.data)
            challenge = make_challenge(self._http, reply.data, reply.code)
            return send_json(self._http, self._status_of(reply.code), reply.data, challenge)
        return self.until_answered(responds=True)

    def _status_of(self, code: int | None) -> int:
        return status_of(code, modern=self.modern)

    async def until_answered(self, *, responds: bool = False) -> None:
        """Wait for a reply that comes later, or until it is clear that none will come.

        ``responds``: send the reply as well.
        """
        while not self._is_settled():
            self._done = asyncio.get_running_loop().create_future()
            self.waits()
            await self._done
        if responds:
            await self.respond()

    def _is_settled(self) -> bool:
        """Tell whether there is nothing more to wait for except data in flight to the client."""
        if self.stream is not None:
            # A legacy call continues without its client, and so does its stream.
            return self.stream.complete or self.modern
        return self.reply is not None or self._status is not None or self.gone

    async def respond(self, extra: tuple[HeaderPair, ...] = ()) -> None:
        """Send the reply, or wait until the stream has sent it."""
        if self._pump is not None:
            await self._pump
        elif self.gone or self.stream is not None:
            return
        elif self.reply is not None and self.reply.data:
            extra += make_challenge(self._http, self.reply.data, self.reply.code)
            await send_json(self._http, self._status_of(self.reply.code), self.reply.data, extra)
        else:
            # There is no reply, but every POST needs a response.
            await send_response(self._http, self._status or 202)

    def let_go(self) -> None:
        """Release what was started for the request. Must be called however it ended."""
        if self._timer is not None:
            self._timer.cancel()
        if self._watch is not None:
            self._watch.cancel()
        if self.stream is not None and self._carrier is not None:
            if self._pump is not None:
                self._pump.cancel()
                # A task that was cancelled before it started does not say that it has ended, and a client that has
                # reconnected waits for that.
                self._carrier.abandon()
            self.stream.unexpect(self._carrier)

    def waits(self) -> None:
        """Note that the handler takes time; if it takes longer, the connection is watched."""
        if not self.waited:
            self.waited = True
            self._timer = asyncio.get_running_loop().call_later(_UNWATCHED, self._begin_watch)

    def _begin_watch(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        self._watch = loop.create_task(self._watch_client())
        if self.stream is None and not self._settings.json_only:
            self._timer = loop.call_later(self._settings.patience - _UNWATCHED, self._lose_patience)

    def start_stream(self) -> None:
        """Respond with server-sent events from now on."""
        self.waits()
        self.stream = self.new_stream()
        if self.gone:
            return
        self._carrier = Carrier(self._http, self._settings.keep_alive)
        self.stream.expect(self._carrier)
        self._pump = asyncio.get_running_loop().create_task(self.stream.carry(self._carrier))
        self._finish()

    def release(self) -> None:
        """End the response but not the stream: the client reconnects for the rest."""
        if self.stream is None:
            self.start_stream()
        assert self.stream is not None
        self.stream.let_go()

    def _lose_patience(self) -> None:
        # As long as nothing is sent, a proxy may consider the connection dead.
        if self.stream is None and self.reply is None and not self.gone and self._status is None:
            self.start_stream()

    def _finish(self) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_result(None)

    async def _watch_client(self) -> None:
        await self._http.wait_gone()
        self.gone = True
        if self._carrier is not None and self.stream is not None:
            self._carrier.stop(lost=True)
        self.disconnected()
        self._finish()


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
        return None if exchange is None or frame.related_to != exchange.id else exchange.take(frame)

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
            await send_response(http, 202)
            return
        peer, caller = line.peer, http.caller
        kind = _SingleExchange if revision is None else _LegacySingleExchange
        exchange = line.exchange = kind(http, self._settings, id=id, _peer=peer, _method=envelope.method)
        timer = None if caller is None or not exchange.must_stream() else schedule_expiry(caller, exchange.expire)
        try:
            elsewhere = None if pass_on is None else exchange.pass_on
            await peer.handle(envelope, waits=exchange.waits, params=params, caller=caller, pass_on=elsewhere)
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
                # Without the function that decides it, for nearly every request.
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
