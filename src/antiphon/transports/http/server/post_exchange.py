"""One POST with a request: collects what the engine sends for it, and responds with JSON or a stream.

The response is JSON if nothing but the reply is sent; the first other frame, or a handler that takes long, turns it
into server-sent events. Needs no task, queue or future if the handler does not wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import ClassVar

from msgspec import Struct

from antiphon.channel import Frame
from antiphon.protocol.http.rules import HeaderPair, status_of
from antiphon.transports.http.server.asgi import Http, send_empty, send_json
from antiphon.transports.http.server.entrance import EndpointSettings, make_challenge
from antiphon.transports.http.server.sse_response import Carrier, ResponseStream

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
            return send_json(self._http, self._status_of(reply.code), reply.data, self._challenge(reply))
        return self.until_answered(responds=True)

    def _challenge(self, reply: Frame) -> tuple[HeaderPair, ...]:
        return make_challenge(self._http, reply.data, reply.code)

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
            extra += self._challenge(self.reply)
            await send_json(self._http, self._status_of(self.reply.code), self.reply.data, extra)
        else:
            # There is no reply, but every POST needs a response.
            await send_empty(self._http, self._status or 202)

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
        while (await self._http.receive())["type"] != "http.disconnect":
            pass
        self.gone = True
        if self._carrier is not None and self.stream is not None:
            self._carrier.stop(lost=True)
        self.disconnected()
        self._finish()
