"""Reading the whole body of a request, limited in size and time, and serving several requests in one body.

Only 2025-03-26 has such a batch (basic/transports, "Sending Messages to the Server"). As JSON the replies are one
array; on a stream each one is an event.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Awaitable, Generator, Sequence
from typing import Any

from antiphon.channel import Frame
from antiphon.errors import InvalidRequest
from antiphon.protocol.http.rules import HttpRefusal
from antiphon.transports.http.server.asgi import Http, Message, send_empty
from antiphon.transports.http.server.entrance import EndpointSettings
from antiphon.transports.http.server.legacy_session import LegacyExchange, LegacySession, find_cancelled_id
from antiphon.wire.envelope import Envelope

GONE = HttpRefusal(400, InvalidRequest("The request was not finished"))
"""The client disconnected before its body was complete, so nobody reads this."""


async def read_body(http: Http, limit: int, patience: float) -> bytes | HttpRefusal:
    """Read the body. ``limit`` in bytes (beyond it 413), ``patience`` in seconds for all of it (408)."""
    length = http.headers.get(b"content-length")
    if length is not None and (not length.isdigit() or len(length) > 15 or int(length) > limit):
        return _too_large(limit)
    # Usually the whole body has arrived already, and then no timer is needed.
    receiving = http.receive().__await__()
    try:
        pending = receiving.send(None)
    except StopIteration as stop:
        message: Message = stop.value
        if message["type"] == "http.request" and not message.get("more_body"):
            whole: bytes = message.get("body", b"")
            return whole if len(whole) <= limit else _too_large(limit)
    else:
        try:
            async with asyncio.timeout(patience):
                message = await _go_on(receiving, pending)
        except TimeoutError:
            return _too_slow()
    body: bytes = message.get("body", b"")
    if message["type"] == "http.disconnect":
        return GONE
    if message.get("more_body"):
        return await _read_rest(http, body, limit, patience)
    return body if len(body) <= limit else _too_large(limit)


async def _read_rest(http: Http, first: bytes, limit: int, patience: float) -> bytes | HttpRefusal:
    pieces = [first]
    size = len(first)
    try:
        async with asyncio.timeout(patience):
            while True:
                message = await http.receive()
                if message["type"] == "http.disconnect":
                    return GONE
                pieces.append(message.get("body", b""))
                size += len(pieces[-1])
                if size > limit:
                    return _too_large(limit)
                if not message.get("more_body"):
                    return b"".join(pieces)
    except TimeoutError:
        return _too_slow()


@types.coroutine
def _go_on(begun: Generator[Any, Any, Message], pending: Any) -> Generator[Any, Any, Message]:
    """Continue to await something that was started already."""
    try:
        while True:
            try:
                value = yield pending
            except BaseException as error:
                pending = begun.throw(error)
            else:
                pending = begun.send(value)
    except StopIteration as stop:
        return stop.value


def _too_large(limit: int) -> HttpRefusal:
    return HttpRefusal(413, InvalidRequest(f"Invalid request: the limit is {limit} bytes"))


def _too_slow() -> HttpRefusal:
    return HttpRefusal(408, InvalidRequest("The body did not arrive in time"))


MAX_BATCH = 256
"""Most messages in one batch."""


class _BatchExchange(LegacyExchange, eq=False, kw_only=True):
    _replies: list[bytes]
    _left: int = 0

    def expect(self) -> None:
        self._left += 1

    def take(self, frame: Frame) -> Awaitable[None] | None:
        if not frame.final:
            return super().take(frame)
        self._left -= 1
        if frame.data:
            self._replies.append(frame.data)
        return self.send_collected()

    def withdrawn(self) -> None:
        self._left -= 1
        self.send_collected()

    def send_collected(self) -> Awaitable[None] | None:
        """Send the replies, if they can be sent now."""
        if self.stream is not None:
            for data in self._replies:
                self.stream.put(data)
            self._replies.clear()
            if self._left == 0:
                self.end()
        elif self._left == 0:
            return super().take(Frame(b"[%b]" % b",".join(self._replies), None, True))
        return None


async def serve_batch(
    http: Http,
    settings: EndpointSettings,
    session: LegacySession,
    messages: Sequence[Envelope],
    refused: Sequence[bytes],
) -> None:
    """Serve the requests among some messages; ``refused`` are replies to messages that could not be read."""
    exchange = _BatchExchange(http, settings, _session=session, _replies=list(refused))
    requests = [each for each in messages if isinstance(each.id, int | str) and isinstance(each.method, str)]
    for each in messages:
        if (cancelled := find_cancelled_id(each)) is not None and all(cancelled != request.id for request in requests):
            session.note_cancelled(cancelled)
    for each in requests:
        assert isinstance(each.id, int | str)
        exchange.expect()
        session.enter(each.id, exchange)
    try:
        exchange.waits()
        if not requests and refused:
            exchange.send_collected()
        serving = asyncio.gather(*(session.peer.handle(each, caller=http.caller) for each in messages))
        if requests or refused:
            await serving
            await exchange.until_answered()
            await exchange.respond()
        else:
            await serving
            await send_empty(http, 202)
    finally:
        if (forgetting := session.finish(exchange)) is not None:
            await forgetting
