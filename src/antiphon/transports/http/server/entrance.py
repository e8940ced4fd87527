"""The result of a ``Gate`` as HTTP: admits or refuses requests, and serves public documents.

Used for Streamable HTTP, HTTP+SSE, and the opening of a WebSocket. The gate checks tokens.
``answers_page`` and ``send_preflight`` have the headers by which a browser lets a page read the response (CORS,
fetch.spec.whatwg.org): always for its own origin, never for ``*``. ``guards`` refuses other pages before this.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import msgspec

from antiphon.errors import InsufficientScope, InvalidRequest, TemporarilyUnavailable
from antiphon.protocol.caller import Caller
from antiphon.protocol.http.rules import Denied, Gate, HeaderPair, HttpRefusal
from antiphon.transports.http.server.asgi import Http, send_denial, send_empty, send_json, send_refusal

_NOT_READ = HttpRefusal(405, InvalidRequest("Method not allowed"))
_READ: tuple[HeaderPair, ...] = ((b"cache-control", b"public, max-age=300"),)
"""Cached for long enough that clients that start together fetch it once; short enough for changes to be seen soon."""


_LONGEST = 30 * 86_400.0
"""Seconds after which a stream ends whose token is valid for longer; its client opens another one."""


class _Data(msgspec.Struct, rename="camel"):
    required_scopes: list[str] = msgspec.field(default_factory=list[str])


class _Error(msgspec.Struct):
    data: _Data = msgspec.field(default_factory=_Data)


class _ErrorReply(msgspec.Struct):
    error: _Error = msgspec.field(default_factory=_Error)


_decode = msgspec.json.Decoder(_ErrorReply).decode


async def admit_request(http: Http, gate: Gate, path: str) -> bool:
    """Ask the gate about a request to ``path``; return whether it is admitted. If not, the response was sent."""
    found = await gate.admit(http.method, path, http.headers)
    if isinstance(found, Denied):
        await send_denial(http, found)
        return False
    http.note_sender(found.caller, gate)
    http.extra += found.headers
    return True


def document_at(gate: Gate, http: Http) -> bytes | None:
    """Return the public document at this path, if any. A proxy may have passed on the whole path."""
    documents = gate.documents()
    found = documents.get(http.local_path.rstrip("/"))
    return documents.get(http.path.rstrip("/")) if found is None else found


async def send_document(http: Http, document: bytes) -> None:
    """Send a public document, such as where to obtain tokens."""
    if http.method != "GET":
        await send_refusal(http, _NOT_READ, None, (b"allow", b"GET"))
        return
    await send_json(http, 200, document, _READ)


def make_challenge(http: Http, reply: bytes, code: int | None) -> tuple[HeaderPair, ...]:
    """Return extra headers for an error reply: the challenge, if scopes are missing, or when to call again."""
    if code == TemporarilyUnavailable.CODE:
        return ((b"retry-after", b"5"),)
    if code != InsufficientScope.CODE or http.gate is None:
        return ()
    try:
        return http.gate.challenge(_decode(reply).error.data.required_scopes)
    except (msgspec.DecodeError, UnicodeDecodeError):
        # A handler raised an error with this code itself.
        return http.gate.challenge(())


def schedule_expiry(caller: Caller | None, expire: Callable[[], object]) -> asyncio.TimerHandle | None:
    """Schedule ``expire`` for when the token expires, which ends what it opened; ``None`` if the expiry is unknown."""
    if caller is None or caller.expires is None:
        return None
    left = min(max(0.0, caller.expires - time.time()), _LONGEST)
    return asyncio.get_running_loop().call_later(left, expire)


_HEADERS = frozenset({b"accept", b"authorization", b"content-type", b"dpop", b"last-event-id"})
_OURS = b"mcp-"

_EXPOSED: HeaderPair = (b"access-control-expose-headers", b"Mcp-Session-Id, WWW-Authenticate, DPoP-Nonce, Retry-After")
_VARY: HeaderPair = (b"vary", b"Origin")
_MAX_AGE: HeaderPair = (b"access-control-max-age", b"600")

_MOST_ASKED = 4096
"""Most bytes of ``Access-Control-Request-Headers`` that are read."""


def answers_page(http: Http) -> bool:
    """Allow the page that sent this request to read the response; tell whether the request is a preflight.

    Call it after the guard has accepted the request.
    """
    origin = http.headers.get(b"origin")
    if origin is None:
        return False
    http.extra += ((b"access-control-allow-origin", origin), _EXPOSED, _VARY)
    return http.method == "OPTIONS" and b"access-control-request-method" in http.headers


async def send_preflight(http: Http, methods: bytes) -> None:
    """Respond with the methods and headers that a page may send. ``methods`` as in ``Allow``."""
    asked = http.headers.get(b"access-control-request-headers", b"")[:_MOST_ASKED].split(b",")
    named = (name.strip().lower() for name in asked)
    allowed = b", ".join(name for name in named if name in _HEADERS or _is_ours(name))
    headers: list[HeaderPair] = [(b"access-control-allow-methods", methods), _MAX_AGE]
    if allowed:
        headers.append((b"access-control-allow-headers", allowed))
    await send_empty(http, 204, tuple(headers))


def _is_ours(name: bytes) -> bool:
    """Tell whether a header belongs to the protocol; ``Mcp-Param-*`` has as many names as there are parameters."""
    return name.startswith(_OURS) and name.replace(b"-", b"").isalnum()
