"""What stands before the page: who may talk to it, from where, and what browsers are told about every answer.

Owns the checks of Host, Origin, session and CSRF token, each by itself, and the headers of all answers. An ASGI
application around another; what the page shows is not known here.
"""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import parse_qsl

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from antiphon.web.access import Access, Session
from antiphon.web.texts import preferred, texts

__all__ = ["CSP", "MAX_BODY", "Guards", "form_of", "session_of"]

MAX_BODY = 8 * 1024 * 1024
"""Bytes of a form: an edited request of the largest text the host takes, percent-encoded."""
MAX_FIELDS = 5_000
"""Fields of a form: the messages of a long conversation, or a bulk approval."""
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
_READING = ("GET", "HEAD")
_SESSION, _FORM = "antiphon.session", "antiphon.form"


class Guards:
    """The page, guarded."""

    def __init__(self, app: ASGIApp, access: Access, *, hosts: Collection[str], cookie: str) -> None:
        """``hosts`` are the values of ``Host`` that are ours, with the port; ``cookie`` is the session's name."""
        self._app = app
        self._access = access
        self._hosts = frozenset(hosts)
        self._origins = frozenset(f"{scheme}://{host}" for host in hosts for scheme in ("http", "https"))
        self._cookie = cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or say why not."""
        if scope["type"] != "http":
            return
        request = Request(scope, receive)

        async def told(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refusal = self._refusal(request) or await self._unwelcome(request)
        await (refusal or self._app)(scope, receive, told)

    def _refusal(self, request: Request) -> Response | None:
        """Check what every request must be, public or not."""
        if request.method not in (*_READING, "POST"):
            return _plain(405, "Method not allowed")
        hosts = request.headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            # A foreign name that was made to point at this machine: DNS rebinding.
            return _plain(403, "This page is served on this machine only, under its own name")
        if not self._from_here(request.headers, reading=request.method in _READING):
            return _plain(403, "This request comes from another page")
        return None

    def _from_here(self, headers: Headers, *, reading: bool) -> bool:
        origins = headers.getlist("origin")
        if any(origin.lower() not in self._origins for origin in origins) or len(origins) > 1:
            return False
        if reading:
            return True
        return bool(origins) and headers.get("sec-fetch-site", "same-origin") == "same-origin"

    async def _unwelcome(self, request: Request) -> Response | None:
        """Check who asks, and that a change was sent by a page of ours."""
        if request.method in _READING and (request.url.path == "/open" or request.url.path.startswith("/static/")):
            return None
        session = self._access.session(request.cookies.get(self._cookie))
        if session is None:
            words = texts(preferred(None, request.headers.get("accept-language", "")))
            return _plain(401, words("denied.session"))
        request.scope[_SESSION] = session
        return None if request.method in _READING else await _unsigned(request, session)


async def _unsigned(request: Request, session: Session) -> Response | None:
    """Read the form of a change, and check its token."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY:
            return _plain(413, "This form is too large")
    try:
        fields = parse_qsl(body.decode(), keep_blank_values=True, strict_parsing=bool(body), max_num_fields=MAX_FIELDS)
    except ValueError:
        return _plain(400, "This form cannot be read")
    if not session.allows(request.headers.get("x-csrf-token", "")):
        return _plain(403, "This form was not sent by the page")
    request.scope[_FORM] = fields
    return None


def session_of(request: Request) -> Session:
    """Return the session that a request was let in with."""
    return request.scope[_SESSION]


def form_of(request: Request) -> list[tuple[str, str]]:
    """Return the fields of the form that was sent."""
    return request.scope[_FORM]


def _plain(status: int, text: str) -> Response:
    return PlainTextResponse(f"{text}\n", status)
