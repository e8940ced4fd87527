"""The endpoint of the model API: it begins to listen when the first process is equipped, and closes with its host.

As an ASGI application it checks who calls, reads the request, and sends the response or the stream. Requests of
browsers are refused, because any page could otherwise call this machine (DNS rebinding): those with an ``Origin``
header, whatever its value, and those with a ``Host`` that is not ours.

A request is examined, hashed and decoded without holding up other requests. Decoding takes time for each value rather
than for each byte: small values take a hundred times as long as long texts or images of the same size. So the number of
values is limited, and a large body that may exceed it is examined in a side process before it is decoded.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import socket
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast
from urllib.parse import unquote

import msgspec

from antiphon.errors import TooCostly
from antiphon.host.budget import input_estimate
from antiphon.host.host import Host, ModelApi
from antiphon.machine.asyncio_tasks import end_tasks, ignore_error
from antiphon.machine.files import bound_by_open_files
from antiphon.machine.side_process.pool import run_aside
from antiphon.model_api.dialects import messages, openai
from antiphon.model_api.dialects.asked import (
    NO_RETRY,
    DialectAnswer,
    DialectRequest,
    Failure,
    anthropic_error,
    openai_error,
    read_answer,
)
from antiphon.model_api.model_calls import ModelCall, Token, Tokens, Work, protect_memory, too_many
from antiphon.protocol.http.rules import HeaderPair
from antiphon.transports.http.server.asgi import Http, Receive, Scope, Send, read_body, send_json
from antiphon.transports.http.server.connections import BoundedConnection, ConnectionLimits
from antiphon.transports.http.server.shutdown import serve_embedded
from antiphon.wire.envelope import too_deep, without_strings
from antiphon.wire.origin import Equipment, Origin

MAX_BODY = 16 * 1024 * 1024
"""Most bytes of one request, as of one message of a server."""
BODY_SECONDS = 30.0
"""Seconds in which the whole body must arrive."""
MAX_VALUES = 50_000
"""Most values in one request: ten times those of a conversation of 500 messages, and 10 ms of decoding at worst."""
_MAX_DEPTH = 80
"""Deepest nesting of a request: that of the deepest schema a host accepts, plus that of the place where it stands."""
_SMALL = 64 * 1024
"""Most bytes of a body that needs no examination: it cannot hold more than ``MAX_VALUES`` values."""
_SLICE = 1024 * 1024
"""Bytes that are counted at once, in about a millisecond."""
_SEPARATORS = (b",", b"[", b"{")
_DEEP, _MANY = b"deep", b"many"

_HEAD: tuple[HeaderPair, ...] = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
)


class Body(NamedTuple):
    """The body of a request, decoded."""

    members: Mapping[str, Any]
    digest: bytes
    """Hash of the path and of all bytes; a retry has the same."""


async def read_json(http: Http) -> Body:
    """Return the body of a request; raise ``Failure`` if it is no JSON object, or exceeds a limit."""
    kind = http.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if kind != b"application/json" or b"content-encoding" in http.headers:
        raise Failure(415, "invalid_request", "The body must be JSON: application/json, not encoded.")
    raw = await read_body(http, MAX_BODY, BODY_SECONDS)
    if not isinstance(raw, bytes):
        raise Failure(raw.status, "invalid_request", raw.error.message)
    try:
        problem = await _find_problem(raw)
    except TooCostly:
        problem = _MANY
    if problem:
        raise Failure(400, "invalid_request", f"The body {'nests too deep' if problem == _DEEP else 'holds too much'}.")
    try:
        body: object = msgspec.json.decode(raw)
    except (ValueError, RecursionError):
        raise Failure(400, "invalid_request", "The body is not JSON.") from None
    if not isinstance(body, dict):
        raise Failure(400, "invalid_request", "The body must be an object.")
    return Body(cast("dict[str, Any]", body), await _digest_body(http.path.encode("utf-8", "surrogateescape"), raw))


async def _find_problem(raw: bytes) -> bytes:
    """Return what is wrong with JSON before it is decoded; empty if it may be decoded."""
    if len(raw) <= _SMALL:
        return _DEEP if too_deep(raw, _MAX_DEPTH) else b""
    found = 0
    for at in range(0, len(raw), _SLICE):
        found += sum(raw.count(separator, at, at + _SLICE) for separator in _SEPARATORS)
        if found > _MAX_DEPTH:
            # The brackets and commas that were counted may all be inside texts. Finding that out takes longer.
            return await run_aside(examine_json, raw)
        await asyncio.sleep(0)
    return b""


def examine_json(raw: bytes) -> bytes:
    """Return what is wrong with JSON, in a side process."""
    bare = without_strings(raw)
    # Every value except the first follows a comma or an opening bracket, so these are counted.
    if sum(map(bare.count, _SEPARATORS)) > MAX_VALUES:
        return _MANY
    return _DEEP if too_deep(bare, _MAX_DEPTH) else b""


async def _digest_body(path: bytes, raw: bytes) -> bytes:
    # A thread helps here, unlike with decoding: hashing lets others run meanwhile.
    hashed = hashlib.sha256(path)
    if len(raw) <= _SMALL:
        hashed.update(raw)
    else:
        await asyncio.to_thread(hashed.update, raw)
    return hashed.digest()


class EventStream(msgspec.Struct, eq=False):
    """One response. After ``every`` seconds without data it sends ``sign``, an event without content."""

    http: Http
    writer: openai.Stream | messages.Stream
    call: ModelCall
    sign: bytes
    every: float
    _has_head: bool = False
    _has_begun: bool = False

    async def run(self, gone: asyncio.Future[None], extra: tuple[HeaderPair, ...]) -> bool:
        """Send the response; return whether all was sent. Raises ``Failure`` as long as nothing was sent."""
        seen = 0
        while True:
            await self._news(seen, gone)
            if gone.done():
                return False
            outcome, pieces = self.call.outcome, self.call.pieces[seen:]
            seen += len(pieces)
            if not self._has_head:
                if isinstance(outcome, Failure) and not pieces:
                    raise outcome
                await self.http.send({"type": "http.response.start", "status": 200, "headers": [*_HEAD, *extra]})
                self._has_head = True
            part = self._begin() + self.writer.text("".join(pieces)) if pieces else b""
            if outcome is not None:
                last = part + self._write_end(outcome)
                await self.http.send({"type": "http.response.body", "body": last})
                return True
            await self.http.send({"type": "http.response.body", "body": part or self.sign, "more_body": True})

    async def _news(self, seen: int, gone: asyncio.Future[None]) -> None:
        news = asyncio.ensure_future(self.call.news(seen))
        try:
            await asyncio.wait([news, gone], timeout=self.every, return_when=asyncio.FIRST_COMPLETED)
        finally:
            news.cancel()

    def _begin(self) -> bytes:
        has_begun, self._has_begun = self._has_begun, True
        return b"" if has_begun else self.writer.begin()

    def _write_end(self, outcome: list[DialectAnswer] | Failure) -> bytes:
        if isinstance(outcome, Failure):
            return self.writer.failed(outcome)
        flowed = "".join(self.call.pieces)
        rests = [answer.text for answer in outcome]
        if flowed:
            # The text that was sent cannot be taken back, so an answer that does not begin with it is an error.
            if not rests[0].startswith(flowed) and not flowed.startswith(rests[0]):
                return self.writer.failed(
                    Failure(502, "answer_changed", "The answer does not begin with the text that was sent.")
                )
            rests[0] = rests[0][len(flowed) :]
        return self._begin() + self.writer.end(outcome, rests)


KEEP_ALIVE = 10.0
"""Seconds without data after which a stream sends a sign of life. From then on a refusal is an error in the stream."""
TRACED = "antiphon.traced"
"""Member of a connection's state: the tokens whose process is known to be at the other end of the connection."""
CROWDED = "antiphon.crowded"
"""Member of a connection's state: whether too many connections were open when it came, so that it is refused."""
_ONCE = (b"host", b"authorization", b"x-api-key", b"content-length", b"content-type")
"""Headers that may come only once: with two, it would be unclear which one counts."""
_LONGEST_KEY = 256


_Dialect = openai.Chat | openai.Responses | messages.Messages
"""How a vendor writes requests and answers."""
_DIALECTS: Mapping[str, _Dialect] = {
    "/chat/completions": openai.Chat(), "/responses": openai.Responses(), "/messages": messages.Messages()
}  # fmt: skip


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
            asked = messages.Messages.read(body.members, offers_tools=self._offers_tools, counting=True)
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
                task.add_done_callback(self._reports.discard)
                task.add_done_callback(ignore_error)


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
    gone = asyncio.ensure_future(http.wait_gone())
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


class _Variables(msgspec.Struct):
    """See ``variables.toml``."""

    given: dict[str, str]
    taken: list[str]


_VARIABLES = msgspec.toml.decode(Path(__file__).with_name("variables.toml").read_bytes(), type=_Variables)
GIVEN: Mapping[str, str] = _VARIABLES.given
"""The variables that a process gets: all by which vendors' clients and wrappers of them find address and key."""
TAKEN = tuple(_VARIABLES.taken)
"""Further variables that are removed: keys of the same vendors, and settings that would change where calls go."""

_LOCAL = ("127.0.0.1", "localhost")
_NO_PROXY = ("NO_PROXY", "no_proxy")


def equip_environment(env: Mapping[str, str], *, address: str, token: str) -> dict[str, str]:
    """Return the environment of a process that would have ``env``, so that it calls ``address`` with ``token``."""
    # Some programs read a name in lower case, too.
    kept = {name: value for name, value in env.items() if name.upper() not in (*TAKEN, *GIVEN)}
    given = {name: value.format(address=address, token=token) for name, value in GIVEN.items()}
    # Calls to this machine must not go through a proxy. Programs read either of the two spellings.
    excepted = [each for name in _NO_PROXY for each in kept.get(name, "").split(",") if each.strip()]
    around = ",".join(dict.fromkeys([*(each.strip() for each in excepted), *_LOCAL]))
    return {**kept, **given, **dict.fromkeys(_NO_PROXY, around)}


LIMITS = ConnectionLimits(max_connections=2_048)
"""Most connections of all processes together; further ones are closed at once. Also at most half of the files that this
process may open, since the host needs the rest."""
SERVED = 512
"""Most connections of all processes whose requests are served, far more than can have open requests."""
_ADDRESS = "127.0.0.1"


def serve_model_api(host: Host) -> ModelApi:
    """Have a host serve the model API: ``Host(model_api=serve_model_api)``. It listens when a server first needs it.

    Args:
        host: completes what the servers' programs ask.
    """
    return ModelEndpoint(host)


class ModelEndpoint:
    """The model API of one host."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._tokens = Tokens()
        self._serving: asyncio.Task[None] | None = None
        self._closed = asyncio.Event()
        self._port: asyncio.Future[int] | None = None

    async def equip(self, origin: Callable[[], Origin]) -> Equipment:
        """Make the equipment of one server, and listen if the endpoint does not do so yet."""
        return _Equipment(self._tokens, origin, await self._listening())

    async def aclose(self) -> None:
        """Revoke all tokens, and stop listening."""
        serving, self._serving, self._port = self._serving, None, None
        if serving is not None and serving.get_loop() is asyncio.get_running_loop():
            self._tokens.close()
            self._closed.set()
            await serving

    async def _listening(self) -> str:
        loop = asyncio.get_running_loop()
        # A program may run several event loops in turn: the endpoint ended with the loop it was opened in.
        if self._port is None or self._port.get_loop() is not loop or (self._serving and self._serving.done()):
            self._port, self._closed = loop.create_future(), asyncio.Event()
            self._serving = loop.create_task(self._serve(self._port, self._closed), name="antiphon-model-api")
        return f"http://{_ADDRESS}:{await asyncio.shield(self._port)}"

    async def _serve(self, port: asyncio.Future[int], closed: asyncio.Event) -> None:
        try:
            async with open_endpoint(self._host, self._tokens) as number:
                port.set_result(number)
                await closed.wait()
        except Exception as error:
            if port.done():
                raise
            port.set_exception(error)


@contextlib.asynccontextmanager
async def open_endpoint(host: Host, tokens: Tokens) -> AsyncGenerator[int]:
    """Listen within a block; yields the port."""
    # Named as TCP, so that asyncio sends small data at once.
    with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)) as opened:
        protect_memory()
        opened.bind((_ADDRESS, 0))
        opened.listen(128)
        port: int = opened.getsockname()[1]
        app = App(host, tokens, [f"{_ADDRESS}:{port}", f"localhost:{port}"])
        limited = msgspec.structs.replace(LIMITS, max_connections=bound_by_open_files(LIMITS.max_connections))

        class Connection(_ModelConnection):
            limits = limited

        async with serve_embedded(app, [opened], Connection, close=app.wait_reported, grace=1):
            yield port


class _ModelConnection(BoundedConnection):
    """A connection that remembers which process it comes from, and whether too many were open when it came."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Each request gets a copy of the state, which has the same set.
        self.app_state: dict[str, Any] = {**self.app_state, TRACED: set[bytes]()}

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self.app_state[CROWDED] = len(self.connections) > SERVED


class _Equipment:
    """The equipment of one process. See ``wire.origin.Equipment``."""

    def __init__(self, tokens: Tokens, origin: Callable[[], Origin], address: str) -> None:
        self._tokens = tokens
        self._address = address
        self._text, self._token = tokens.issue(origin)

    def environment(self, env: Mapping[str, str]) -> Mapping[str, str]:
        """Return the environment of the process."""
        text, self._text = self._text, ""
        return equip_environment(env, address=self._address, token=text)

    def started(self, pid: int) -> None:
        """Bind the token to the process."""
        self._token.pid = pid

    def ended(self) -> None:
        """Revoke the token."""
        self._tokens.revoke(self._token)
