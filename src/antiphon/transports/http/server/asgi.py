"""ASGI as this package uses it: the types, one request with its headers, and complete responses.

Server-sent events are in ``stream``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any

from antiphon.errors import InvalidRequest
from antiphon.protocol.caller import Caller
from antiphon.protocol.http.rules import NOT_ACCEPTED, Denied, Gate, HeaderPair, Headers, HttpRefusal, has_null_ids
from antiphon.wire.envelope import RequestId

__all__ = [
    "ONLY_JSON",
    "ASGIApp",
    "AsgiHttp",
    "Endpoint",
    "HeaderPair",
    "Http",
    "Message",
    "Receive",
    "RequestHeaders",
    "Scope",
    "Send",
    "follow_lifespan",
    "send_denial",
    "send_empty",
    "send_json",
    "send_refusal",
    "send_unavailable",
]

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]
_JSON: HeaderPair = (b"content-type", b"application/json")
ONLY_JSON = (_JSON,)
"""The headers of a response in JSON, but for its length."""


class Http:
    """One HTTP request, as far as it has been received, and its response.

    ``AsgiHttp`` is one of any ASGI server. Those of our own server (``cycle``) can also be received and answered in one
    step, without ASGI messages, which saves four messages and as many coroutines: a tenth of an echo's time. If a
    method returns ``False`` it has done nothing, and the response must be sent as ASGI messages.
    """

    # Not an ABC, whose metaclass excludes that of a struct, which ``cycle`` has.

    __slots__ = ()

    method: str
    path: str
    root_path: str
    """Prefix of the path below which this application is mounted."""
    query: bytes
    headers: dict[bytes, bytes]
    """The headers by name, in lower case; of one that comes twice, the last."""
    earlier: list[HeaderPair]
    """The others of headers that come twice."""
    extra: tuple[HeaderPair, ...]
    """Headers of the response, besides those that it is sent with."""
    principal: str | None
    """Whose token it brings; ``None`` where nobody checks tokens."""
    caller: Caller | None
    """What that token says."""
    gate: Gate | None
    """Who has checked it."""
    is_relayed: bool
    """Whether it has come through another process."""
    call: bytes = b""
    """Names a call that another process may go on with; empty until it has a name."""
    is_again: bool = False
    """Whether a process that has died may have served it."""
    is_settled: bool = False
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

    def receive(self) -> Awaitable[Message]:
        """Receive an ASGI message."""
        raise NotImplementedError

    def send(self, message: Message) -> Awaitable[None]:
        """Send an ASGI message."""
        raise NotImplementedError

    def take_body(self, limit: int) -> bytes | None:
        """Return the body if all of it has arrived, at most ``limit`` bytes; call it before ``receive``."""
        return None

    @property
    def is_alone(self) -> bool:
        """Whether no other request is being served."""
        return False

    def respond(self, status: int, headers: tuple[HeaderPair, ...], body: bytes) -> bool:
        """Send a complete response; ``headers`` without its length."""
        return False

    def begin(self, status: int, headers: tuple[HeaderPair, ...], first: bytes = b"") -> bool:
        """Send the head of a response of unknown length, and the ``first`` part of its body."""
        return False

    def write(self, data: bytes, *, last: bool) -> bool:
        """Send a part of the body of the response that ``begin`` started."""
        return False

    def move(self, home: str, body: bytes | None) -> bool:
        """Give the connection and this request, whose body was read, to another process.

        Returns whether that was possible; then nothing else may be done with the request. It is possible only between
        the workers of one port.
        """
        return False


Endpoint = Callable[[Http], Awaitable[None]]
"""Serves requests."""


class AsgiHttp(Http):
    """A request that an ASGI server has received."""

    __slots__ = (
        "_receive", "_send", "call", "caller", "earlier", "extra", "gate", "headers", "is_again", "is_relayed",
        "is_settled", "method", "path", "principal", "query", "root_path", "scope",
    )  # fmt: skip

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self.scope = scope
        self.method = scope["method"]
        self.path = scope["path"]
        self.root_path = scope.get("root_path", "")
        self.query = scope.get("query_string", b"")
        self.headers, self.earlier = {}, []
        for name, value in scope["headers"]:
            if name in self.headers:
                self.earlier.append((name, self.headers[name]))
            self.headers[name] = value
        self.extra = ()
        self.principal = None
        self.caller = None
        self.gate = None
        self.is_relayed = self.is_again = self.is_settled = False
        self.call = b""

    def receive(self) -> Awaitable[Message]:
        """Receive an ASGI message."""
        return self._receive()

    def send(self, message: Message) -> Awaitable[None]:
        """Send an ASGI message."""
        if self.extra and message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], *self.extra]}
        return self._send(message)


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
    headers = (_JSON, *extra) if extra else ONLY_JSON
    if not http.respond(status, headers, body):
        await _send_messages(http, status, headers, body)


async def send_empty(http: Http, status: int, extra: tuple[HeaderPair, ...] = ()) -> None:
    """Send a complete response without a body."""
    if not http.respond(status, extra, b""):
        await _send_messages(http, status, extra, b"")


async def _send_messages(http: Http, status: int, headers: tuple[HeaderPair, ...], body: bytes) -> None:
    framed = [*headers, (b"content-length", b"%d" % len(body))]
    await http.send({"type": "http.response.start", "status": status, "headers": framed})
    await http.send({"type": "http.response.body", "body": body})


async def send_refusal(http: Http, refusal: HttpRefusal, id: RequestId | None = None, *extra: HeaderPair) -> None:
    """Send an HTTP error with a JSON-RPC error in its body, in the form of the client's revision."""
    body = refusal.body(id, null_id=has_null_ids(http.headers))
    await send_json(http, refusal.status, body, extra)


async def send_denial(http: Http, denied: Denied) -> None:
    """Send the response to a request that a gate refused."""
    await send_refusal(http, denied.refusal, None, *denied.headers)


async def send_unavailable(http: Http, why: str) -> None:
    """Respond that this cannot be served now.

    Only for requests that no handler has seen, so that they may be repeated.
    """
    await send_refusal(http, HttpRefusal(503, InvalidRequest(why)), None, (b"retry-after", b"5"), (NOT_ACCEPTED, b"1"))


async def follow_lifespan(
    receive: Receive, send: Send, begin: Callable[[], object], end: Callable[[], Awaitable[object]]
) -> None:
    """Follow the lifespan protocol: ``begin`` at the start of the application, ``end`` at its shutdown."""
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            begin()
            await send({"type": "lifespan.startup.complete"})
        elif message["type"] == "lifespan.shutdown":
            await end()
            await send({"type": "lifespan.shutdown.complete"})
            return
