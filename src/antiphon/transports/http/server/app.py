"""The endpoint: one ASGI application that passes requests of all revisions to their sessions or peers.

Owns the steps up to there: path, guards, body, envelope, era. 2026-07-28 and 2025-11-25, basic/transports. A request
enters each room once, and its response leaves by the exchange:

    connections     the bytes, bounded; uvicorn makes a scope of them
      app           is it let in?  guards, entrance: host, origin, token
        asgi        the body: all of it, bounded in size and time
      app           which era?  protocol/http: headers against the envelope
        sessions          a session that may live in another process is served there
        legacy_session    up to 2025-11-25: the session that the request names, or a new one
        Stateless         2026-07-28: a peer of the sender, kept for its next request (in post_exchange)
          peer.handle     the engine
          post_exchange   the reply: one JSON body, or
            sse_response    a stream, which legacy clients may resume from event_store
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec import Raw

from antiphon.errors import InvalidRequest, PeerError
from antiphon.machine.asyncio_tasks import wait_at_most
from antiphon.protocol.http import rules
from antiphon.protocol.http.modern import Parameters, is_modern, names_modern, read_modern
from antiphon.protocol.http.rules import Gate, HttpRefusal
from antiphon.protocol.salvage import read_list, recover_id, salvage_reply
from antiphon.transports.http.server import asgi, entrance
from antiphon.transports.http.server.entrance import CheckToken, EndpointSettings, Guard, TokenCheck
from antiphon.transports.http.server.event_store import EventStore, MemoryEventStore
from antiphon.transports.http.server.legacy_session import MAX_BATCH, LegacySession, SessionPlace, serve_batch
from antiphon.transports.http.server.post_exchange import Connect, Stateless
from antiphon.transports.http.server.sessions import SessionHomes, Sessions, end_session
from antiphon.wire.envelope import Envelope, RequestId, decode_envelope, split_batch

log = logging.getLogger(__name__)

_UNAVAILABLE = "The server is closing or has too much to do"
_METHODS = b"GET, POST, DELETE"
_HEALTH, _READY = "/healthz", "/readyz"
_NEEDS_SESSION = HttpRefusal(400, InvalidRequest("Mcp-Session-Id is required"))
_ID_IN_USE = HttpRefusal(400, InvalidRequest("Invalid request: this id is in use"))
_EMPTY = HttpRefusal(400, InvalidRequest("Invalid request: empty batch"))
_NO_BATCHES = HttpRefusal(400, InvalidRequest("Invalid request: this revision has no batches"))
_TOO_MANY = HttpRefusal(400, InvalidRequest(f"Invalid request: more than {MAX_BATCH} messages in a batch"))


class HttpApp:
    """Serves Streamable HTTP; whoever passes requests to it follows ASGI's lifespan.

    ``connect`` makes a peer for every session, and for modern requests. ``allowed_hosts`` and ``allowed_origins`` as in
    ``Guard``; ``check_token`` as in ``TokenCheck``, or a ``gate`` in its place; ``parameters`` says which parameters of
    a tool travel in headers; ``homes`` makes what finds sessions, if they may be in other processes; ``limits``
    are the members of ``EndpointSettings``.
    """

    def __init__(
        self,
        connect: Connect,
        *,
        path: str = "/mcp",
        allowed_hosts: Sequence[str] | None = None,
        allowed_origins: Sequence[str] | None = None,
        event_store: EventStore | None = None,
        check_token: CheckToken | None = None,
        gate: Gate | None = None,
        parameters: Parameters | None = None,
        homes: Callable[[HttpApp], SessionHomes] | None = None,
        **limits: Any,
    ) -> None:
        self._connect = connect
        self.path = path.rstrip("/")
        self.settings = settings = EndpointSettings(**limits)
        self._guard = Guard(allowed_hosts, allowed_origins)
        self.gate = TokenCheck(check_token) if check_token is not None else gate
        """Checks tokens; ``None`` if nobody does."""
        self._parameters = parameters
        self.store = event_store or MemoryEventStore()
        """Keeps the events of the sessions' streams."""
        self.sessions = Sessions(settings.max_sessions, settings.idle_timeout)
        """Those that live here."""
        self._stateless = Stateless(connect, settings)
        self._allow = (b"allow", b"POST" if settings.stateless else _METHODS)
        self._open = 0
        self._draining = False
        """Whether new requests are refused; answers to asks of running calls are still accepted."""
        self._closed = False
        self._quiet = asyncio.Event()
        """Set when no request is being served any more, after draining has begun."""
        self.homes = SessionHomes(self.sessions) if homes is None or settings.stateless else homes(self)
        self.sessions.on_expiry = self.homes.ended

    async def __call__(self, scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
        """Serve one ASGI scope."""
        if scope["type"] != "http":
            # A WebSocket: refused before it is accepted.
            await receive()
            await send({"type": "websocket.close", "code": 1008})
            return
        http = asgi.Http(scope, receive, send)
        if self._is_let_in(http) or await self._let_in(http):
            await self._serve(http)

    async def _serve(self, http: asgi.Http, body: bytes | None = None) -> None:
        """Serve a request that may proceed; its body was read if it is given."""
        self._open += 1
        try:
            if http.method == "POST":
                if body is None:
                    body = await self._read_body(http)
                if body is not None:
                    await self._post(http, body)
            else:
                await self._other(http)
        finally:
            self._open -= 1
            if self._draining:
                self._note_quiet()

    async def _read_body(self, http: asgi.Http) -> bytes | None:
        """Return the body of a request, or ``None`` after it was refused."""
        body = rules.check_media(http.headers, json_only=self.settings.json_only) or await asgi.read_body(
            http, self.settings.max_body, self.settings.body_timeout
        )
        if isinstance(body, HttpRefusal):
            await asgi.send_refusal(http, body)
            return None
        return body

    def make_session(
        self, http: asgi.Http, assumed: str | None = None, *, place: SessionPlace | None = None
    ) -> LegacySession:
        """Make a session for a request that opens it, or that needs it here; see ``LegacySession``."""
        return LegacySession(self._connect, http, self.settings, self.store, assumed, place=place)

    async def serve_here(self, http: asgi.Http, body: bytes | None) -> None:
        """Serve a request that has come through another process, or whose session has just come here."""
        if self._draining and self._session(http) is None:
            # It has left meanwhile; who has passed the request on looks for it again.
            await asgi.send_unavailable(http, _UNAVAILABLE)
            return
        await self._serve(http, body)

    async def close(self, *, drain: float = 0.0) -> None:
        """Accept no more requests, wait up to ``drain`` seconds for open ones, then end everything."""
        self._draining = True
        self.homes.leave(self._check_quiet)
        self._note_quiet()
        await wait_at_most(drain, self._quiet.wait())
        if not self._quiet.is_set():
            log.debug("requests are given up: they did not end within %g s", drain)
        self._closed = True
        await self._stateless.close()
        await self.homes.close()

    # --- every request ------------------------------------------------------------------------------------------

    def _is_let_in(self, http: asgi.Http) -> bool:
        """Tell whether a request may proceed to its body, if that can be decided without waiting or responding."""
        return (
            self._open < self.settings.max_open
            and not self._closed
            and b"origin" not in http.headers
            and not http.earlier
            and self._guard.is_allowed_host(http.headers)
            and (http.path == self.path or self._is_here(http))
            and (self.gate is None or self._is_remembered(http, self.gate))
        )

    def _is_remembered(self, http: asgi.Http, gate: Gate) -> bool:
        caller = gate.known(http.method, self.path, http.headers)
        if caller is not None:
            http.note_sender(caller, gate)
        return caller is not None

    async def _let_in(self, http: asgi.Http) -> bool:
        """Check the path, the token and the method; refuse what may not proceed, and tell whether it may."""
        if self.settings.health and http.path in (_HEALTH, _READY):
            # Before the guard: whoever probes a container knows it by its address alone. Nothing is told but a status.
            await asgi.send_response(http, self._health(http))
            return False
        refusal = self._guard.check(http.headers) or rules.check_unambiguous(http.pairs, http.headers)
        if refusal is None and entrance.answers_page(http):
            # At any path: a page that looks for where to sign in has to see that there is nothing (404).
            await entrance.send_preflight(http, _METHODS)
            return False
        document = None if refusal is not None or self.gate is None else entrance.document_at(self.gate, http)
        if refusal is None and document is None and not self._is_here(http):
            refusal = HttpRefusal(404, InvalidRequest(f"Not found: the endpoint is {self.path or '/'}"))
        if refusal is not None:
            await asgi.send_refusal(http, refusal)
        elif document is not None:
            await entrance.send_document(http, document)
        elif self._closed or self._open >= self.settings.max_open:
            await asgi.send_unavailable(http, _UNAVAILABLE)
        else:
            return self.gate is None or await entrance.admit_request(http, self.gate, self.path)
        return False

    def _health(self, http: asgi.Http) -> int:
        """Return the status that says whether this process serves, or whether it is ready for new requests."""
        if http.method not in {"GET", "HEAD"}:
            return 405
        is_full = self._open >= self.settings.max_open
        return 503 if self._closed or (http.path == _READY and (self._draining or is_full)) else 200

    def _note_quiet(self) -> None:
        self.homes.release_idle()
        self._check_quiet()

    def _check_quiet(self) -> None:
        if not self.homes.is_busy and not self._stateless.is_busy:
            self._quiet.set()

    def _is_here(self, http: asgi.Http) -> bool:
        path = http.local_path.rstrip("/")
        # If mounted in another application, the mount point itself is the endpoint, too.
        return path == self.path or (not path and http.local_path != http.path)

    async def _other(self, http: asgi.Http) -> None:
        method = http.method
        if method not in {"GET", "DELETE"} or self.settings.stateless or names_modern(http.headers):
            # 2026-07-28: "HTTP GET or DELETE to the MCP endpoint: respond with 405 Method Not Allowed." 2025-11-25: a
            # server that offers no stream at GET, and one that lets no client end its session, answer so, too.
            await asgi.send_refusal(http, asgi.NOT_ALLOWED, None, self._allow)
        else:
            await self._get_or_delete(http, method)

    async def _get_or_delete(self, http: asgi.Http, method: str) -> None:
        session = self._session(http)
        refusal = rules.check_legacy(http.headers, None)
        accepted = http.headers.get(b"accept", b"*/*")
        if refusal is None and method == "GET" and not rules.accepts_type(accepted, b"text/event-stream"):
            refusal = HttpRefusal(406, InvalidRequest("Accept must list text/event-stream"))
        if refusal is not None:
            await asgi.send_refusal(http, refusal)
        elif self.homes.may_be_elsewhere(http):
            await self.homes.serve(http, None)
        elif session is None:
            await asgi.send_refusal(http, _without_session(http))
        elif method == "DELETE":
            # First, so that nobody restores it from its record.
            await self.homes.ended(session)
            await self.sessions.remove(session)
            await asgi.send_response(http, 204)
        else:
            await session.serve_stream(http, http.headers.get(rules.LAST_EVENT_ID))
            self.sessions.touch(session)

    # --- POST ---------------------------------------------------------------------------------------------------

    def _post(self, http: asgi.Http, body: bytes) -> Awaitable[None]:
        try:
            envelope = decode_envelope(body)
        except PeerError as error:
            return self._not_a_message(http, body, error)
        if is_modern(http.headers, envelope, body):
            return self._post_modern(http, envelope, body)
        if self.homes.may_be_elsewhere(http):
            return self.homes.serve(http, body)
        return self._post_legacy(http, envelope, body)

    def _post_modern(self, http: asgi.Http, envelope: Envelope, body: bytes) -> Awaitable[None]:
        refusal = rules.check_id(envelope)
        if refusal is not None:
            return asgi.send_refusal(http, refusal, rules.id_of(envelope))
        params = read_modern(http.headers, envelope, self._parameters, http.principal)
        if isinstance(params, HttpRefusal):
            return asgi.send_refusal(http, params, rules.id_of(envelope))
        if self._draining:
            return self._refer(http, body)
        if http.is_relayed or getattr(params, "request_state", None) is None:
            return self._stateless.serve(http, envelope, params)

        async def pass_on(holder: str) -> None:
            # Another process may hold the call, of which this is a further request.
            if not await self.homes.serve_elsewhere(holder, http, body):
                await self._stateless.serve(http, envelope, params)

        return self._stateless.serve(http, envelope, params, pass_on=pass_on)

    def _post_legacy(self, http: asgi.Http, envelope: Envelope, body: bytes) -> Awaitable[None]:
        no_message = rules.check_id(envelope)
        refusal = no_message or rules.check_legacy(http.headers, envelope)
        if refusal is not None:
            return self._refuse_replies(http, refusal, [body] if no_message else [], rules.id_of(envelope))
        if self._draining and rules.is_request(envelope):
            return self._refer(http, body)
        if self.settings.stateless or (envelope.method == "initialize" and rules.SESSION_ID not in http.headers):
            return self._post_outside_sessions(http, envelope)
        session = self._session(http)
        if session is None:
            return asgi.send_refusal(http, _without_session(http), rules.id_of(envelope))
        if rules.is_request(envelope):
            is_free = not session.is_live(envelope.id)
            return (
                session.serve(http, envelope) if is_free else asgi.send_refusal(http, _ID_IN_USE, rules.id_of(envelope))
            )
        wait = session.take(envelope)
        return asgi.send_response(http, 202) if wait is None else self._accept_after(http, wait)

    async def _refer(self, http: asgi.Http, body: bytes) -> None:
        """Have another process serve a request that comes while this one leaves; refuse it if none can."""
        has_served = self._session(http) is not None and await self.homes.serve_after(http, body)
        if not has_served and not http.move("", body):
            await asgi.send_unavailable(http, _UNAVAILABLE)

    def _post_outside_sessions(self, http: asgi.Http, envelope: Envelope) -> Awaitable[None]:
        if self.settings.stateless:
            return self._stateless.serve(http, envelope, None, rules.assume_revision(http.headers))
        return self._open_session(http, envelope)

    async def _accept_after(self, http: asgi.Http, wait: Awaitable[None]) -> None:
        await wait
        await asgi.send_response(http, 202)

    def _session(self, http: asgi.Http) -> LegacySession | None:
        """Return the session that a request names, if it is the sender's."""
        id = http.headers.get(rules.SESSION_ID)
        return None if id is None else self.sessions.find(id, http.principal)

    async def _open_session(self, http: asgi.Http, envelope: Envelope) -> None:
        if not rules.is_request(envelope):
            await asgi.send_refusal(http, _NEEDS_SESSION)
            return
        if self.sessions.is_full(http.principal):
            await asgi.send_unavailable(http, "Too many sessions")
            return
        session = self.make_session(http)
        exchange = session.begin(http, envelope)
        is_open = False
        try:
            with self.sessions.opening(http.principal):
                await session.peer.handle(envelope, caller=http.caller)
                await exchange.until_answered()
                is_open = session.opened(exchange.reply)
                if is_open and (why := await self.homes.opened(session)) is not None:
                    is_open = False
                    await asgi.send_unavailable(http, why)
                    return
                if is_open:
                    self.sessions.add(session)
            await exchange.respond(((b"mcp-session-id", session.id),) if is_open else ())
        finally:
            await session.finish(exchange)
            if not is_open:
                await end_session(session)

    async def _not_a_message(self, http: asgi.Http, body: bytes, error: PeerError) -> None:
        """Answer a body that is not one message: a batch, or something that cannot be read."""
        if self.homes.may_be_elsewhere(http):
            await self.homes.serve(http, body)
            return
        try:
            batch = split_batch(body)
        except PeerError:
            batch = None
        if batch is not None:
            await self._post_in_session(http, batch)
            return
        listed = read_list(body)
        if listed is not None:
            await self._post_legacy(http, listed, body)
            return
        id = recover_id(body) if salvage_reply(body) is None else None
        await self._refuse_replies(http, HttpRefusal(400, error), [body], id)

    async def _refuse_replies(
        self, http: asgi.Http, refusal: HttpRefusal, messages: Sequence[bytes], id: RequestId | None = None
    ) -> None:
        """Refuse a body. The asks to which its messages reply fail: no other reply will come."""
        session = self._session(http)
        for reply in map(salvage_reply, messages[:MAX_BATCH] if session is not None else ()):
            waits = session.take(reply) if session is not None and reply is not None else None
            if waits is not None:
                await waits
        await asgi.send_refusal(http, refusal, id)

    async def _post_in_session(self, http: asgi.Http, batch: Sequence[Raw]) -> None:
        """Serve a batch in its session; where none are kept, it has one to itself."""
        if not self.settings.stateless:
            await self._check_batch(http, self._session(http), batch)
            return
        session = self.make_session(http, rules.assume_revision(http.headers))
        try:
            await self._check_batch(http, session, batch)
        finally:
            await end_session(session)

    async def _check_batch(self, http: asgi.Http, session: LegacySession | None, batch: Sequence[Raw]) -> None:
        if session is None:
            # 2025-03-26 basic/lifecycle: "The initialize request MUST NOT be part of a JSON-RPC batch"
            await asgi.send_refusal(http, _without_session(http))
        elif not batch or len(batch) > MAX_BATCH:
            await asgi.send_refusal(http, _TOO_MANY if batch else _EMPTY)
        elif not session.takes_batches or names_modern(http.headers):
            await self._refuse_replies(http, _NO_BATCHES, [bytes(each) for each in batch])
        else:
            await self._post_batch(http, session, [bytes(each) for each in batch])

    async def _post_batch(self, http: asgi.Http, session: LegacySession, batch: Sequence[bytes]) -> None:
        messages: list[Envelope] = []
        refused: list[bytes] = []
        ids: set[object] = set()
        for each in batch:
            envelope, refusal = _read_member(each)
            if refusal is not None:
                refused.append(refusal.body(recover_id(each) if envelope is None else None, null_id=True))
            if envelope is not None and rules.is_request(envelope):
                if session.is_live(envelope.id) or envelope.id in ids:
                    refused.append(_ID_IN_USE.body(rules.id_of(envelope), null_id=True))
                    continue
                ids.add(envelope.id)
                if session.was_cancelled(envelope.id):
                    continue
            if envelope is not None:
                messages.append(envelope)
        await serve_batch(http, self.settings, session, messages, refused)
        if not self.settings.stateless:
            self.sessions.touch(session)


def _read_member(body: bytes) -> tuple[Envelope | None, HttpRefusal | None]:
    """Decode a message of a batch; of what is none return the refusal, and the reply that it can be meant as."""
    try:
        envelope = decode_envelope(body)
        refusal = rules.check_id(envelope)
    except PeerError as error:
        envelope, refusal = None, HttpRefusal(400, error)
    return (envelope, None) if refusal is None else (salvage_reply(body), refusal)


def _without_session(http: asgi.Http) -> HttpRefusal:
    return _NEEDS_SESSION if rules.SESSION_ID not in http.headers else asgi.NO_SESSION
