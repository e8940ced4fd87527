"""The headers by which a browser lets a page call this server and read the response (CORS, fetch.spec.whatwg.org).

This does not decide who may call: ``guards`` refuses other pages before this. A page is always answered with its own
origin, never with ``*``.
"""

from __future__ import annotations

from antiphon.transports.http.server.asgi import HeaderPair, Http, send_empty

__all__ = ["answers_page", "send_preflight"]

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
