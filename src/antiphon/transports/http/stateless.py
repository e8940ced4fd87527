"""Modern requests: each brings everything with it, so any idle peer can serve it.

2026-07-28 basic/transports/streamable-http. A peer that has answered without ever waiting holds nothing of that request
and serves the next; every other is let go of. Closing a stream cancels its request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from antiphon.channel import Channel, Frame, Oversized, Peer
from antiphon.errors import ConnectionClosed
from antiphon.transports.http.asgi import Http, RequestHeaders, send_empty
from antiphon.transports.http.exchange import Exchange
from antiphon.transports.http.settings import Settings
from antiphon.wire.envelope import Envelope, RequestId

__all__ = ["Connect", "Stateless"]

Connect = Callable[[Channel, "str | None", Mapping[str, str], bool], Peer]
"""Makes a peer: for a channel, who the client is, its headers, and whether it is modern."""

_POOL = 64


class _Line:
    """The channel of a pooled peer: it leads to whichever exchange is being served."""

    __slots__ = ("exchange", "headers", "peer", "principal")

    def __init__(self, connect: Connect, http: Http) -> None:
        self.exchange: _ModernExchange | None = None
        self.headers = RequestHeaders(http.headers)
        self.principal = http.principal
        self.peer: Peer = connect(self, self.principal, self.headers, True)

    async def receive(self) -> Sequence[bytes | Oversized]:
        """Say that nothing is to be received: every message is handed over."""
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


class _ModernExchange(Exchange):
    modern = True
    __slots__ = ("_listens", "_peer", "id")

    def __init__(self, http: Http, settings: Settings, peer: Peer, envelope: Envelope) -> None:
        super().__init__(http, settings)
        assert isinstance(envelope.id, int | str)
        self.id: RequestId = envelope.id
        self._peer = peer
        self._listens = envelope.method == "subscriptions/listen"

    def must_stream(self) -> bool:
        return self._listens

    def disconnected(self) -> None:
        # "Closing the SSE response stream MUST be treated by the server as cancellation of that request."
        self._peer.withdraw(self.id, "the client closed the stream")


class Stateless:
    """Serves modern messages."""

    def __init__(self, connect: Connect, settings: Settings) -> None:
        self._connect = connect
        self._settings = settings
        self._idle: list[_Line] = []
        self._busy: set[_Line] = set()
        self._closed = False

    async def serve(self, http: Http, envelope: Envelope) -> None:
        """Serve one message that was checked, and respond."""
        line = self._take(http)
        if not isinstance(envelope.id, int | str):
            await line.peer.handle(envelope)
            await self._put_back(line)
            await send_empty(http.send, 202)
            return
        exchange = line.exchange = _ModernExchange(http, self._settings, line.peer, envelope)
        self._busy.add(line)
        try:
            await exchange.serve(line.peer, envelope)
        finally:
            line.exchange = None
            self._busy.discard(line)
            if exchange.waited or exchange.reply is None:
                await line.peer.close()
            else:
                await self._put_back(line)

    async def _put_back(self, line: _Line) -> None:
        """Keep a peer for its principal's next request; the one that was kept longest makes room."""
        if self._closed or line.peer.is_over:
            await line.peer.close()
            return
        self._idle.append(line)
        if len(self._idle) > _POOL:
            await self._idle.pop(0).peer.close()

    @property
    def is_busy(self) -> bool:
        """Whether a request is being served that will end by itself."""
        return any(line.exchange is not None and not line.exchange.must_stream() for line in self._busy)

    async def close(self) -> None:
        """End what is being served."""
        self._closed = True
        idle, self._idle = self._idle, []
        for line in (*idle, *self._busy):
            await line.peer.close()
            if line.exchange is not None:
                line.exchange.end(503)

    def _take(self, http: Http) -> _Line:
        for at in range(len(self._idle) - 1, -1, -1):
            line = self._idle[at]
            if line.principal == http.principal:
                del self._idle[at]
                line.headers.raw = http.headers
                return line
        return _Line(self._connect, http)
