"""The page as an ASGI application, and serving it on this machine, by uvicorn.

Owns the routes, and the sockets: only this machine can reach them, a restart uses the same port again, and idle
connections do not displace others. ``page_guards`` decides about access.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import os
import platform
import socket
import sys
import time
import webbrowser
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from secrets import token_hex
from tempfile import mkstemp
from threading import Thread
from typing import Any, cast
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from antiphon.errors import ConfigError
from antiphon.host.checks.people import Role
from antiphon.host.config.settings import Config
from antiphon.host.own_request import Asker
from antiphon.host.review.definitions import Servers
from antiphon.host.review.queue import UNDO
from antiphon.host.store.base import Store
from antiphon.machine.browser import has_browser
from antiphon.machine.loopback import LOOPBACK, is_loopback
from antiphon.transports.http.server.connections import BoundedConnection, ConnectionLimits
from antiphon.transports.http.server.shutdown import serve_embedded
from antiphon.web import actions, record_pages, sign_in_routes, views
from antiphon.web.page_guards import COOKIE, LINK, Guards, PageAccess, form_of, is_linked, is_plain, let_in, session_of
from antiphon.web.render import JOINED, JOINED_AT, STATIC, load_first_view
from antiphon.web.sign_in_routes import leading_to
from antiphon.web.site import Site

_GO_IN = '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0;url=/"><title>Antiphon</title>'

View = Callable[[Site, Request], Awaitable[Response]]

_LOOKING: dict[str, View] = {
    "/": views.show_queue,
    "/review/{id}": views.show_question,
    "/review/{id}/edit": views.show_edit_form,
    "/review/{id}/like": views.show_like_rule,
    "/review/{id}/withdrawn": views.show_withdrawn,
    "/review/{id}/text/{key}": views.show_text_piece,
    "/review/{id}/{of}/{number:int}": views.send_media,
    "/alike/{id}": views.show_alike,
    "/live": views.send_changes,
    "/outcomes": views.show_outcomes,
    "/history": record_pages.show_history,
    "/history/{seq:int}": record_pages.show_record,
    "/history/{seq:int}/text/{of}/{key}": record_pages.show_text_piece,
    "/history/{form}": record_pages.send_export,
    "/history/{seq:int}/again": actions.show_kept_request,
    "/asked/{id}": actions.show_answer,
    "/asked/{id}/done": actions.await_answer,
    "/asked/{id}/text/{key}": actions.show_text_piece,
    "/grants": record_pages.show_grants,
    "/spending": record_pages.show_spending,
    "/models": record_pages.show_models,
    "/servers": record_pages.show_servers,
    "/servers/{identity}": record_pages.show_server,
    "/servers/{identity}/skill": record_pages.show_skill,
    "/servers/{identity}/skill/text": record_pages.show_skill_text,
    "/settings": record_pages.show_settings,
}
_DOING: dict[str, View] = {
    "/review/{id}/preview": actions.preview_edit,
    "/review/{id}/draft": actions.store_draft,
    "/review/{id}/{action}": actions.decide_question,
    "/alike": actions.approve_together,
    "/undo": actions.undo_decision,
    "/several": actions.deny_several,
    "/history/{seq:int}/again": actions.ask_again,
    "/asked/{id}/stop": actions.stop_waiting,
    "/grants/{id}/revoke": actions.revoke_grant,
    "/unblock": actions.unblock_server,
    "/servers/switch": actions.switch_tool,
    "/servers/block": actions.block_server,
    "/settings": actions.store_settings,
    "/settings/invite": actions.invite_browser,
    "/settings/device": actions.tell_device,
    "/sign-out": sign_in_routes.sign_out,
}
_NEEDS: dict[str, Role] = {
    **dict.fromkeys(("/settings", "/sign-out"), "viewer"),
    **dict.fromkeys(("/grants/{id}/revoke", "/unblock", "/servers/switch", "/servers/block"), "admin"),
}
"""The role that somebody who has signed in needs for an action; of all others ``"reviewer"``, and what may be decided
is checked in ``host.review.question``."""


class ReviewPage:
    """The page over one store."""

    def __init__(
        self,
        store: Store,
        *,
        name: str,
        named: str,
        plain: Collection[str] = (),
        config: Config | None = None,
        undo: float = 0.0,
        asker: Asker | None = None,
        servers: Servers | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Make the page.

        ``named`` is the page's ``Host`` in browsers, with the port: ``"<name>.localhost:8765"``. ``name`` is its name
        in the store, where its sessions are kept. Under the names in ``plain`` only its script has access, because no
        cookie is safe there. ``undo``: seconds for which a permission can be taken back. ``config`` lets it show the
        configured models and servers.
        """
        settings = None if config is None else config.review.sign_in
        linked = None if config is None or settings is not None else config.notify.page
        self.access = PageAccess(store, name, settings=settings, linked=linked, clock=clock)
        self.site = Site(store, self.access, config=config, undo=undo, asker=asker, servers=servers, clock=clock)
        routes = [
            Route("/open", self._open, methods=["GET"]),
            Route("/open", self._let_in, methods=["POST"]),
            Route("/alive", self._alive, methods=["GET"]),
            *([] if linked is None else [Route(LINK, self._follow_link, methods=["GET", "POST"])]),
            *(Route(path, partial(self._show_view, view), methods=["GET"]) for path, view in _LOOKING.items()),
            *(Route(path, partial(self._carry_out, path, view), methods=["POST"]) for path, view in _DOING.items()),
            Mount(JOINED_AT, routes=[Route("/{name}", _send_joined, methods=["GET"])]),
            Mount("/static", StaticFiles(directory=STATIC)),
        ]
        if settings is not None:
            named, plain = urlsplit(settings.url).netloc, ()
            routes += sign_in_routes.make_routes(self.site, settings)
        # Lengths tell nobody anything: the page is served on this machine, or in plain.
        app = Starlette(
            routes=routes,
            middleware=[Middleware(GZipMiddleware, compresslevel=6)],
            exception_handlers={Exception: self._report_failure},
        )
        self._guarded = Guards(app, self.access, named=named, plain=plain)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        await self._guarded(scope, receive, send)

    async def _show_view(self, view: View, request: Request) -> Response:
        """Show a view; to a browser without a session, the script that sends it."""
        try:
            return await view(self.site, request) if session_of(request) else self.site.doorway(request)
        except LookupError as error:
            # A ``KeyError`` is a mistake of ours; ``Queue.get`` raises the class itself.
            if type(error) is not LookupError:
                raise
            return self.site.gone(request)

    async def _report_failure(self, request: Request, error: Exception) -> Response:
        """Say that something failed. If it was the store, nobody knows yet whether what was begun counts."""
        # Stores in memory do without SQLAlchemy, so it is not imported here.
        of_store = isinstance(error, OSError) or type(error).__module__.startswith("sqlalchemy.")
        status, key = (503, "problem.store") if of_store else (500, "problem.failed")
        if session_of(request) is None:
            return PlainTextResponse(self.site.texts(request)(key), status)
        return self.site.problem(request, status, key)

    async def _carry_out(self, path: str, view: View, request: Request) -> Response:
        """Carry out an action, if the person has the role for it."""
        session, needed = session_of(request), _NEEDS.get(path, "reviewer")
        person = None if session is None else session.person
        if person is not None and not person.has_role(needed):
            return self.site.problem(request, 403, "barred.role", role=needed)
        return await view(self.site, request)

    async def _open(self, request: Request) -> Response:
        """Exchange the token of a printed address for a session; a browser gets the queue with the same answer."""
        if is_plain(request):
            return self.site.doorway(request)
        # Neither HEAD, by which links are previewed, nor a browser that fetches in advance spends the token.
        spends = request.method == "GET" and "sec-purpose" not in request.headers
        secret = await self.access.redeem(request.query_params.get("token", "")) if spends else None
        if secret is None:
            if session_of(request) is not None:
                return _lead_to_queue(request)
            return self.site.plain_html(request, "entrance/said.html", status=403, said="denied.token")
        # Only to a person's own navigation: whatever else fetches the address is not shown what waits.
        opens = request.headers.get("sec-fetch-dest") == "document" and _begins_here(request)
        entered = let_in(request, self.access.session(secret), "/")
        response = await views.show_queue(self.site, entered) if opens else _lead_to_queue(request)
        response.set_cookie(COOKIE, secret, httponly=True, samesite="strict", secure=request.url.scheme == "https")
        return response

    async def _let_in(self, request: Request) -> Response:
        """Exchange the token for a session that the script keeps."""
        token = next((value for name, value in form_of(request) if name == "token"), "")
        secret = await self.access.redeem(token) if is_plain(request) else None
        if secret is None:
            return JSONResponse({"problem": self.site.texts(request)("denied.token")}, 403)
        return JSONResponse({"session": secret})

    async def _follow_link(self, request: Request) -> Response:
        """Show a button for the link of a notice, which programs open to preview it; the button uses it up."""
        if not is_linked(request):
            return PlainTextResponse("Not found\n", 404)
        if request.method != "POST":
            secret = request.query_params.get("secret", "")
            return self.site.plain_html(request, "entrance/link.html", secret=secret)
        secret = next((value for name, value in form_of(request) if name == "secret"), "")
        session = await self.access.follow_link(secret)
        if session is None:
            return self.site.plain_html(request, "entrance/said.html", status=403, said="denied.link")
        response = RedirectResponse(f"/review/{session.only}", 303)
        self.access.keep_linked_session(response, session)
        return response

    async def _alive(self, request: Request) -> Response:
        """Prove to a tab that this is its page and not another program on the port, before the tab sends anything."""
        asked = request.query_params
        number, challenge = asked.get("session", ""), asked.get("challenge", "")
        is_number = number.isascii() and number.isdecimal() and len(number) < 16
        words = f"{request.headers['host'].lower()} {challenge}"
        proof = self.access.proof(int(number), words) if is_number and len(challenge) < 100 else None
        return PlainTextResponse("", 404) if proof is None else PlainTextResponse(proof)


async def _send_joined(request: Request) -> Response:
    """Send a joined script or style sheet."""
    name = request.path_params["name"]
    kept = {"Cache-Control": "private, max-age=31536000, immutable"}
    media = "text/css" if name.endswith(".css") else "text/javascript"
    return Response(JOINED[name], 200, kept, media) if name in JOINED else Response(status_code=404)


def _lead_to_queue(request: Request) -> Response:
    """Lead to the queue; after a link on another site (a web terminal, a chat) by one of our pages in between.

    A redirect would belong to that site, and a ``SameSite=Strict`` cookie is not sent with it.
    """
    return RedirectResponse("/", 303) if _begins_here(request) else HTMLResponse(_GO_IN)


def _begins_here(request: Request) -> bool:
    """Tell whether a person typed or pasted the address, or followed a link of ours."""
    return request.headers.get("sec-fetch-site", "none") in ("none", "same-origin")


_STREAMS = 200
"""Most connections: each browser has one that stays open, and a few short ones."""
MAX_HALF_OPEN = 64
"""Most connections that have not sent a whole request yet; beyond that the oldest is closed."""
HEAD_SECONDS = 5.0
"""Seconds for the head of a request; a browser on this machine sends it within milliseconds."""
MAX_PAGES = 10
"""Most pages whose name and port are kept: one for each that is served at the same time."""
PAGE_AGE = 365 * 24 * 3600.0
"""Seconds for which they are kept."""
_TRIES = 20
"""Free ports that are tried until one is free for both IPv4 and IPv6."""


class RunningPage:
    """A page that is being served."""

    def __init__(self, page: ReviewPage, origin: str, plain: str) -> None:
        self.page = page
        self.origin = origin
        """``"http://<random>.localhost:8765"``."""
        self.plain = plain
        """``"http://127.0.0.1:8765"``, for browsers that cannot resolve the other one; needs JavaScript."""

    def address(self, used: Callable[[], object] | None = None) -> str:
        """Make an address that opens the page, once; ``used`` is called then. Where people sign in, the page's own."""
        if self.page.access.settings is not None:
            return f"{self.origin}/"
        return f"{self.origin}/open?token={self.page.access.issue(used)}"


@asynccontextmanager
async def running_page(
    store: Store,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    config: Config | None = None,
    remote: bool = False,
    undo: float | None = None,
    asker: Asker | None = None,
    servers: Servers | None = None,
) -> AsyncGenerator[RunningPage]:
    """Serve the page in the background of a block. The store stays open.

    ``port`` 0 is that of an earlier page over this store, if it is free, otherwise any. Name, port and sessions are
    kept in the store. ``remote`` allows a ``host`` that others can reach: everybody with the address may decide, over
    an unencrypted connection. ``undo``: seconds for which a permission given here can be taken back, by default as
    configured. ``asker`` answers when a person asks from the page; by default the host that ``config`` describes, which
    is opened in this process on first use. ``servers``: those that are shown with their state and tools. Raises
    ``ConfigError``: other machines can reach the host and ``remote`` is not set, or the port is in use.
    """
    if not remote and not is_loopback(host, subdomains=False):
        raise ConfigError(f"the page is served on this machine only: {host} can be reached by others")
    if undo is None:
        undo = UNDO if config is None else config.review.undo
    sign_in = None if config is None else config.review.sign_in
    if sign_in is not None and not port and sign_in.url.startswith("http:"):
        # Without a proxy in front, the page is where its address says.
        port = urlsplit(sign_in.url).port or 80
    kept = [(name, int(used)) for name, used in (await store.timed_rows("page")).items()]
    name, port, listening = _place_page(host, port, kept[::-1])
    with contextlib.ExitStack() as opened:
        for each in listening:
            opened.enter_context(contextlib.closing(each))
        await store.take_timed_row("page", name)
        await store.keep_timed_row("page", name, str(port), time.time() + PAGE_AGE, most=MAX_PAGES)
        own = f"[{host}]" if ":" in host else host
        named = f"{name}.localhost:{port}"
        plain = {f"{each}:{port}" for each in (*LOOPBACK, own)}
        page = ReviewPage(
            store, name=name, named=named, plain=plain, config=config, undo=undo, asker=asker, servers=servers
        )
        await page.access.load()
        Thread(target=load_first_view, daemon=True).start()

        async def close() -> None:
            page.site.closing.set()

        try:
            async with serve_embedded(page, listening, _PageConnection, close=close, grace=2, most=_STREAMS):
                origin = f"http://{named}" if sign_in is None else sign_in.origin
                yield RunningPage(page, origin, f"http://{own}:{port}")
        finally:
            await page.site.own.aclose()
            if page.site.sign_in is not None:
                await page.site.sign_in.close()


class _PageConnection(BoundedConnection):
    """A connection that gives way if too many have not sent a request yet."""

    limits = ConnectionLimits(head_timeout=HEAD_SECONDS)
    since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self.since = self.loop.time()
        connections = cast("set[_PageConnection]", self.connections)
        waiting = [each for each in connections if (each.reads_head or each.cycle.more_body) and not each.served]
        if len(waiting) > MAX_HALF_OPEN:
            oldest = min(waiting, key=lambda each: each.since)
            # Stop counting it now, since its end is reported only later.
            connections.discard(oldest)
            oldest.transport.abort()


def _place_page(host: str, port: int, kept: list[tuple[str, int]]) -> tuple[str, int, list[socket.socket]]:
    """Listen at the address of an earlier page, or else at a new one with a new name.

    A name is never moved to another port: a program that now has the old port may have received its cookies.
    """
    for name, used in kept:
        if port not in (0, used):
            continue
        try:
            return name, used, _listen_at_host(host, used)
        except OSError:
            if port:
                break
    for attempt in range(_TRIES if not port else 1):
        try:
            listening = _listen_at_host(host, port)
        except OSError as error:
            if attempt < _TRIES - 1 and not port and error.errno == errno.EADDRINUSE:
                continue
            raise ConfigError(f"the page cannot be served at {host}:{port}: {error.strerror or error}") from None
        number: int = listening[0].getsockname()[1]
        return token_hex(16), number, listening
    raise AssertionError("unreachable")


def _listen_at_host(host: str, port: int) -> list[socket.socket]:
    """Listen at the host, and at all local addresses that the page's name resolves to, so that no other program can."""
    listening: list[socket.socket] = []
    with ExitStack() as opened:
        for address in _list_addresses(host):
            at = port or (listening[0].getsockname()[1] if listening else 0)
            try:
                listening.append(opened.enter_context(_bind_socket(address, at)))
            except OSError as error:
                if not listening or error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                    raise
        opened.pop_all()
    return listening


def _list_addresses(host: str) -> list[str]:
    first = "127.0.0.1" if host == "localhost" else host
    # "0.0.0.0" covers every address of IPv4, "::" every one of both.
    everywhere = first in (str(ipaddress.IPv4Address(0)), "::")
    covered = () if first == "::" else ("::1",) if everywhere else ("127.0.0.1", "::1")
    return [first, *(each for each in covered if each != first)]


def _bind_socket(address: str, port: int) -> socket.socket:
    # With the protocol named as TCP asyncio sends small data at once, instead of waiting 40 ms for an
    # acknowledgement.
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with ExitStack() as opened:
        listening = opened.enter_context(socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP))
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((address, port))
        # From now on the system accepts connections, before the server handles them.
        listening.listen()
        opened.pop_all()
    return listening


@asynccontextmanager
async def serve_and_open_page(store: Store, *, browse: bool = True, **options: Any) -> AsyncGenerator[RunningPage]:
    """Serve the page within a block; print an address that opens it once, to standard error, and open it in a browser.

    ``options`` as for ``running_page``; ``browse=False`` only prints. Raises ``ConfigError``: as for ``running_page``.
    """
    async with running_page(store, **options) as running:
        address = running.address()
        signs_in = running.page.access.settings is not None
        once = f"people sign in; served at {running.plain}" if signs_in else "the address opens it once, in one browser"
        sys.stderr.write(f"Review page: {address}\n({once})\n")
        elsewhere = address.replace(running.origin, running.plain, 1)
        if not is_loopback(options.get("host", "127.0.0.1"), subdomains=False):
            sys.stderr.write(
                "Not encrypted: this address, the session that it opens, all questions and all answers. Who can "
                "read this network can decide, too. Use ssh -L or a proxy with TLS unless you trust it.\n"
            )
        if not signs_in:
            sys.stderr.write(f"If the browser does not find it: {elsewhere} (needs JavaScript)\n")
        sys.stderr.flush()
        with ExitStack() as ended:
            if browse and has_browser(os.environ):
                # Another address, so that the printed one stays valid for a different browser. Not
                # awaited: some browsers return only when their window is closed.
                Thread(target=webbrowser.open, args=(_make_redirect_file(running, ended),), daemon=True).start()
            yield running


def _make_redirect_file(running: RunningPage, ended: ExitStack) -> str:
    """Return what the browser is started with: a temporary file that redirects to an address, removed once it has.

    The command line of a browser is readable by all accounts of the machine, so the address must not be in it.
    """
    # Browsers cannot open our files from within WSL; on Windows no other account can read a command line.
    if sys.platform == "win32" or "microsoft" in platform.release().lower():
        return running.address()
    # A browser in a snap can read only files in the home folder that are not hidden, and no temporary folder.
    file, name = mkstemp(".html", "antiphon-", Path.home() if Path("/snap").is_dir() else None)
    remove = partial(Path(name).unlink, missing_ok=True)
    ended.callback(remove)
    with os.fdopen(file, "w", encoding="utf-8") as written:
        written.write(leading_to(running.address(remove)))
    return Path(name).as_uri()
