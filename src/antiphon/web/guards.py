"""Checks before the page: who may use it and from where, and security headers of all responses.

Owns the checks of Host, Origin, session and CSRF token, each independent of the others. An ASGI application around
another one.

Cookies do not distinguish ports: a cookie set by one port of a host is sent to all its ports. So the session's cookie
belongs to a host name that nobody can guess (``<random>.localhost``, which browsers resolve to this machine). Under any
other name of the page no cookie counts, and its script sends the session in a header (see ``static/session.js``).
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

__all__ = ["COOKIE", "CSP", "HEADER", "MAX_BODY", "Guards", "form_of", "is_plain", "session_of"]

MAX_BODY = 8 * 1024 * 1024
"""Most bytes of a form: an edited request with the longest text the host accepts, percent-encoded."""
MAX_FIELDS = 5_000
"""Most fields of a form: the messages of a long conversation, or a bulk approval."""
COOKIE = "antiphon-session"
"""Name of the session's cookie, under the page's own host name."""
HEADER = "x-antiphon-session"
"""Name of the session's header, under all other host names."""
_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self'{blob}; "
    "media-src 'self'{blob}; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
CSP = _CSP.format(blob="")
"""Without cookies the script fetches images itself and shows them as blobs; only then are these allowed."""
_PLAIN_CSP = _CSP.format(blob=" blob:")
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Not no-referrer, which would make forms send "Origin: null". No other site learns the page's name by this.
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
_READING = ("GET", "HEAD")
_PUBLIC = ("/open", "/alive")
_SESSION, _FORM, _PLAIN = "antiphon.session", "antiphon.form", "antiphon.plain"


class Guards:
    """The page behind its checks."""

    def __init__(self, app: ASGIApp, access: Access, *, named: str, plain: Collection[str]) -> None:
        """Wrap the page.

        ``named`` is its own ``Host``, with the port; ``plain`` are the other names that lead to it.
        """
        self._app = app
        self._access = access
        self._named = named.lower()
        self._plain = frozenset(host.lower() for host in plain)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or refuse it."""
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        scope[_PLAIN] = request.headers.get("host", "").lower() in self._plain

        async def told(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.setdefault("Content-Security-Policy", _PLAIN_CSP if is_plain(request) else CSP)
                if request.url.path.endswith(".woff2"):
                    headers.setdefault("Cache-Control", "private, max-age=604800")
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                if scope.get(_SESSION) is None:
                    # A refused client keeps no connection: connections are limited, and meant for
                    # reviewers.
                    headers["Connection"] = "close"
            await send(message)

        refusal = self._refusal(request) or await self._unwelcome(request)
        await (refusal or self._app)(scope, receive, told)

    def _refusal(self, request: Request) -> Response | None:
        """Check what applies to every request, public or not."""
        if request.method not in (*_READING, "POST"):
            return _plain_text(405, "Method not allowed")
        hosts = request.headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in self._plain | {self._named}:
            # A foreign name that resolves to this machine: DNS rebinding.
            return _plain_text(403, "This page is served on this machine only, under its own name")
        if not _from_here(request.headers, hosts[0].lower(), reading=request.method in _READING):
            return _plain_text(403, "This request comes from another page")
        return None

    async def _unwelcome(self, request: Request) -> Response | None:
        """Check the session, and that a change was sent by one of our pages."""
        plain = is_plain(request)
        session = self._access.session(request.headers.get(HEADER) if plain else request.cookies.get(COOKIE))
        request.scope[_SESSION] = session
        path = request.url.path
        public = path in _PUBLIC or (request.method in _READING and path.startswith("/static/"))
        # Where the session is sent in a header, a browser that opens an address sends none: it gets the
        # script.
        entering = plain and request.method in _READING and request.headers.get("sec-fetch-dest") == "document"
        if public or (session is None and entering):
            return await _read(request) if request.method == "POST" else None
        if session is None:
            words = texts(preferred(None, request.headers.get("accept-language", "")))
            return _plain_text(401, words("denied.session"))
        return None if request.method in _READING else await _read(request) or _unsigned(request, session)


def _from_here(headers: Headers, host: str, *, reading: bool) -> bool:
    # Compared with the requested host name only: another name of the page would mean another session.
    origins = headers.getlist("origin")
    ours = (f"http://{host}", f"https://{host}")
    if any(origin.lower() not in ours for origin in origins) or len(origins) > 1:
        return False
    return reading or (bool(origins) and headers.get("sec-fetch-site", "same-origin") == "same-origin")


async def _read(request: Request) -> Response | None:
    """Read the form of a change."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > (MAX_BODY if request.scope[_SESSION] else 4096):
            return _plain_text(413, "This form is too large")
    try:
        fields = parse_qsl(body.decode(), keep_blank_values=True, strict_parsing=bool(body), max_num_fields=MAX_FIELDS)
    except ValueError:
        return _plain_text(400, "This form cannot be read")
    request.scope[_FORM] = fields
    return None


def _unsigned(request: Request, session: Session) -> Response | None:
    """Check the CSRF token of a change: in a field, as in the page's forms, or in a header."""
    fields = form_of(request)
    typed = next((value for name, value in fields if name == "csrf"), "")
    if not session.allows(request.headers.get("x-csrf-token", typed)):
        return _plain_text(403, "This form was not sent by the page")
    request.scope[_FORM] = [(name, value) for name, value in fields if name != "csrf"]
    return None


def session_of(request: Request) -> Session | None:
    """Return the session of an accepted request; ``None`` for the entrance."""
    return request.scope[_SESSION]


def form_of(request: Request) -> list[tuple[str, str]]:
    """Return the fields of the form that was sent."""
    return request.scope[_FORM]


def is_plain(request: Request) -> bool:
    """Tell whether the page was requested by another name than its own, where cookies do not count."""
    return request.scope[_PLAIN]


def _plain_text(status: int, text: str) -> Response:
    return PlainTextResponse(f"{text}\n", status)
