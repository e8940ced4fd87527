"""The endpoint as an ASGI application: it checks who calls, reads the request, and sends the response or the stream.

Owns the guards. Requests of browsers are refused, because any page could otherwise call this machine (DNS rebinding):
those with an ``Origin`` header, whatever its value, and those with a ``Host`` that is not ours.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import msgspec

from antiphon.host.budget import input_estimate
from antiphon.host.host import Host
from antiphon.machine.asyncio_tasks import end_tasks
from antiphon.model_api.dialects.asked import DialectAnswer, DialectRequest, read_answer
from antiphon.model_api.dialects.chat import Chat
from antiphon.model_api.dialects.members import NO_RETRY, Failure, anthropic_error, openai_error
from antiphon.model_api.dialects.messages import Messages
from antiphon.model_api.dialects.responses import Responses
from antiphon.model_api.json_body import EventStream, read_json
from antiphon.model_api.model_calls import ModelCall, Token, Tokens, Work, too_many
from antiphon.protocol.http.rules import HeaderPair
from antiphon.transports.http.server.asgi import Http, Receive, Scope, Send, send_json
from antiphon.wire.origin import Origin

KEEP_ALIVE = 10.0
"""Seconds without data after which a stream sends a sign of life. From then on a refusal is an error in the stream."""
TRACED = "antiphon.traced"
"""Member of a connection's state: the tokens whose process is known to be at the other end of the connection."""
CROWDED = "antiphon.crowded"
"""Member of a connection's state: whether too many connections were open when it came, so that it is refused."""
_ONCE = (b"host", b"authorization", b"x-api-key", b"content-length", b"content-type")
"""Headers that may come only once: with two, it would be unclear which one counts."""
_LONGEST_KEY = 256


_Dialect = Chat | Responses | Messages
"""How a vendor writes requests and answers."""
_DIALECTS: Mapping[str, _Dialect] = {"/chat/completions": Chat(), "/responses": Responses(), "/messages": Messages()}


class App:
    """Serves the requests of all processes. ``hosts``: values of the ``Host`` header that are accepted."""

    def __init__(self, host: Host, tokens: Tokens, hosts: Sequence[str], *, keep_alive: float = KEEP_ALIVE) -> None:
        self._host = host
        self._tokens = tokens
        self._hosts = frozenset(name.encode() for name in hosts)
        self._keep_alive = keep_alive
        self._reports: set[asyncio.Future[None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI scope."""
        if scope["type"] != "http":
            return
        http = Http(scope, receive, send)
        write = anthropic_error if _is_anthropic(http) else openai_error
        try:
            if scope.get("state", {}).get(CROWDED):
                raise Failure(429, "refused_limit", "Too many connections are open.")
            token = self._admit_caller(http)
            if token.calls.is_full and _count_retries(http) == 0 and b"idempotency-key" not in http.headers:
                # Refused before the process is looked up and the body is read, which take longest.
                raise too_many()
            await self._trace(scope, token)
            await self._serve_path(http, token)
        except Failure as failure:
            # A refused client keeps no connection: what is left of its body is not read.
            closes: tuple[HeaderPair, ...] = () if failure.status < 404 else ((b"connection", b"close"),)
            await send_json(http, failure.status, write(failure), (NO_RETRY, *closes))

    async def wait_reported(self) -> None:
        """Wait until the audit has what became of each answer."""
        if self._reports:
            await asyncio.wait(self._reports)

    def _admit_caller(self, http: Http) -> Token:
        """Return the token of a request, or raise ``Failure``."""
        names = [name for name, _ in http.pairs]
        if any(names.count(name) > 1 for name in _ONCE):
            raise Failure(400, "invalid_request", "A header is given twice.")
        if http.headers.get(b"host", b"").lower() not in self._hosts:
            raise Failure(403, "wrong_host", "This endpoint does not accept this host name.")
        if b"origin" in http.headers or b"sec-fetch-site" in http.headers:
            raise Failure(403, "from_browser", "This endpoint is not for browsers.")
        scheme, _, given = http.headers.get(b"authorization", b"").partition(b" ")
        bearer = given.strip() if scheme.lower() == b"bearer" else b""
        texts = {text for text in (bearer, http.headers.get(b"x-api-key", b"")) if text}
        token = self._tokens.find(texts.pop()) if len(texts) == 1 else None
        if token is None:
            raise Failure(401, "invalid_api_key", "The token is not valid, or was revoked.")
        return token

    async def _trace(self, scope: Scope, token: Token) -> None:
        """Refuse a connection, once, that comes from another process than the one that the token was given to."""
        peer, ours = scope.get("client"), scope.get("server")
        traced: set[bytes] | None = scope.get("state", {}).get(TRACED)
        if token.pid is None or not peer or not ours or (traced is not None and token.digest in traced):
            return
        if await token.peer.is_other(peer[1], ours[1], token.pid):
            raise Failure(401, "invalid_api_key", "The token belongs to another process.")
        if traced is not None:
            traced.add(token.digest)

    async def _serve_path(self, http: Http, token: Token) -> None:
        path, method = _get_path(http), http.method
        if path == "/models" or path.startswith("/models/"):
            _check_method(method, "GET")
            await send_json(http, 200, self._models(http, token, unquote(path.removeprefix("/models").lstrip("/"))))
            return
        if path == "/messages/count_tokens":
            _check_method(method, "POST")
            body = await read_json(http)
            asked = Messages.read(body.members, offers_tools=self._offers_tools, counting=True)
            await send_json(http, 200, msgspec.json.encode({"input_tokens": input_estimate(asked.params)}))
            return
        dialect = _DIALECTS.get(path)
        if dialect is None:
            raise Failure(404, "unknown_path", "This host offers no such path.")
        _check_method(method, "POST")
        await self._complete_with_model(http, token, dialect)

    @property
    def _offers_tools(self) -> bool:
        sampling = self._host.capabilities.sampling
        return sampling is not None and sampling.tools is not None

    def _models(self, http: Http, token: Token, wanted: str) -> bytes:
        names = self._host.model_names(token.origin())
        if wanted and wanted not in names:
            raise Failure(404, "model_not_found", "There is no such model.", "model")
        if _is_anthropic(http):
            day = "1970-01-01T00:00:00Z"
            shapes = [{"type": "model", "id": name, "display_name": name, "created_at": day} for name in names]
            ends = {"first_id": names[0], "last_id": names[-1]} if names else {"first_id": None, "last_id": None}
            listed: dict[str, Any] = {"data": shapes, "has_more": False, **ends}
        else:
            shapes = [{"id": name, "object": "model", "created": 0, "owned_by": "antiphon"} for name in names]
            listed = {"object": "list", "data": shapes}
        return msgspec.json.encode(shapes[names.index(wanted)] if wanted else listed)

    # --- completions --------------------------------------------------------------------------------------------

    async def _complete_with_model(self, http: Http, token: Token, dialect: _Dialect) -> None:
        body = await read_json(http)
        asked = dialect.read(body.members, offers_tools=self._offers_tools)
        origins = [msgspec.structs.replace(token.origin(), door="model-api") for _ in range(asked.n)]
        call = self._call(http, token, body.digest, origins, lambda call: self._ask_host(asked, origins, call))
        async with _wait_for_call(http, token, call) as gone:
            # The header names what had no effect.
            named = ", ".join(name for name in asked.noted if name.isidentifier() and name.isascii())
            note = ((b"antiphon-without-effect", named.encode()),) if named else ()
            if asked.streams:
                streamed = EventStream(http, dialect.stream(asked), call, dialect.keep_alive, every=self._keep_alive)
                is_delivered = await streamed.run(gone, note)
            else:
                outcome = await _wait_for_outcome(call, gone)
                is_delivered = outcome is not None
                if outcome is not None:
                    await send_json(http, 200, dialect.respond(asked, outcome), note)
            if is_delivered:
                call.end(was_delivered=True)

    def _call(self, http: Http, token: Token, digest: bytes, origins: Sequence[Origin], work: Work) -> ModelCall:
        """Return the call that this request repeats, or a new one."""
        key = http.headers.get(b"idempotency-key", b"")[:_LONGEST_KEY].decode("latin-1") or None
        found = token.calls.find(digest, key, is_retry=_count_retries(http) > 0)
        if found is not None:
            return found
        call = token.calls.open(digest, key, work)
        call.on_end = lambda delivered: self._report(origins, None if delivered else "closed")
        return call

    async def _ask_host(self, asked: DialectRequest, origins: Sequence[Origin], call: ModelCall) -> list[DialectAnswer]:
        """Ask the host, once for each choice."""
        if len(origins) == 1:
            return [await self._one(asked, origins[0], call.add if asked.form is None else None)]
        tasks = [asyncio.create_task(self._one(asked, origin, None)) for origin in origins]
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            # If one choice is refused, all are: a program that asks for three choices cannot use two.
            await end_tasks(*tasks)

    async def _one(self, asked: DialectRequest, origin: Origin, flow: Callable[[str], object] | None) -> DialectAnswer:
        return await read_answer(await self._host.answer(asked.params, origin, flow), asked)

    def _report(self, origins: Sequence[Origin], why: str | None) -> None:
        for origin in origins:
            recording = self._host.handed_over(origin, why)
            if recording is not None:
                task = asyncio.ensure_future(recording)
                self._reports.add(task)
                task.add_done_callback(self._report_ask)

    def _report_ask(self, task: asyncio.Future[None]) -> None:
        self._reports.discard(task)
        if not task.cancelled():
            task.exception()


# --- requests ---------------------------------------------------------------------------------------------------------


def _get_path(http: Http) -> str:
    """Return the path without the version: some clients expect it in the address that they are given, others add it."""
    return http.path.removeprefix("/v1") if http.path.startswith("/v1/") else http.path


def _is_anthropic(http: Http) -> bool:
    return b"anthropic-version" in http.headers or _get_path(http).startswith("/messages")


def _count_retries(http: Http) -> int:
    """Return how often this request was made before, as its client says."""
    count = http.headers.get(b"x-stainless-retry-count", b"0")
    return int(count[:9]) if count.isdigit() else 0


def _check_method(method: str, expected: str) -> None:
    if method != expected:
        raise Failure(405, "wrong_method", f"This path takes {expected}.")


@contextlib.asynccontextmanager
async def _wait_for_call(http: Http, token: Token, call: ModelCall) -> AsyncGenerator[asyncio.Future[None]]:
    """Wait for a call within a block; yields what is done once the client is gone."""
    gone = asyncio.ensure_future(_wait_for_disconnect(http))
    token.calls.attach(call)
    try:
        yield gone
    finally:
        gone.cancel()
        token.calls.detach(call)


async def _wait_for_outcome(call: ModelCall, gone: asyncio.Future[None]) -> list[DialectAnswer] | None:
    """Return the answer to a call, or ``None`` once the client is gone; raise the failure if there is none."""
    await asyncio.wait([call.task, gone], return_when=asyncio.FIRST_COMPLETED)
    outcome = call.outcome
    if isinstance(outcome, Failure) and not gone.done():
        raise outcome
    return None if gone.done() or isinstance(outcome, Failure) else outcome


async def _wait_for_disconnect(http: Http) -> None:
    """Wait until the client is gone."""
    while (await http.receive())["type"] != "http.disconnect":
        pass


# --- responses --------------------------------------------------------------------------------------------------------
