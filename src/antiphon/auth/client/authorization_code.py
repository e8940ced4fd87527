"""The authorization code grant: a person signs in with a browser (OAuth 2.1, section 4.1).

2026-07-28 basic/authorization. Builds the authorization address, and validates the redirect: the state has to be ours
and the issuer the one that was asked (RFC 9207) before the code, or even an error, is used.
Owns the local port to which the browser is redirected (RFC 8252, section 7.3); only the first request with the right
path and state counts.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import re
import secrets
import sys
import time
import webbrowser
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Self
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit, urlunsplit

from msgspec import Struct, field

from antiphon.auth.boundary import check_address
from antiphon.auth.challenge import hash_of
from antiphon.auth.client.discovery import OFFLINE
from antiphon.auth.client.fetch import Unreachable
from antiphon.auth.client.grants import Wanted
from antiphon.auth.metadata import TROUBLE, Answer, Refused, ServerMetadata, TokenAnswer
from antiphon.errors import ConfigError, Unauthorized
from antiphon.machine.asyncio_tasks import wait_at_most

MAX_ADDRESS = 16 * 1024
"""Characters of the redirect address at most."""

_WORD = re.compile(r"[A-Za-z0-9_.\-]{1,64}")

PATH = "/callback"

MAX_HEAD = 32 * 1024
"""Bytes of a request's head at most; an authorization code may be long."""

_HEAD_PATIENCE = 10.0
"""Seconds a browser has to send the head."""

_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>
<style>body{{font:1.1rem system-ui,sans-serif;max-width:34rem;margin:20vh auto;padding:0 1rem}}</style>
<h1>{title}</h1><p>{text}</p></html>
"""
_DONE = _PAGE.format(title="Back to your program", text="It goes on by itself. You may close this page.")
_NOT_THIS = _PAGE.format(title="Nothing is waiting here", text="Start signing in again from your program.")


class Expected(Struct, frozen=True, kw_only=True):
    """The secrets of one authorization request, kept until the browser returns; used once, and random by default."""

    state: str = field(default_factory=partial(secrets.token_urlsafe, 32))
    verifier: str = field(default_factory=partial(secrets.token_urlsafe, 64))
    issuer: str
    redirect_uri: str

    @property
    def challenge(self) -> str:
        """The S256 challenge of the verifier (RFC 7636, section 4.2)."""
        return hash_of(self.verifier)

    def form_for(self, code: str) -> dict[str, str]:
        """Return the request for a token in exchange for a code (RFC 6749, section 4.1.3; RFC 7636, section 4.5)."""
        form = {"grant_type": AuthorizationCode.grant_type, "code": code, "redirect_uri": self.redirect_uri}
        return {**form, "code_verifier": self.verifier}

    def __repr__(self) -> str:
        return f"Expected({self.issuer})"


def check_pkce(server: ServerMetadata) -> None:
    """Refuse an authorization server without PKCE (2026-07-28, "Authorization Code Protection")."""
    if "S256" not in (server.code_challenge_methods_supported or ()):
        raise Unauthorized(
            f"signing in was stopped: {server.issuer} does not announce PKCE with S256, without which an intercepted "
            "code could be used by others (if you know that it has it: OAuth(pkce_announced=False, issuer=...); "
            "--pkce-unannounced)"
        )


def authorization_address(
    server: ServerMetadata, client_id: str, expected: Expected, *, scope: str | None, resource: str | None
) -> str:
    """Build the authorization address; the query that the endpoint already has is kept."""
    check_address(server.authorization_endpoint or "", "the authorization_endpoint")
    parts = urlsplit(server.authorization_endpoint or "")
    query = [
        *parse_qsl(parts.query, keep_blank_values=True),
        ("response_type", "code"),
        ("client_id", client_id),
        ("redirect_uri", expected.redirect_uri),
        ("state", expected.state),
        ("code_challenge", expected.challenge),
        ("code_challenge_method", "S256"),
    ]
    if scope is not None:
        query.append(("scope", scope))
        if OFFLINE in scope.split():
            # OpenID Connect Core, section 11: without this, the scope has to be ignored.
            query.append(("prompt", "consent"))
    if resource is not None:
        query.append(("resource", resource))
    return urlunsplit(parts._replace(query=urlencode(query), fragment=""))


def read_redirect(address: str, redirect_uri: str) -> dict[str, str]:
    """Parse the address of the redirect; raise ``Unauthorized`` if it is another one, or has a parameter twice."""
    if len(address) > MAX_ADDRESS:
        raise Unauthorized(f"signing in failed: the redirect has more than {MAX_ADDRESS} characters")
    try:
        # A terminal gives bytes that are no text as surrogates.
        address.encode()
        parts, own = urlsplit(address.strip()), urlsplit(redirect_uri)
        same = _place_of(parts) == _place_of(own)
        pairs = parse_qsl(parts.query, keep_blank_values=True, max_num_fields=64)
    except ValueError:
        raise Unauthorized("signing in failed: the redirect is no address") from None
    if not same:
        raise Unauthorized(f"signing in failed: the redirect does not begin with {redirect_uri}")
    if len({name for name, _ in pairs}) != len(pairs):
        raise Unauthorized("signing in failed: the redirect has a parameter twice")
    return dict(pairs)


def _place_of(parts: SplitResult) -> tuple[str, str, str]:
    """Return what says where a redirect leads: browsers write hosts in lower case, and a slash for an empty path."""
    return parts.scheme, parts.netloc.lower(), parts.path or "/"


def code_in(answer: Mapping[str, str], expected: Expected, server: ServerMetadata) -> str:
    """Validate the redirect and return its code; raise ``Unauthorized`` if it is not for us, or is a refusal."""
    if not hmac.compare_digest(answer.get("state", "").encode(), expected.state.encode()):
        raise Unauthorized("signing in was stopped: the redirect does not belong to this sign-in")
    issuer = answer.get("iss")
    if issuer is None and server.authorization_response_iss_parameter_supported:
        raise Unauthorized(f"signing in was stopped: the redirect does not name the issuer {expected.issuer}")
    # "Clients MUST NOT apply ... normalization": compared as text. After a mismatch nothing of the response is
    # shown.
    if issuer is not None and issuer != expected.issuer:
        raise Unauthorized(f"signing in was stopped: the redirect is from another issuer than {expected.issuer}")
    error = answer.get("error")
    if error is not None:
        said = error if _WORD.fullmatch(error) else "an error"
        told = ": it was declined" if error == "access_denied" else f" refused with {said}"
        raise Refused(f"signing in failed: {expected.issuer}{told}", error=error)
    code = answer.get("code", "")
    if not code:
        raise Unauthorized("signing in failed: the redirect has no code")
    return code


class AuthorizationCode(Struct, eq=False):
    """Signs in with a browser. ``show`` shows a page to a person and returns the address of the redirect."""

    name = "browser"
    grant_type = "authorization_code"
    needs_person = True

    _show: Callable[[str], Awaitable[str]]
    _redirect_uri: str
    _timeout: float

    async def obtain(self, wanted: Wanted) -> TokenAnswer:
        server, client_id = wanted.endpoint.server, wanted.endpoint.identity.client_id
        expected = Expected(issuer=server.issuer, redirect_uri=self._redirect_uri)
        address = authorization_address(server, client_id, expected, scope=wanted.scope, resource=wanted.resource)
        try:
            async with asyncio.timeout(self._timeout):
                ended = await self._show(address)
        except TimeoutError:
            raise Unauthorized(f"signing in failed: nobody completed it within {self._timeout:g} s") from None
        code = code_in(read_redirect(ended, self._redirect_uri), expected, server)
        return await wanted.endpoint.request({**expected.form_for(code), "resource": wanted.resource})


class Receiver:
    """Waits for one redirect to ``redirect_uri``; made by ``open``."""

    def __init__(self, redirect_uri: str) -> None:
        self.redirect_uri = redirect_uri
        self._path = urlsplit(redirect_uri).path or "/"
        self._answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._state: str | None = None
        self._server: asyncio.Server | None = None

    @classmethod
    async def open(cls, redirect_uri: str | None = None) -> Self:
        """Listen at the given address of this machine, by default at a free port.

        Raises ``OSError`` if the port is in use, ``ConfigError`` if the address is not of this machine.
        """
        address = f"http://127.0.0.1:0{PATH}" if redirect_uri is None else redirect_uri
        parts = urlsplit(address)
        if parts.scheme != "http" or parts.hostname not in ("127.0.0.1", "localhost", "::1") or parts.port is None:
            raise ConfigError("redirect_uri is not http at a port of this machine: give open_page, too, to sign in")
        made = cls(address)
        # "localhost" may be IPv4 or IPv6; browsers try both.
        made._server = await asyncio.start_server(made._serve, parts.hostname, parts.port, limit=MAX_HEAD)
        if redirect_uri is None:
            made.redirect_uri = f"http://127.0.0.1:{made._server.sockets[0].getsockname()[1]}{PATH}"
        return made

    def expect(self, state: str) -> None:
        """From now on accept the redirect with this state."""
        self._state = state

    async def answer(self) -> str:
        """Wait for the browser, and return the address it was redirected to."""
        return await self._answer

    async def close(self) -> None:
        """Stop listening; responses in progress are completed."""
        if self._server is not None:
            self._server.close()
            await wait_at_most(1.0, self._server.wait_closed())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_HEAD_PATIENCE):
                head = await reader.readuntil(b"\r\n\r\n")
            page = self._page(head.split(b"\r\n", 1)[0].decode("ascii", "replace"))
            body = page.encode()
            status = "200 OK" if page is _DONE else "404 Not Found"
            writer.write(
                f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
                "Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nConnection: close\r\n"
                "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'\r\n\r\n".encode()
                + body
            )
            async with asyncio.timeout(_HEAD_PATIENCE):
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            # Another program, or a browser that opened a connection without a request.
            pass
        finally:
            writer.close()

    def _page(self, line: str) -> str:
        """Handle a request, and return the page that answers it."""
        method, _, rest = line.partition(" ")
        target, _, _ = rest.rpartition(" ")
        if method != "GET" or self._answer.done() or self._state is None:
            return _NOT_THIS
        with contextlib.suppress(ValueError):
            # Anybody can send a request to this port: only one with the state is the redirect.
            parts = urlsplit(target)
            state = dict(parse_qsl(parts.query, max_num_fields=64)).get("state")
            if parts.path == self._path and state == self._state:
                # The redirect URI may have a query of its own (RFC 6749, section 3.1.2): the browser brings it back.
                self._answer.set_result(f"{self.redirect_uri.partition('?')[0]}?{parts.query}")
                return _DONE
        return _NOT_THIS


async def open_browser(address: str) -> None:
    """Open a page in the system's browser; without one, print the address on standard error."""
    # The query may be longer than any address that a server names: it has all scopes.
    check_address(address.partition("?")[0], "the authorization_endpoint")
    with contextlib.suppress(webbrowser.Error):
        if await asyncio.to_thread(webbrowser.open, address):
            return
    sys.stderr.write(f"Open this page to sign in:\n{address}\n")
    sys.stderr.flush()


MAX_WAIT = 1800.0
"""Seconds to wait at most, whatever the server allows."""

MIN_PAUSE = 1.0
MAX_PAUSE = 60.0
"""Longest pause between two polls in seconds."""

_PAUSE = 5.0
"""Seconds between two polls if the server names none (RFC 8628, section 3.2), and by how much the pause grows after
each ``slow_down`` (section 3.5)."""


class DevicePage(Struct, frozen=True, kw_only=True):
    """What a person has to do: open ``address`` on any device and enter ``code``."""

    address: str
    code: str
    complete: str | None = None
    """The address with the code in it, for a link or a QR code."""


class Device:
    """Sign in on another device: ``OAuth(grant=Device(tell))``.

    Args:
        tell: async function that shows the page to a person; it must return at once.
    """

    name = "device"
    grant_type = "urn:ietf:params:oauth:grant-type:device_code"
    needs_person = True

    def __init__(self, tell: Callable[[DevicePage], Awaitable[None]]) -> None:
        self._tell = tell
        self._sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
        self._clock: Callable[[], float] = time.monotonic

    async def obtain(self, wanted: Wanted) -> TokenAnswer:
        """See ``Grant.obtain``."""
        server = wanted.endpoint.server
        if not server.device_authorization_endpoint:
            raise Unauthorized(f"{server.issuer} does not let people sign in on another device: use a browser")
        form = {"scope": wanted.scope, "resource": wanted.resource}
        if wanted.endpoint.identity.secret is None:
            form["client_id"] = wanted.endpoint.identity.client_id
        answer = await wanted.endpoint.post(server.device_authorization_endpoint, form)
        code, page, pause, lasts = _read_device_page(answer)
        await self._tell(page)
        return await self._poll(wanted, code, pause, lasts)

    async def _poll(self, wanted: Wanted, code: str, pause: float, lasts: float) -> TokenAnswer:
        form = {"grant_type": self.grant_type, "device_code": code, "resource": wanted.resource}
        waited, failure, began = 0.0, None, self._clock()
        # A server may take its time for each answer, too.
        while max(waited, self._clock() - began) < lasts:
            await self._sleep(pause)
            waited += pause
            try:
                return await wanted.endpoint.request(form)
            except Unreachable as error:
                # RFC 8628, section 3.5: after a timeout, poll less often, such as by doubling the interval each time.
                pause, failure = min(pause * 2, MAX_PAUSE), error
            except Refused as refused:
                failure = None
                if refused.error == "slow_down":
                    pause = min(pause + _PAUSE, MAX_PAUSE)
                elif refused.status >= TROUBLE:
                    pause, failure = min(pause * 2, MAX_PAUSE), refused
                elif refused.error != "authorization_pending":
                    raise
        raise failure or Unauthorized(f"signing in failed: nobody completed it within {lasts:g} s")


def _read_device_page(answer: Answer) -> tuple[str, DevicePage, float, float]:
    said = answer.json()
    code, address, shown = said.get("device_code"), said.get("verification_uri"), said.get("user_code")
    readable = isinstance(shown, str) and 0 < len(shown) <= 64 and shown.isprintable()
    if answer.status // 100 != 2 or not isinstance(code, str) or not isinstance(address, str) or not readable:
        raise Unauthorized("signing in failed: the authorization server gave no code for another device")
    check_address(address, "the page for the other device")
    complete = said.get("verification_uri_complete")
    if isinstance(complete, str):
        check_address(complete, "the page for the other device")
    page = DevicePage(address=address, code=str(shown), complete=complete if isinstance(complete, str) else None)
    pause = max(MIN_PAUSE, min(_read_number(said.get("interval"), _PAUSE), MAX_PAUSE))
    return code, page, pause, min(_read_number(said.get("expires_in"), MAX_WAIT), MAX_WAIT)


def _read_number(value: object, usual: float) -> float:
    return value if isinstance(value, int | float) and value > 0 else usual
