"""ASGI as this package uses it: the types, one request with its headers, and complete responses.

Server-sent events are in ``stream``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from typing import Any, Protocol

from antiphon.errors import InvalidRequest
from antiphon.protocol.caller import Caller
from antiphon.protocol.http.gate import Denied, Gate, HeaderPair
from antiphon.protocol.http.rules import NOT_ACCEPTED, Headers, Refusal, has_null_ids
from antiphon.wire.envelope import RequestId

__all__ = [
    "ASGIApp",
    "AtOnce",
    "Endpoint",
    "HeaderPair",
    "Http",
    "Message",
    "Receive",
    "RequestHeaders",
    "Scope",
    "Send",
    "deny",
    "follow_lifespan",
    "json_at_once",
    "local_path",
    "refuse",
    "send_empty",
    "send_json",
    "unavailable",
]

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]
_JSON: HeaderPair = (b"content-type", b"application/json")
_ONLY_JSON = (_JSON,)


class AtOnce:
    """What a server may offer in addition to ASGI: receiving and sending in one step, without ASGI messages.

    This base class offers nothing. Our own server does (``cycle``), and passes itself to the endpoint with each
    request, which saves four messages and as many coroutines: a tenth of an echo's time. If a method returns ``False``
    it has done nothing, and the response must be sent as ASGI messages.
    """

    __slots__ = ()

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
        """Give the connection and this request, whose body was read, to the process that a replica lives in.

        It has to do nothing more then. Only possible between the workers of one port.
        """
        return False


_NEVER = AtOnce()


class Endpoint(Protocol):
    """An ASGI application of ours, to which our own server offers what can be done in one step."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send, at_once: AtOnce | None = None) -> None:
        """Serve one ASGI scope."""
        ...


class Http:
    """One HTTP request, as far as it has been received."""

    __slots__ = ("at_once", "caller", "gate", "headers", "principal", "receive", "scope", "send")

    def __init__(self, scope: Scope, receive: Receive, send: Send, at_once: AtOnce | None = None) -> None:
        self.scope = scope
        self.receive = receive
        self.send = send
        self.at_once: AtOnce = at_once or _NEVER
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.principal: str | None = None
        """Whose token it brings; ``None`` where nobody checks tokens."""
        self.caller: Caller | None = None
        """What that token says."""
        self.gate: Gate | None = None
        """Who has checked it."""

    def sent_by(self, caller: Caller, gate: Gate) -> None:
        """Note who has sent this request, and who says so."""
        self.caller, self.principal, self.gate = caller, caller.principal, gate

    def answer_through(self, send: Send) -> None:
        """Send all further messages of the response through ``send``."""
        self.send = send
        self.at_once = _NEVER


def local_path(scope: Scope) -> str:
    """Return the path of a request below the mount that it came through."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    # Mounted: ASGI leaves the prefix in the path.
    return path[len(root) :] if root and path.startswith(root) else path


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
    headers = (_JSON, *extra) if extra else _ONLY_JSON
    if not http.at_once.respond(status, headers, body):
        await _send_messages(http.send, status, headers, body)


def json_at_once(http: Http, status: int, body: bytes) -> bool:
    """Send a complete response with a JSON body if that is possible in one step; tell whether it was."""
    return http.at_once.respond(status, _ONLY_JSON, body)


async def send_empty(http: Http, status: int, extra: tuple[HeaderPair, ...] = ()) -> None:
    """Send a complete response without a body."""
    if not http.at_once.respond(status, extra, b""):
        await _send_messages(http.send, status, extra, b"")


async def _send_messages(send: Send, status: int, headers: tuple[HeaderPair, ...], body: bytes) -> None:
    framed = [*headers, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": framed})
    await send({"type": "http.response.body", "body": body})


async def refuse(http: Http, refusal: Refusal, id: RequestId | None = None, *extra: HeaderPair) -> None:
    """Send an HTTP error with a JSON-RPC error in its body, in the form of the client's revision."""
    body = refusal.body(id, null_id=has_null_ids(http.headers))
    await send_json(http, refusal.status, body, extra)


async def deny(http: Http, denied: Denied) -> None:
    """Send the response to a request that a gate refused."""
    await refuse(http, denied.refusal, None, *denied.headers)


async def unavailable(http: Http, why: str) -> None:
    """Respond that this cannot be served now.

    Only for requests that no handler has seen, so that they may be repeated.
    """
    await refuse(http, Refusal(503, InvalidRequest(why)), None, (b"retry-after", b"5"), (NOT_ACCEPTED, b"1"))


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
