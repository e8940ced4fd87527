"""The server's side of HTTP+SSE: a stream for each client, and an address to post to.

2024-11-05 basic/transports, "HTTP with SSE"; deprecated since 2025-03-26. Owns the two endpoints, their guards, and the
sessions that connect them. ``serve`` handles the messages.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from urllib.parse import parse_qs, quote

from antiphon.channel import MAX_FRAME, Channel, Vouched
from antiphon.errors import InvalidRequest, ParseError
from antiphon.protocol.caller import Caller
from antiphon.protocol.http.rules import Gate, HttpRefusal, check_body_type, check_unambiguous, is_request
from antiphon.protocol.http.sse import encode_event
from antiphon.transports.http.server import asgi, entrance
from antiphon.transports.http.server.entrance import CheckToken, Guard, TokenCheck
from antiphon.transports.http.server.legacy_session import MAX_BATCH, EarlyCancellations, find_cancelled_id
from antiphon.transports.http.server.sse_response import Carrier, Lost
from antiphon.transports.queued import QueuedChannel
from antiphon.wire.envelope import RequestId, decode_envelope, split_batch

log = logging.getLogger(__name__)

Serve = Callable[[Channel, Caller | None, Mapping[str, str]], Awaitable[None]]
"""``(channel, who opened it, headers of the opening request)``; returns when the peer or the channel has ended."""

_POST_PATH, _PARAMETER = "/messages", "session_id"

_MAX_CAME = 1_000
"""Latest requests whose ids are remembered: as many as one client may have open (``engine.connection.MAX_SERVED``)."""

_NOT_FOUND = HttpRefusal(404, InvalidRequest("Not found"))


class SseApp:
    """Serves HTTP+SSE at two paths. Guards as in ``HttpApp``; at most ``max_sessions`` streams at once.

    ``max_body`` in bytes; ``body_timeout`` and ``keep_alive`` (silence before a comment is sent) in seconds.
    """

    def __init__(
        self,
        serve: Serve,
        *,
        path: str = "/sse",
        allowed_hosts: Sequence[str] | None = None,
        allowed_origins: Sequence[str] | None = None,
        check_token: CheckToken | None = None,
        gate: Gate | None = None,
        max_body: int = MAX_FRAME,
        body_timeout: float = 30.0,
        keep_alive: float = 15.0,
        max_sessions: int = 5_000,
    ) -> None:
        self._serve = serve
        self._path = path.rstrip("/")
        self._guard = Guard(allowed_hosts, allowed_origins)
        self._gate = TokenCheck(check_token) if check_token is not None else gate
        self._max_body = max_body
        self._body_timeout = body_timeout
        self._keep_alive = keep_alive
        self._max_sessions = max_sessions
        self._sessions: dict[str, _Session] = {}
        self._closed = False

    async def __call__(self, scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
        """Serve one ASGI scope."""
        if scope["type"] == "http":
            await self.serve(asgi.Http(scope, receive, send))
        else:
            await receive()
            await send({"type": "websocket.close", "code": 1008})

    async def close(self, *, drain: float = 0.0) -> None:
        """Accept no more clients, and end the streams of the present ones at once: none would end by itself."""
        self._closed = True
        await asyncio.gather(*(session.close() for session in self._sessions.values()))

    async def serve(self, http: asgi.Http) -> None:
        """Serve a request."""
        refusal = self._guard.check(http.headers) or check_unambiguous(http.pairs, http.headers)
        if refusal is not None:
            await asgi.send_refusal(http, refusal)
            return
        served_at = {self._path: ("GET", self._stream), _POST_PATH: ("POST", self._post)}
        if entrance.answers_page(http):
            await entrance.send_preflight(http, b"GET, POST")
        elif self._gate is not None and (document := entrance.document_at(self._gate, http)) is not None:
            await entrance.send_document(http, document)
        elif (served := served_at.get(path := http.local_path.rstrip("/"))) is None:
            await asgi.send_refusal(http, _NOT_FOUND)
        elif self._gate is None or await entrance.admit_request(http, self._gate, path):
            # The token comes first: a client that tries the newer transport learns what it needs, and comes back.
            method, work = served
            await (work(http) if http.method == method else asgi.send_refusal(http, asgi.NOT_ALLOWED))

    # --- the stream ---------------------------------------------------------------------------------------------

    async def _stream(self, http: asgi.Http) -> None:
        if self._closed or len(self._sessions) >= self._max_sessions:
            await asgi.send_unavailable(http, "The server is closing or has too many clients")
            return
        # 128 random bits: anyone who knows the address can send messages as this client.
        id = secrets.token_urlsafe(16)
        session = self._sessions[id] = _Session(Carrier(http, self._keep_alive), http.principal)
        session.keep_for(http.caller)
        endpoint = f"{quote(http.root_path)}{_POST_PATH}?{_PARAMETER}={id}"
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(session.write(endpoint)), loop.create_task(_watch_client(http, session))]
        try:
            await self._serve(session, http.caller, asgi.RequestHeaders(http.headers))
        except Exception:
            log.exception("serving an event stream failed")
        finally:
            del self._sessions[id]
            await session.close()
            tasks[1].cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # --- messages -----------------------------------------------------------------------------------------------

    async def _post(self, http: asgi.Http) -> None:
        # A web page cannot send this type without a CORS preflight.
        if (refusal := check_body_type(http.headers)) is not None:
            await asgi.send_refusal(http, refusal)
            return
        named = parse_qs(http.query.decode("latin-1")).get(_PARAMETER, [""])
        session = self._sessions.get(named[0])
        if session is None or session.principal != http.principal:
            await asgi.send_refusal(http, asgi.NO_SESSION)
            return
        body = await asgi.read_body(http, self._max_body, self._body_timeout)
        if isinstance(body, HttpRefusal):
            await asgi.send_refusal(http, body)
            return
        if http.caller is not None:
            session.keep_for(http.caller)
            body = Vouched.by(body, http.caller)
        await session.take(body)
        await asgi.send_response(http, 202)


async def _watch_client(http: asgi.Http, session: _Session) -> None:
    """End a session when its client goes away."""
    await http.wait_gone()
    session.lose("The client closed its event stream")


class _Session(QueuedChannel):
    is_framed = True

    def __init__(self, carrier: Carrier, principal: str | None) -> None:
        self.principal = principal
        super().__init__(carrier.wake)
        self._carrier = carrier
        self._cancelled = EarlyCancellations()
        self._came: dict[RequestId, None] = {}
        """Ids of the latest requests: a cancellation of one of these is late, not early."""
        self._expiry: asyncio.TimerHandle | None = None

    def keep_for(self, caller: Caller | None) -> None:
        """Let the stream live as long as the newest token of its principal, that of its opening or of a message."""
        timer = entrance.schedule_expiry(caller, lambda: self.end("The token of the event stream has expired"))
        if timer is not None and self._expiry is not None and self._expiry.when() > timer.when():
            timer.cancel()
        elif timer is not None:
            self._drop_expiry()
            self._expiry = timer

    def _drop_expiry(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()

    async def take(self, data: bytes) -> None:
        """Handle a message that was posted; wait while too many are waiting."""
        if (left := self._without_cancelled(data)) is not None:
            self._inbox.put([left])
        if self._held.full is not None:
            await self._held

    def _without_cancelled(self, data: bytes) -> bytes | None:
        """Return what was posted without requests that were cancelled before they came; ``None`` if that was all."""
        try:
            batch = split_batch(data)
            if batch is None:
                return data if self._begins(data) else None
        except (InvalidRequest, ParseError):
            # The session says what is wrong with it.
            return data
        # The session refuses a batch that has more.
        left = [bytes(each) for each in batch[:MAX_BATCH] if self._begins(bytes(each))]
        if len(batch) > MAX_BATCH or len(left) == len(batch):
            return data
        return b"[%b]" % b",".join(left) if left else None

    def _begins(self, message: bytes) -> bool:
        """Note the ids in a message; return ``False`` for a request that was cancelled before it came."""
        try:
            envelope = decode_envelope(message)
        except (InvalidRequest, ParseError):
            return True
        cancelled = find_cancelled_id(envelope)
        if cancelled is not None and cancelled not in self._came:
            self._cancelled.note(cancelled)
        if not is_request(envelope) or not isinstance(envelope.id, int | str):
            return True
        if self._cancelled.meet(envelope.id):
            return False
        while len(self._came) >= _MAX_CAME:
            del self._came[next(iter(self._came))]
        self._came[envelope.id] = None
        return True

    async def write(self, endpoint: str) -> None:
        """Send the address to post to, "when a client connects", and then whatever is sent."""
        carrier = self._carrier
        try:
            await carrier.open()
            await carrier.write(encode_event(endpoint.encode(), event="endpoint"))
            while not carrier.stopped and (self._outbox or not self._outbox.ended):
                data = self._outbox.pop()
                if data is None:
                    await carrier.pause()
                else:
                    await carrier.write(encode_event(data, event="message"))
        except Lost:
            self.lose("The client is gone, or reads nothing")
        finally:
            await carrier.end()

    def lose(self, reason: str) -> None:
        """Note that the client is gone."""
        self._lose(reason)
        self._carrier.stop(lost=True)

    async def close(self) -> None:
        self._drop_expiry()
        self.end("The event stream was closed on this side", drop=True)
        self._outbox.end()
        await self._carrier.wait_ended()
