"""The way into a page on which people sign in, and out of it: the routes around ``provider_sign_in``.

Owns the cookies of both, and what a browser is shown when nobody is signed in. A session's secret is new with each
sign-in, so that one that was planted in a browser never becomes a person's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from html import escape
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from antiphon.errors import Unauthorized
from antiphon.web.page_guards import BEGUN_FOR, CALLBACK, SIGNED_OUT, session_of
from antiphon.web.site import Site

if TYPE_CHECKING:
    from antiphon.web.provider_sign_in import ProviderSignIn

_BEGUN = "antiphon-sign-in"
"""Name of the cookie of a sign-in that has begun."""


def make_routes(site: Site, sign_in: ProviderSignIn) -> list[Route]:
    """Make the routes for browsers without a session."""
    entries: dict[str, Callable[[Site, ProviderSignIn, Request], Awaitable[Response]]] = {
        "/sign-in": _begin_sign_in,
        CALLBACK: _finish_sign_in,
        SIGNED_OUT: _show_end,
    }
    return [Route(path, partial(enter, site, sign_in), methods=["GET"]) for path, enter in entries.items()]


async def _begin_sign_in(site: Site, sign_in: ProviderSignIn, request: Request) -> Response:
    """Send a browser to the provider."""
    if session_of(request) is not None:
        return RedirectResponse("/", 303)
    try:
        address, cookie = await sign_in.begin(request.query_params.get("then", "/"))
    except Unauthorized as error:
        return _show_text(site, request, str(error), 503)
    response = RedirectResponse(address, 303)
    # Lax, because the provider's redirect comes from another site. It lets nobody in by itself.
    response.set_cookie(
        _name_begun(site), cookie, round(BEGUN_FOR), httponly=True, samesite="lax", secure=site.access.is_encrypted
    )
    return response


async def _finish_sign_in(site: Site, sign_in: ProviderSignIn, request: Request) -> Response:
    """Let in a browser that comes back from the provider."""
    try:
        signed_in = await sign_in.finish(request.url.query, request.cookies.get(_name_begun(site), ""))
    except Unauthorized as error:
        # Another tab may have been faster.
        return RedirectResponse("/", 303) if session_of(request) else _show_text(site, request, str(error), 403)
    site.access.end(request.cookies.get(site.access.cookie, ""))
    secret = site.access.admit(signed_in)
    # By a page of ours in between: a cookie that is Strict is not sent with the redirect of another site.
    response = HTMLResponse(leading_to(signed_in.then))
    response.set_cookie(site.access.cookie, secret, httponly=True, samesite="strict", secure=site.access.is_encrypted)
    response.delete_cookie(_name_begun(site), secure=site.access.is_encrypted)
    return response


async def sign_out(site: Site, request: Request) -> Response:
    """End the session here and, if the provider has an address for it, there."""
    session, where = session_of(request), None
    if session is None or session.signed_in is None:
        return site.problem(request, 404, "problem.gone")
    site.access.end(session.secret)
    if site.sign_in is not None:
        where = await site.sign_in.find_end(session.signed_in.token)
    response = HTMLResponse(leading_to(where or SIGNED_OUT))
    response.delete_cookie(site.access.cookie, secure=site.access.is_encrypted)
    return response


async def _show_end(site: Site, _: ProviderSignIn, request: Request) -> Response:
    return _show_text(site, request, site.texts(request)("signed.out"), 200)


def _show_text(site: Site, request: Request, text: str, status: int) -> Response:
    again = escape(site.texts(request)("signed.in"))
    return HTMLResponse(
        f'<!doctype html><meta charset="utf-8"><title>Antiphon</title><p>{escape(text)}<p><a href="/">{again}</a>\n',
        status,
    )


def _name_begun(site: Site) -> str:
    return f"__Host-{_BEGUN}" if site.access.is_encrypted else _BEGUN


def leading_to(address: str) -> str:
    """Build a page that redirects to an address, with a link as well."""
    there = escape(address)
    return (
        '<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer"><title>Antiphon</title>'
        f'<meta http-equiv="refresh" content="0;url={there}"><p><a href="{there}">Antiphon</a></p>\n'
    )
