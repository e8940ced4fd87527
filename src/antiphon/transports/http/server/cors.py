"""What a browser wants to hear before it lets a page talk to us, and read the answer (CORS, fetch.spec.whatwg.org).

Says nothing about who may call: pages that may not are refused by ``guards`` before this is asked. A page is always
answered by its own name, never by ``*``.
"""

from __future__ import annotations

from antiphon.transports.http.server.asgi import HeaderPair, Http, Message, Send, send_empty

__all__ = ["answers_page", "send_preflight"]

_HEADERS = frozenset({b"accept", b"authorization", b"content-type", b"last-event-id"})
_OURS = b"mcp-"

_EXPOSED: HeaderPair = (b"access-control-expose-headers", b"Mcp-Session-Id, WWW-Authenticate, Retry-After")
_VARY: HeaderPair = (b"vary", b"Origin")
_MAX_AGE: HeaderPair = (b"access-control-max-age", b"600")

_MOST_ASKED = 4096
"""Bytes of ``Access-Control-Request-Headers`` that are read."""


def answers_page(http: Http) -> bool:
    """Let the page that sent this request read its answer; tell whether it only asks what it may send.

    Call it once the guard has let the request in.
    """
    origin = http.headers.get(b"origin")
    if origin is None:
        return False
    http.answer_through(_with(http.send, origin))
    return http.scope["method"] == "OPTIONS" and b"access-control-request-method" in http.headers


async def send_preflight(http: Http, methods: bytes) -> None:
    """Say which methods and headers a page may send. ``methods`` as in ``Allow``."""
    asked = http.headers.get(b"access-control-request-headers", b"")[:_MOST_ASKED].split(b",")
    named = (name.strip().lower() for name in asked)
    allowed = b", ".join(name for name in named if name in _HEADERS or _is_ours(name))
    headers: list[HeaderPair] = [(b"access-control-allow-methods", methods), _MAX_AGE]
    if allowed:
        headers.append((b"access-control-allow-headers", allowed))
    await send_empty(http, 204, tuple(headers))


def _is_ours(name: bytes) -> bool:
    """Tell whether a header is the protocol's: ``Mcp-Param-*`` has as many names as there are parameters."""
    return name.startswith(_OURS) and name.replace(b"-", b"").isalnum()


def _with(send: Send, origin: bytes) -> Send:
    async def told(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [*message["headers"], (b"access-control-allow-origin", origin), _EXPOSED, _VARY]
            message = {**message, "headers": headers}
        await send(message)

    return told
