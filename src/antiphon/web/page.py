"""The review page as an ASGI application: its routes, behind its checks.

It opens no socket: ``serve`` does, or any other ASGI server.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection
from functools import partial

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from antiphon.host.config.settings import Config
from antiphon.host.own_request import Asker
from antiphon.host.review.definitions import Servers
from antiphon.host.store.base import Store
from antiphon.web import actions, ask_again, record_pages, views
from antiphon.web.page_guards import COOKIE, Guards, PageAccess, form_of, is_plain, session_of
from antiphon.web.page_texts import choose_language, load_texts
from antiphon.web.render import STATIC
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
    "/history/{seq:int}/again": ask_again.show_kept_request,
    "/asked/{id}": ask_again.show_answer,
    "/asked/{id}/done": ask_again.await_answer,
    "/asked/{id}/text/{key}": ask_again.show_text_piece,
    "/grants": record_pages.show_grants,
    "/spending": record_pages.show_spending,
    "/models": record_pages.show_models,
    "/servers": record_pages.show_servers,
    "/servers/{identity}": record_pages.show_server,
    "/settings": record_pages.show_browser_settings,
}
_DOING: dict[str, View] = {
    "/review/{id}/preview": actions.preview_edit,
    "/review/{id}/draft": actions.store_draft,
    "/review/{id}/undo": actions.undo_decision,
    "/review/{id}/{action}": actions.decide_question,
    "/alike": actions.approve_together,
    "/undo": actions.undo_decision,
    "/several": actions.deny_several,
    "/history/{seq:int}/again": ask_again.ask_again,
    "/asked/{id}/stop": ask_again.stop_waiting,
    "/grants/{id}/revoke": actions.revoke_grant,
    "/unblock": actions.unblock_server,
    "/servers/switch": actions.switch_tool,
    "/servers/block": actions.block_server,
    "/settings": actions.store_settings,
    "/settings/invite": actions.invite_browser,
}


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
        self.access = PageAccess(store, name, clock=clock)
        self.site = Site(store, self.access, config=config, undo=undo, asker=asker, servers=servers, clock=clock)
        routes = [
            Route("/open", self._open, methods=["GET"]),
            Route("/open", self._let_in, methods=["POST"]),
            Route("/alive", self._alive, methods=["GET"]),
            *(Route(path, partial(self._show_view, view), methods=["GET"]) for path, view in _LOOKING.items()),
            *(Route(path, partial(view, self.site), methods=["POST"]) for path, view in _DOING.items()),
            Mount("/static", StaticFiles(directory=STATIC)),
        ]
        self.site_routes = [(route.path, route.methods or set[str]()) for route in routes if isinstance(route, Route)]
        """Each path with its methods."""
        # Lengths tell nobody anything: the page is served on this machine, or in plain.
        app = Starlette(routes=routes, middleware=[Middleware(GZipMiddleware, compresslevel=6)])
        self._guarded = Guards(app, self.access, named=named, plain=plain)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        await self._guarded(scope, receive, send)

    async def _show_view(self, view: View, request: Request) -> Response:
        """Show a view; to a browser without a session, the script that sends it."""
        return await view(self.site, request) if session_of(request) else self.site.doorway(request)

    async def _open(self, request: Request) -> Response:
        """Exchange the token of a printed address for a session."""
        if is_plain(request):
            return self.site.doorway(request)
        secret = await self.access.redeem(request.query_params.get("token", "")) if request.method == "GET" else None
        if secret is None:
            if session_of(request) is not None:
                return _lead_to_queue(request)
            words = load_texts(choose_language(None, request.headers.get("accept-language", "")))
            return PlainTextResponse(f"{words('denied.token')}\n", 403)
        response = _lead_to_queue(request)
        response.set_cookie(COOKIE, secret, httponly=True, samesite="strict", secure=request.url.scheme == "https")
        return response

    async def _let_in(self, request: Request) -> Response:
        """Exchange the token for a session that the script keeps."""
        token = next((value for name, value in form_of(request) if name == "token"), "")
        secret = await self.access.redeem(token) if is_plain(request) else None
        if secret is None:
            words = load_texts(choose_language(None, request.headers.get("accept-language", "")))
            return JSONResponse({"problem": words("denied.token")}, 403)
        return JSONResponse({"session": secret})

    async def _alive(self, request: Request) -> Response:
        """Prove to a tab that this is its page and not another program on the port, before the tab sends anything."""
        asked = request.query_params
        number, challenge = asked.get("session", ""), asked.get("challenge", "")
        is_number = number.isascii() and number.isdecimal() and len(number) < 16
        words = f"{request.headers['host'].lower()} {challenge}"
        proof = self.access.proof(int(number), words) if is_number and len(challenge) < 100 else None
        return PlainTextResponse("", 404) if proof is None else PlainTextResponse(proof)


def _lead_to_queue(request: Request) -> Response:
    """Lead to the queue; after a link on another site (a web terminal, a chat) by one of our pages in between.

    A redirect would belong to that site, and a ``SameSite=Strict`` cookie is not sent with it.
    """
    own = request.headers.get("sec-fetch-site", "none") in ("none", "same-origin")
    return RedirectResponse("/", 303) if own else HTMLResponse(_GO_IN)
