"""ASGI as this package uses it: the types, one request with its headers and body, and complete responses.

A body is limited in size and time. Server-sent events are in ``stream``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any

from antiphon.errors import InvalidRequest
from antiphon.machine.asyncio_tasks import run_rest
from antiphon.protocol.caller import Caller
from antiphon.protocol.http.rules import NOT_ACCEPTED, Gate, HeaderPair, Headers, HttpRefusal, has_null_ids
from antiphon.wire.envelope import RequestId

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
_JSON: HeaderPair = (b"content-type", b"application/json")


MOVE = "antiphon.move"
"""Key in the state of ASGI's scope: the function with which ``connections`` lets a request go to another process."""


class Http:
    """One HTTP request of any ASGI server, and its response."""

    __slots__ = (
        "call", "caller", "earlier", "extra", "gate", "headers", "is_again", "is_relayed", "is_settled",
        "method", "path", "principal", "query", "raw_send", "receive", "root_path", "scope",
    )  # fmt: skip

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.receive = receive
        """Receives an ASGI message."""
        self.raw_send = send
        """Sends an ASGI message as it is, without the ``extra`` headers."""
        self.scope = scope
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.root_path: str = scope.get("root_path", "")
        """Prefix of the path below which this application is mounted."""
        self.query: bytes = scope.get("query_string", b"")
        self.headers: dict[bytes, bytes] = {}
        """The headers by name, in lower case; of one that comes twice, the last. Several ``Accept`` are one list."""
        self.earlier: list[HeaderPair] = []
        """The others of headers that come twice."""
        for name, value in scope["headers"]:
            # RFC 9110, section 5.5: whitespace behind a value is no part of it. uvicorn leaves it there.
            read = value.rstrip(b" \t")
            if name in self.headers:
                self.earlier.append((name, self.headers[name]))
                read = b"%b, %b" % (self.headers[name], read) if name == b"accept" else read
            self.headers[name] = read
        self.extra: tuple[HeaderPair, ...] = ()
        """Headers of the response, besides those that it is sent with."""
        self.principal: str | None = None
        """Whose token it brings; ``None`` where nobody checks tokens."""
        self.caller: Caller | None = None
        """What that token says."""
        self.gate: Gate | None = None
        """Who has checked it."""
        self.is_relayed = False
        """Whether it has come through another process."""
        self.call = b""
        """Names a call that another process may go on with; empty until it has a name."""
        self.is_again = False
        """Whether a process that has died may have served it."""
        self.is_settled = False
        """Whether it is known that its session lives here, or nobody can say now."""

    @property
    def pairs(self) -> Sequence[HeaderPair]:
        """All headers, those of one name in their order; that of names means nothing (RFC 9110, section 5.3)."""
        return [*self.earlier, *self.headers.items()]

    def note_sender(self, caller: Caller, gate: Gate) -> None:
        """Note who has sent this request, and who says so."""
        self.caller, self.principal, self.gate = caller, caller.principal, gate

    @property
    def local_path(self) -> str:
        """The path below the mount that it came through."""
        # Mounted: ASGI leaves the prefix in the path.
        return self.path.removeprefix(self.root_path)

    def send(self, message: Message) -> Awaitable[None]:
        """Send an ASGI message."""
        if self.extra and message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], *self.extra]}
        return self.raw_send(message)

    async def wait_gone(self) -> None:
        """Wait until the client has disconnected; what is left of the body is dropped."""
        while (await self.receive())["type"] != "http.disconnect":
            pass

    def move(self, home: str, body: bytes | None) -> bool:
        """Give the connection and this request, whose body was read, to another process.

        Returns whether that was possible; then nothing else may be done with the request. It is possible only between
        the workers of one port.
        """
        move = self.scope.get("state", _NONE).get(MOVE)
        return move is not None and move(self.scope, home, body or b"")


_NONE: Mapping[str, Any] = {}


class RequestHeaders(Mapping[str, str]):
    """Headers as a handler sees them: text, with case-insensitive names. Decoded on access."""

    __slots__ = ("raw",)

    def __init__(self, raw: Headers) -> None:
        self.raw = raw

    def __getitem__(self, name: str) -> str:
        return self.raw[name.lower().encode("latin-1", "replace")].decode("latin-1")

    def __iter__(self) -> Iterator[str]:
        return (name.decode("latin-1") for name in self.raw)

    def __len__(self) -> int:
        return len(self.raw)


async def send_json(http: Http, status: int, body: bytes, extra: tuple[HeaderPair, ...] = ()) -> None:
    """Send a complete response with a JSON body."""
    framed = [_JSON, *extra, (b"content-length", b"%d" % len(body)), *http.extra]
    await http.raw_send({"type": "http.response.start", "status": status, "headers": framed})
    await http.raw_send({"type": "http.response.body", "body": body})


async def send_response(http: Http, status: int, extra: tuple[HeaderPair, ...] = (), body: bytes = b"") -> None:
    """Send a complete response, by default without a body; ``HEAD`` gets only the length of the body."""
    headers = [*extra, (b"content-length", b"%d" % len(body))]
    await http.send({"type": "http.response.start", "status": status, "headers": headers})
    await http.send({"type": "http.response.body", "body": b"" if http.method == "HEAD" else body})


async def send_refusal(http: Http, refusal: HttpRefusal, id: RequestId | None = None, *extra: HeaderPair) -> None:
    """Send an HTTP error with a JSON-RPC error in its body, in the form of the client's revision."""
    body = refusal.body(id, null_id=has_null_ids(http.headers))
    await send_json(http, refusal.status, body, extra)


async def send_unavailable(http: Http, why: str) -> None:
    """Respond that this cannot be served now.

    Only for requests that no handler has seen, so that they may be repeated.
    """
    await send_refusal(http, HttpRefusal(503, InvalidRequest(why)), None, (b"retry-after", b"5"), (NOT_ACCEPTED, b"1"))


NO_SESSION = HttpRefusal(404, InvalidRequest("Session not found"))
NOT_ALLOWED = HttpRefusal(405, InvalidRequest("Method not allowed"))
GONE = HttpRefusal(400, InvalidRequest("The request was not finished"))
"""The client disconnected before its body was complete, so nobody reads this."""

_TOO_SLOW = HttpRefusal(408, InvalidRequest("The body did not arrive in time"))


async def read_body(http: Http, limit: int, patience: float) -> bytes | HttpRefusal:
    """Read the body. ``limit`` in bytes (beyond it 413), ``patience`` in seconds for all of it (408)."""
    length = http.headers.get(b"content-length")
    if length is not None and (not length.isdigit() or len(length) > 15 or int(length) > limit):
        return _too_large(limit)
    # Usually the whole body has arrived already, and then neither a timer nor another frame is needed.
    receiving = http.receive().__await__()
    try:
        pending = receiving.send(None)
    except StopIteration as stop:
        message: Message = stop.value
    else:
        try:
            async with asyncio.timeout(patience):
                message = await run_rest(receiving, pending)
        except TimeoutError:
            return _TOO_SLOW
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
        return _TOO_SLOW


def _too_large(limit: int) -> HttpRefusal:
    return HttpRefusal(413, InvalidRequest(f"Invalid request: the limit is {limit} bytes"))
