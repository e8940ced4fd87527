"""The way into a page on which people sign in, and out of it: the routes around the two ways to sign in.

Owns the cookies of both, and what a browser is shown when nobody is signed in. A session's secret is new with each
sign-in, so that one that was planted in a browser never becomes a person's.
"""

from __future__ import annotations

import os
from functools import partial
from html import escape
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from antiphon.errors import Unauthorized
from antiphon.host.config.settings import SignIn
from antiphon.host.review.decisions import InvalidInput
from antiphon.web.page_guards import BEGUN_FOR, CALLBACK, SIGNED_OUT, SignedInPerson, check_path, form_of, session_of
from antiphon.web.site import Site

if TYPE_CHECKING:
    from antiphon.web.password_sign_in import PasswordSignIn
    from antiphon.web.provider_sign_in import ProviderSignIn

_BEGUN = "antiphon-sign-in"
"""Name of the cookie of a sign-in that has begun."""


def make_routes(site: Site, settings: SignIn) -> list[Route]:
    """Make the routes for browsers without a session, and what signs people in."""
    ended = Route(SIGNED_OUT, partial(_show_end, site), methods=["GET"])
    # Each only where it is used: one loads an HTTP client, the other a library in C.
    if settings.passwords is not None:
        from antiphon.web.password_sign_in import PasswordSignIn

        by_password = PasswordSignIn(settings, site)
        return [
            Route("/sign-in", partial(_ask_password, site), methods=["GET"]),
            Route("/sign-in", partial(_check_password, site, by_password), methods=["POST"]),
            ended,
        ]
    from antiphon.web.provider_sign_in import ProviderSignIn

    site.sign_in = sign_in = ProviderSignIn(settings, os.environ, clock=site.clock)
    return [
        Route("/sign-in", partial(_begin_sign_in, site, sign_in), methods=["GET"]),
        Route(CALLBACK, partial(_finish_sign_in, site, sign_in), methods=["GET"]),
        ended,
    ]


async def _ask_password(site: Site, request: Request) -> Response:
    """Show the form for name and password."""
    if session_of(request) is not None:
        return RedirectResponse("/", 303)
    then = check_path(request.query_params.get("then", "/"))
    return site.plain_html(request, "entrance/sign_in.html", name="", then=then, fault="")


async def _check_password(site: Site, sign_in: PasswordSignIn, request: Request) -> Response:
    """Let in whoever has sent a name and its password; the guards have checked that our form has sent them."""
    sent = dict(form_of(request))
    name, then = sent.get("name", ""), check_path(sent.get("then", "/"))
    try:
        person = await sign_in.check(name, sent.get("password", ""))
    except (InvalidInput, Unauthorized) as error:
        invalid = isinstance(error, InvalidInput)
        fault = site.texts(request)(error.key, **error.values) if invalid else str(error)
        return site.plain_html(request, "entrance/sign_in.html", status=403, name=name, then=then, fault=fault)
    return _let_in(site, request, SignedInPerson(person=person, then=then), RedirectResponse(then, 303))


async def _begin_sign_in(site: Site, sign_in: ProviderSignIn, request: Request) -> Response:
    if session_of(request) is not None:
        return RedirectResponse("/", 303)
    try:
        address, cookie = await sign_in.begin(request.query_params.get("then", "/"))
    except Unauthorized as error:
        return _show_text(site, request, str(error), 503)
    response = RedirectResponse(address, 303)
    # Lax, because the provider's redirect comes from another site. It lets nobody in by itself.
    response.set_cookie(
        site.access.name_cookie(_BEGUN),
        cookie,
        round(BEGUN_FOR),
        httponly=True,
        samesite="lax",
        secure=site.access.is_encrypted,
    )
    return response


async def _finish_sign_in(site: Site, sign_in: ProviderSignIn, request: Request) -> Response:
    """Let in a browser that comes back from the provider."""
    try:
        signed_in = await sign_in.finish(request.url.query, request.cookies.get(site.access.name_cookie(_BEGUN), ""))
    except Unauthorized as error:
        # Another tab may have been faster.
        return RedirectResponse("/", 303) if session_of(request) else _show_text(site, request, str(error), 403)
    # By a page of ours in between: a cookie that is Strict is not sent with the redirect of another site.
    response = _let_in(site, request, signed_in, HTMLResponse(leading_to(signed_in.then)))
    response.delete_cookie(site.access.name_cookie(_BEGUN), secure=site.access.is_encrypted)
    return response


def _let_in(site: Site, request: Request, signed_in: SignedInPerson, response: Response) -> Response:
    """Open a session for a person, in place of the browser's earlier one."""
    site.access.end(request.cookies.get(site.access.cookie, ""))
    secret = site.access.admit(signed_in)
    response.set_cookie(site.access.cookie, secret, httponly=True, samesite="strict", secure=site.access.is_encrypted)
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


async def _show_end(site: Site, request: Request) -> Response:
    return _show_text(site, request, "signed.out", 200)


def _show_text(site: Site, request: Request, text: str, status: int) -> Response:
    return site.plain_html(request, "entrance/said.html", status=status, said=text, again=True)


def leading_to(address: str) -> str:
    """Build a page that redirects to an address, with a link as well."""
    there = escape(address)
    return (
        '<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer"><title>Antiphon</title>'
        f'<meta http-equiv="refresh" content="0;url={there}"><p><a href="{there}">Antiphon</a></p>\n'
    )
