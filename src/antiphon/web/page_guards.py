"""Checks before the page: who may use it and from where, and security headers of all responses.

Owns the checks of Host, Origin, session and CSRF token, each independent of the others. An ASGI application around
another one.

Cookies do not distinguish ports: a cookie set by one port of a host is sent to all its ports. So the session's cookie
belongs to a host name that nobody can guess (``<random>.localhost``, which browsers resolve to this machine). Under any
other name of the page no cookie counts, and its script sends the session in a header (see ``static/session.js``).

Links of notices lead to a name of their own, where no other session counts. Each opens a session for one question.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import re
import time
from collections.abc import Callable, Collection, Mapping
from secrets import token_urlsafe
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from antiphon.host.checks.people import Person
from antiphon.host.config.settings import SignIn
from antiphon.host.review.notify import digest_link
from antiphon.host.store.base import Store
from antiphon.web.page_texts import choose_language, load_texts
from antiphon.web.render import make_environment

MAX_BODY = 8 * 1024 * 1024
"""Most bytes of a form: an edited request with the longest text the host accepts, percent-encoded."""
BODY_SECONDS = 30.0
"""Seconds in which a whole form must arrive."""
MAX_FIELDS = 5_000
"""Most fields of a form: the messages of a long conversation, or a bulk approval."""
COOKIE = "antiphon-session"
"""Name of the session's cookie, under the page's own host name."""
HEADER = "x-antiphon-session"
"""Name of the session's header, under all other host names."""
_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self'{blob}; "
    "media-src 'self'{blob}; connect-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
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
CALLBACK = "/sign-in/callback"
"""The path to which the provider sends a browser back: the redirect URI is the page's address with it."""
SIGNED_OUT = "/signed-out"
"""The path to which the provider sends a browser after it has signed the person out there, too."""
BEGUN_FOR = 600.0
"""Seconds in which a sign-in has to be completed."""
_PATH = re.compile(r"/(?![/\\])[\x21-\x5b\x5d-\x7e]{0,500}")
"""A path of this page: one that begins with two slashes, or has a backslash, would lead a browser elsewhere."""
_READING = ("GET", "HEAD")
_PUBLIC = ("/open", "/alive", "/sign-in", CALLBACK, SIGNED_OUT)
_SESSION, _FORM, _PLAIN, _FIRST = "antiphon.session", "antiphon.form", "antiphon.plain", "antiphon.first"
_LINKED = "antiphon.linked"
WORKER = "/static/push/worker.js"
"""The script that receives notices by Web Push; only it may be a worker for more than its own folder."""
LINK = "/link"
"""The path of the links in notices."""
LINK_COOKIE = "antiphon-link"
"""Beginning of the name of the cookie of a session that a link has opened; the id of its question follows."""
LINK_SESSION_AGE = 3600.0
"""Seconds for which a link's session lasts, from when the link was followed."""

MAX_SIGNED_IN = 1_000
"""Most browsers in which people are signed in; the oldest session is dropped first."""
MAX_EACH = 10
"""Most browsers in which one person is signed in, so that nobody displaces others."""
MAX_SESSIONS = 100
"""Most browsers; the oldest session is dropped first. A person has two or three."""
MAX_TOKENS = 100
"""Most addresses that were issued and not opened yet; the oldest becomes invalid first."""
SESSION_AGE = 30 * 24 * 3600.0
"""Seconds a session lasts, restarts included; after a month the browser needs a new address."""


class Guards:
    """The page behind its checks."""

    def __init__(self, app: ASGIApp, access: PageAccess, *, named: str, plain: Collection[str]) -> None:
        """Wrap the page.

        ``named`` is its own ``Host``, with the port; ``plain`` are the other names that lead to it, besides that of
        links.
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
        host = request.headers.get("host", "").lower()
        scope[_PLAIN], scope[_LINKED] = host in self._plain, host == self._access.linked

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.setdefault("Content-Security-Policy", _PLAIN_CSP if is_plain(request) else CSP)
                if request.url.path.endswith(".woff2"):
                    headers.setdefault("Cache-Control", "private, max-age=604800")
                if request.url.path == WORKER:
                    headers["Service-Worker-Allowed"] = "/"
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                if scope.get(_SESSION) is None:
                    # A refused client keeps no connection: connections are limited, and meant for reviewers.
                    headers["Connection"] = "close"
            await send(message)

        refusal = self._refusal(request) or await self._unwelcome(request)
        await (refusal or self._app)(scope, receive, send_with_headers)

    def _refusal(self, request: Request) -> Response | None:
        """Check what applies to every request, public or not."""
        if request.method not in (*_READING, "POST"):
            return _plain_text(405, "Method not allowed")
        hosts = request.headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in self._plain | {self._named, self._access.linked}:
            # A foreign name that resolves to this machine: DNS rebinding.
            return _plain_text(403, "This page is served on this machine only, under its own name")
        if not _from_here(request.headers, hosts[0].lower(), reading=request.method in _READING):
            return _plain_text(403, "This request comes from another page")
        return None

    async def _unwelcome(self, request: Request) -> Response | None:
        """Check the session, and that a change was sent by one of our pages."""
        if is_linked(request):
            return await self._keep_to_link(request)
        plain = is_plain(request)
        named = request.cookies.get(self._access.cookie)
        session = self._access.session(request.headers.get(HEADER) if plain else named)
        request.scope[_SESSION] = session
        path = request.url.path
        public = path in _PUBLIC or (request.method in _READING and path.startswith("/static/"))
        # Where the session is sent in a header, a browser that opens an address sends none: it gets the script.
        entering = plain and request.method in _READING and request.headers.get("sec-fetch-dest") == "document"
        if public or (session is None and entering):
            return await _read_form(request) if request.method == "POST" else None
        if session is None:
            signs_in = self._access.settings is not None
            opens = request.method in _READING and request.headers.get("sec-fetch-dest", "document") == "document"
            if signs_in and opens:
                path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
                return RedirectResponse(f"/sign-in?{urlencode({'then': path})}", 303)
            return _refuse_session(request, "denied.signed_out" if signs_in else "denied.session")
        return None if request.method in _READING else await _read_form(request) or _refuse_unsigned(request, session)

    async def _keep_to_link(self, request: Request) -> Response | None:
        """Let a link's session see and decide its question, and nothing else. A browser may have followed several."""
        sessions = self._access.list_linked_sessions(request.cookies)
        path, reads = request.url.path, request.method in _READING
        asked = path.split("/")[2] if path.startswith("/review/") else ""
        # Of a question whose session has ended, a tab shows that, and not another question.
        session = sessions.get(asked) if asked else next(reversed(sessions.values()), None)
        request.scope[_SESSION] = session
        if path == LINK or (reads and path.startswith("/static/")):
            return None if reads else await _read_form(request)
        if session is None:
            return _refuse_session(request, "denied.link")
        is_own = bool(asked)
        if reads:
            return None if is_own else RedirectResponse(f"/review/{session.only}?{request.url.query}", 303)
        if refusal := await _read_form(request):
            return refusal
        if path == "/undo":
            named = {value.partition(" ")[0] for name, value in form_of(request) if name == "of"}
            session = request.scope[_SESSION] = sessions.get(min(named, default=""))
            if session is None:
                return _refuse_session(request, "denied.link")
            is_own = named == {session.only}
        refusal = _refuse_unsigned(request, session)
        return refusal if refusal or is_own else _plain_text(403, "This link is for another question")


def _from_here(headers: Headers, host: str, *, reading: bool) -> bool:
    # Compared with the requested host name only: another name of the page would mean another session.
    origins = headers.getlist("origin")
    ours = (f"http://{host}", f"https://{host}")
    if any(origin.lower() not in ours for origin in origins) or len(origins) > 1:
        return False
    return reading or (bool(origins) and headers.get("sec-fetch-site", "same-origin") == "same-origin")


async def _read_form(request: Request) -> Response | None:
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > (MAX_BODY if request.scope[_SESSION] else 4096):
                    return _plain_text(413, "This form is too large")
    except (TimeoutError, ClientDisconnect):
        return _plain_text(408, "This form has not arrived")
    try:
        fields = parse_qsl(body.decode(), keep_blank_values=True, strict_parsing=bool(body), max_num_fields=MAX_FIELDS)
    except ValueError:
        return _plain_text(400, "This form cannot be read")
    request.scope[_FORM] = fields
    return None


def _refuse_unsigned(request: Request, session: BrowserSession) -> Response | None:
    """Check the CSRF token of a change: in a field, as in the page's forms, or in a header."""
    fields = form_of(request)
    typed = next((value for name, value in fields if name == "csrf"), "")
    if not session.allows(request.headers.get("x-csrf-token", typed)):
        return _plain_text(403, "This form was not sent by the page")
    request.scope[_FORM] = [(name, value) for name, value in fields if name != "csrf"]
    return None


def _refuse_session(request: Request, why: str) -> Response:
    words = load_texts(choose_language(None, request.headers.get("accept-language", "")))
    if "text/html" not in request.headers.get("accept", ""):
        return _plain_text(401, words(why))
    page = make_environment().get_template("entrance/said.html")
    return HTMLResponse(page.render(t=words, theme="auto", said=why), 401)


def session_of(request: Request) -> BrowserSession | None:
    """Return the session of an accepted request; ``None`` for the entrance."""
    return request.scope[_SESSION]


def let_in(request: Request, session: BrowserSession | None, path: str) -> Request:
    """Give a request the session that it has opened, and return it as a request for another path of the page."""
    request.scope[_SESSION] = session
    return Request({**request.scope, "path": path, "raw_path": path.encode(), "query_string": b"", _FIRST: True})


def is_first(request: Request) -> bool:
    """Tell whether this is the first request of a session, so that the browser has nothing of the page yet."""
    return _FIRST in request.scope


def allow_inlined(script: str, style: str) -> str:
    """Return the policy of a page in which exactly this script and this style sheet stand."""
    policy = CSP
    for name, text in (("script", script), ("style", style)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        policy = policy.replace(f"{name}-src 'self'", f"{name}-src 'self' 'sha256-{digest}'")
    return policy


def form_of(request: Request) -> list[tuple[str, str]]:
    """Return the fields of the form that was sent."""
    return request.scope[_FORM]


def is_plain(request: Request) -> bool:
    """Tell whether the page was requested by another name than its own, where cookies do not count."""
    return request.scope[_PLAIN]


def check_path(then: str) -> str:
    """Return a path of this page that a browser has asked for; ``/`` for an address of any other kind."""
    return then if _PATH.fullmatch(then) else "/"


def is_linked(request: Request) -> bool:
    """Return whether the page was requested by the name to which links of notices lead."""
    return request.scope[_LINKED]


def _plain_text(status: int, text: str) -> Response:
    return PlainTextResponse(f"{text}\n", status)


class SignedInPerson(msgspec.Struct, frozen=True, kw_only=True):
    """A completed sign-in."""

    person: Person
    token: str = ""
    """The ID token, by which the provider knows whom to sign out."""
    then: str
    """The path that the browser had asked for."""


class BrowserSession(msgspec.Struct, frozen=True, kw_only=True):
    """One browser."""

    number: int
    """From 1, in order of arrival."""
    secret: str
    """Kept by the browser; everything a session proves is derived from it, and nothing of it is in the store."""
    signed_in: SignedInPerson | None = None
    """Who has signed in; ``None`` if whoever has the address may decide."""
    only: str | None = None
    """Id of the one question that it may see and decide; ``None`` for all. A link of a notice has opened it."""

    @property
    def person(self) -> Person | None:
        """Who decides here, if that is proven."""
        return None if self.signed_in is None else self.signed_in.person

    @property
    def csrf(self) -> str:
        """The token that every change must carry; only our own pages can read it."""
        return self._sign("csrf")

    @property
    def proof_key(self) -> str:
        """Known only to the page and this browser's tabs: a tab uses it to verify the page after a lost connection."""
        return _proof_key(_compute_digest(self.secret))

    def allows(self, token: str) -> bool:
        """Tell whether this is the CSRF token of this session."""
        return hmac.compare_digest(self.csrf.encode(), token.encode("utf-8", "surrogatepass"))

    def stamp(self, subject: str, at: float) -> str:
        """Make a stamp of the time when something was sent to this browser, which only this page can make."""
        moment = str(round(at * 1000))
        return f"{moment}.{self._sign(f'shown {moment} {subject}')}"

    def read_stamp(self, subject: str, stamp: str) -> float | None:
        """Return the time in a stamp; ``None`` if it belongs to something else, or to another browser."""
        moment, _, signature = stamp.partition(".")
        if not (moment.isascii() and moment.isdecimal() and len(moment) < 16):
            return None
        good = self._sign(f"shown {moment} {subject}")
        if not hmac.compare_digest(good.encode(), signature.encode("utf-8", "surrogatepass")):
            return None
        return int(moment) / 1000

    def _sign(self, text: str) -> str:
        return hmac.digest(self.secret.encode(), text.encode("utf-8", "surrogatepass"), "sha256").hex()


class PageAccess:
    """The tokens of one run, and the sessions of one page."""

    def __init__(
        self,
        store: Store,
        page: str,
        *,
        settings: SignIn | None = None,
        linked: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Prepare an empty table. ``page`` is its name in the store.

        With ``settings`` only people who have signed in get sessions; these end with this process. ``linked``: the
        address to which links of notices lead; their sessions end with this process, too.
        """
        self.settings = settings
        parts = urlsplit(linked or "")
        self.linked = parts.netloc.lower() or None
        """The ``Host`` of the address to which links lead."""
        self.has_safe_links = parts.scheme == "https"
        self.link_cookie = f"__Host-{LINK_COOKIE}" if self.has_safe_links else LINK_COOKIE
        self._linked: dict[str, tuple[BrowserSession, float]] = {}
        self.is_encrypted = settings is not None and settings.url.startswith("https:")
        self.cookie = self.name_cookie(COOKIE)
        self._people: dict[str, tuple[SignedInPerson, float]] = {}
        self._store = store
        self._page = page
        self.clock = clock
        self.steady = time.monotonic
        """A clock that is never set: sessions that end with this process must not outlive their hours."""
        self._tokens: dict[str, Callable[[], object] | None] = {}
        self._sessions: dict[str, tuple[int, float]] = {}
        """The number of each session and when it ends, by the digest of the secret that only its browser has."""
        self._count = 0

    def name_cookie(self, name: str) -> str:
        """Return a name by which browsers take a cookie only from this very host, if the page is encrypted."""
        return f"__Host-{name}" if self.is_encrypted else name

    async def load(self) -> None:
        """Load the sessions from before a restart."""
        if self.settings is not None:
            return
        for digest, body in (await self._store.timed_rows(f"browser {self._page}")).items():
            self._sessions[digest] = number, _ = msgspec.json.decode(body, type=tuple[int, float])
            self._count = max(self._count, number)

    def issue(self, used: Callable[[], object] | None = None) -> str:
        """Make a token that opens the page once; ``used`` is called then."""
        token = token_urlsafe(32)
        self._tokens[_compute_digest(token)] = used
        while len(self._tokens) > MAX_TOKENS:
            del self._tokens[next(iter(self._tokens))]
        return token

    async def redeem(self, token: str) -> str | None:
        """Exchange a token for the secret of a new session; ``None`` if it was used, or never issued."""
        if self.settings is not None:
            return None
        digest = _compute_digest(token)
        if digest not in self._tokens:
            return None
        # Removed before anything is awaited, so that of two concurrent requests only one gets a session.
        used = self._tokens.pop(digest)
        if used is not None:
            used()
        secret, digest = self._make_session()
        while len(self._sessions) > MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        body, (_, until) = msgspec.json.encode(self._sessions[digest]).decode(), self._sessions[digest]
        await self._store.keep_timed_row(f"browser {self._page}", digest, body, until, most=MAX_SESSIONS)
        return secret

    def session(self, secret: str | None) -> BrowserSession | None:
        """Return the session of a secret; ``None`` if there is none, or it is too old."""
        digest = _compute_digest(secret or "")
        number, ends = self._sessions.get(digest, (0, 0.0))
        if secret is None or ends <= self.clock():
            return None
        signed_in, until = self._people.get(digest, (None, 0.0))
        if self.settings is not None and (signed_in is None or until <= self.steady()):
            self.end(secret)
            return None
        return BrowserSession(number=number, secret=secret, signed_in=signed_in)

    def admit(self, signed_in: SignedInPerson) -> str:
        """Return the secret of a new session for somebody who has signed in."""
        assert self.settings is not None, "only a page with settings signs people in"
        secret, digest = self._make_session()
        self._people[digest] = signed_in, self.steady() + self.settings.hours * 3600
        mine = [each for each, (one, _) in self._people.items() if one.person.principal == signed_in.person.principal]
        for digest in (*mine[:-MAX_EACH], *list(self._people)[:-MAX_SIGNED_IN]):
            self._forget(digest)
        return secret

    async def follow_link(self, secret: str) -> BrowserSession | None:
        """Exchange the secret of a link for a session; ``None`` if it was used, has ended, or is of another page."""
        id = await self._store.take_timed_row("link", digest_link(self.linked or "", secret))
        if id is None:
            return None
        self._count += 1
        session = BrowserSession(number=self._count, secret=token_urlsafe(32), only=id)
        self._linked[_compute_digest(session.secret)] = session, self.steady() + LINK_SESSION_AGE
        while len(self._linked) > MAX_SESSIONS:
            del self._linked[next(iter(self._linked))]
        return session

    def list_linked_sessions(self, cookies: Mapping[str, str]) -> dict[str, BrowserSession]:
        """Return the sessions that links have opened in a browser and that have not ended, by question, newest last."""
        digests = {_compute_digest(secret) for name, secret in cookies.items() if name.startswith(self.link_cookie)}
        now, linked = self.steady(), self._linked.items()
        return {each.only or "": each for digest, (each, until) in linked if digest in digests and until > now}

    def keep_linked_session(self, response: Response, session: BrowserSession) -> None:
        """Let a browser keep the session of a link beside those of others, for as long as it lasts."""
        name, age, safe = f"{self.link_cookie}-{session.only}", int(LINK_SESSION_AGE), self.has_safe_links
        response.set_cookie(name, session.secret, age, httponly=True, samesite="strict", secure=safe)

    def end(self, secret: str) -> None:
        """End a session."""
        self._forget(_compute_digest(secret))

    def _forget(self, digest: str) -> None:
        self._people.pop(digest, None)
        self._sessions.pop(digest, None)

    def _make_session(self) -> tuple[str, str]:
        secret = token_urlsafe(32)
        self._count += 1
        digest = _compute_digest(secret)
        self._sessions[digest] = self._count, self.clock() + SESSION_AGE
        return secret, digest

    def proof(self, number: int, words: str) -> str | None:
        """Sign words for the tabs of a session; ``None`` if there is none of this number.

        A program that has taken over the page's port cannot do that: the key is derived from the store.
        """
        digests = {one: digest for digest, (one, ends) in self._sessions.items() if ends > self.clock()}
        if number not in digests:
            return None
        return hmac.digest(_proof_key(digests[number]).encode(), words.encode("utf-8", "surrogatepass"), "sha256").hex()


def _proof_key(digest: str) -> str:
    return hmac.digest(digest.encode(), b"proof", "sha256").hex()


def _compute_digest(secret: str) -> str:
    # Looked up by digest, so that the time of the look-up reveals nothing about the secret.
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
