"""One request over HTTP: its POST, the stream of its reply, and resuming that stream (its ``Cursor``).

Owns what each kind of response means for the request. Unless it was cancelled, the request gets a reply in every case:
the server's, or one made here that says why there is none.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

from aiohttp import ClientError, ClientResponse

from antiphon.channel import Related
from antiphon.errors import RemoteProtocolError
from antiphon.protocol.http.sse import Event, EventParser
from antiphon.transports.http.client.error_replies import BROKEN, UNREACHABLE, UNUSABLE, HttpFailure, suggest_remedy
from antiphon.transports.http.client.http_request import read_body, show_address
from antiphon.transports.http.client.line import ClientLine
from antiphon.transports.http.client.message import OutgoingMessage, error_of, fits_no_request, read_refusal, replies_to
from antiphon.wire.envelope import RequestId, error_frame

log = logging.getLogger("antiphon.transports")

_LINGER = 1.0
"""Seconds a stream may stay open after the reply; if it ends normally, the connection can be reused."""

_MAX_FAILURES = 8
"""Failed reconnects in a row after which a call is given up: about 25 s, enough for a server to restart."""


class PostCall:
    """Sends one request and delivers its reply. Run ``run`` as a task; cancelling it closes the stream."""

    def __init__(
        self,
        line: ClientLine,
        message: OutgoingMessage,
        id: RequestId,
        data: bytes,
        is_open: Callable[[RequestId], bool],
    ) -> None:
        self.is_modern = line.notice(message)
        """Whether closing its stream cancels the request (2026-07-28)."""
        self._line = line
        self._message = message
        self._id = id
        self._data = data
        self._is_open = is_open
        self._cursor = Cursor()
        self.has_begun = False
        """Whether the server has begun to respond, so that the request was not refused."""
        self.is_cancelled = False
        """Whether the server is being told that nobody waits for the reply any more."""
        self._lost = False
        """Whether the server reported, when we tried to resume, that the session has ended."""
        self._opens = message.method == "initialize"

    async def run(self) -> None:
        """Send the request and deliver what comes back, the reply last."""
        try:
            # A subscription lasts as long as somebody listens: other calls must not wait for its place.
            has_place = self._message.method != "subscriptions/listen" and await self._line.places.take()
            try:
                await self._exchange()
            finally:
                if has_place:
                    self._line.places.free()
        except HttpFailure as failure:
            if not self.is_cancelled:
                await self._line.put(failure.frame(self._id))
            if self._lost:
                self._line.lose_session()
        except Exception as error:
            log.exception("an HTTP request failed")
            failure = HttpFailure(UNUSABLE, f"the request failed: {type(error).__name__}")
            await self._line.put(failure.frame(self._id))

    async def _exchange(self) -> None:
        headers = self._line.post_headers(self._message)
        response = await self._line.web.request("POST", headers, self._data, ask=True)
        while True:
            try:
                if await self._take(response):
                    return
            finally:
                response.release()
            response = await self._resume()

    async def _take(self, response: ClientResponse) -> bool:
        """Deliver the messages of a response; tell whether the reply was among them."""
        if response.status >= 300:
            refusal = await read_refusal(self._line.web, response)
            gone = self._has_lost_session(response, refusal.code)
            await self._line.put(refusal.reply(self._id, gone=gone))
            if gone:
                self._line.lose_session()
            return True
        self.has_begun = True
        if self._opens and response.method == "POST":
            self._line.joined(response)
        # MCP names no status for a reply: some frameworks answer each POST with 201.
        kind = response.content_type if response.status in (200, 201) else None
        if kind == "text/event-stream":
            return await self._stream(response)
        if kind == "application/json":
            await self._deliver(self._single(await read_body(response, self._line.max_frame)))
            return True
        raise HttpFailure(UNUSABLE, self._strange(response))

    def _strange(self, response: ClientResponse) -> str:
        if response.status not in (200, 201):
            return f"{self._line.web.where} answered HTTP {response.status}: it took the request and gives no reply"
        kind = response.headers.get("Content-Type", "none")[:100]
        return f"{self._line.web.where} answered with Content-Type {kind!r}, not JSON and no event stream"

    def _single(self, data: bytes) -> bytes:
        """Return the reply of a response without a stream."""
        if replies_to(data, self._id):
            return data
        error = error_of(data)
        if error is not None:
            # A server that could not read the id leaves it out; this error can only be about our request.
            return error_frame(self._id, error, null_id=False)
        raise HttpFailure(UNUSABLE, self._no_reply())

    def _no_reply(self) -> str:
        return f"{self._line.web.where} answered with what is no reply to the request"

    async def _stream(self, response: ClientResponse) -> bool:
        async with aclosing(read_events(response, self._cursor, self._line.max_frame)) as arriving:
            async for event in arriving:
                if event.event != "message":
                    continue
                if replies_to(event.data, self._id):
                    await self._deliver(event.data)
                    break
                if fits_no_request(event.data, self._is_open):
                    raise HttpFailure(UNUSABLE, self._no_reply())
                await self._line.put(Related.of(event.data, self._id))
            else:
                return False
        try:
            async with asyncio.timeout(_LINGER):
                while await response.content.readany():
                    pass
        except (TimeoutError, ClientError, OSError):
            response.close()
        return True

    def _deliver(self, reply: bytes) -> Awaitable[None]:
        if self._opens:
            self._line.agreed(reply)
        # A batch may hold asks beside the reply.
        return self._line.put(Related.of(reply, self._id))

    def _has_lost_session(self, response: ClientResponse, code: int | None) -> bool:
        # 2025-11-25 basic/transports: "When a client receives HTTP 404 in response to a request containing an
        # MCP-Session-Id ..."; but some servers use 404 for an unknown method, too, and say so in the body.
        return response.status == 404 and self._line.has_session(response) and code != -32601

    async def _resume(self) -> ClientResponse:
        """Reopen the stream where it ended (2025-11-25 basic/transports, "Resumability and Redelivery")."""
        cursor = self._cursor
        while not self.is_modern and cursor.last_id is not None and cursor.failures < _MAX_FAILURES:
            await asyncio.sleep(cursor.delay)
            cursor.failures += 1
            headers = self._line.stream_headers(cursor.last_id)
            try:
                # A call waits for the rest, so a person may be asked to sign in again.
                response = await self._line.web.request("GET", headers, ask=True)
            except HttpFailure as failure:
                if failure.code not in (UNREACHABLE, BROKEN):
                    raise
                continue
            if response.status == 200 and response.content_type == "text/event-stream":
                cursor.answered()
                return response
            response.release()
            if response.status < 500:
                self._lost = self._has_lost_session(response, None)
                raise HttpFailure(
                    BROKEN,
                    self._cut_off(
                        f", and gave HTTP {response.status} for the rest of it{suggest_remedy(response.status)}"
                    ),
                )
        raise HttpFailure(BROKEN, self._cut_off())

    def _cut_off(self, more: str = "") -> str:
        where, method = self._line.web.where, self._message.method
        return f"{where} ended the stream before the reply to {method}{more}: nobody knows whether it was carried out"


_FIRST_DELAY = 0.1
"""Seconds before the first reconnect if the server names no time; short, so that a brief interruption is not
noticed."""

_LONGEST_DELAY = 30.0
"""Most seconds between failing reconnects, unless the server names a longer time."""

_SHORTEST_DELAY = 0.02
"""Least seconds between reconnects, so that ``retry: 0`` of a server does not cause a busy loop."""

_MAX_ID = 1024
"""Longest event id kept, in characters; it is sent back in a header."""

_OVERHEAD = 64 * 1024
"""Bytes an event may have in addition to its frame: id, event name, field names."""


class Cursor:
    """Where and when a stream can be resumed."""

    def __init__(self) -> None:
        self.last_id: str | None = None
        """The id of the last event that had one, if it fits into a header."""
        self.failures = 0
        """Number of reconnects in a row that brought nothing."""
        self._retry: float | None = None

    def answered(self) -> None:
        """Note that a reconnect was accepted. A server that sets the retry time may then send nothing for long."""
        if self._retry is not None:
            self.failures = 0

    def note(self, event: Event) -> None:
        """Note the id and the retry time of an event."""
        self.failures = 0
        if event.retry is not None:
            self._retry = event.retry / 1000
        if event.id is not None:
            fits = len(event.id) <= _MAX_ID and event.id.isascii() and event.id.isprintable()
            # An empty id resets the position: there is nothing to resume from (WHATWG HTML, section 9.2).
            self.last_id = event.id if fits and event.id else None

    @property
    def names_delay(self) -> bool:
        """Whether the server has set the retry time."""
        return self._retry is not None

    @property
    def delay(self) -> float:
        """Seconds to wait before the next reconnect.

        2025-11-25 basic/transports: "The client MUST respect the retry field"; failures in a row can only lengthen it.
        """
        backoff = min(_FIRST_DELAY * 2 ** min(self.failures, 16), _LONGEST_DELAY)
        if self._retry is None:
            return backoff
        return max(self._retry, backoff if self.failures else 0.0, _SHORTEST_DELAY)


async def read_events(response: ClientResponse, cursor: Cursor, max_frame: int) -> AsyncGenerator[Event]:
    """Yield the events of a response that carry a message, until it ends for whatever reason.

    Raises:
        HttpFailure: an event is too large.
    """
    parser = EventParser(max_frame + _OVERHEAD)
    try:
        async for chunk in response.content.iter_any():
            for event in parser.feed(chunk):
                cursor.note(event)
                if event.data:
                    yield event
    except (ClientError, OSError):
        # The connection broke: complete events were yielded, the rest can only be resumed.
        return
    except RemoteProtocolError as error:
        raise HttpFailure(UNUSABLE, f"{show_address(response.url)} cannot be read: {error}") from None
