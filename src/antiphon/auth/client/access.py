"""Authorization of the requests to one server, and what follows when the server refuses one.

Decides which token is sent, when it is refreshed, when a person is asked, and when to give up. Transports call this for
each HTTP request (``transports.http.client.error_replies``); tokens are sent only to the server's own origin.
"""

from __future__ import annotations

import asyncio
import os
import re
import ssl as tls
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any
from weakref import WeakKeyDictionary

from msgspec import structs
from yarl import URL

from antiphon.auth.challenge import Challenge, ProofKey, oauth_challenge, read_challenges
from antiphon.auth.client.authorization_code import MAX_WAIT
from antiphon.auth.client.discovery import FoundServer, discover_server, format_scopes, join_scopes
from antiphon.auth.client.fetch import Fetch, open_fetch
from antiphon.auth.client.oauth import Auth, OAuth
from antiphon.auth.client.renewal import CLAIM, renew_login, sign_in_once
from antiphon.auth.client.sign_in import sign_in
from antiphon.auth.client.store import Login
from antiphon.auth.metadata import ServerMetadata
from antiphon.errors import ConfigError, Unauthorized
from antiphon.machine.asyncio_tasks import ignore_error
from antiphon.machine.ip_addresses import is_public
from antiphon.machine.loopback import is_loopback
from antiphon.machine.web_requests import origin_of, show_address

MAX_SIGN_INS = 3
"""Sign-ins during one request, so that a server that refuses every token does not ask a person without end."""

_MAX_TRIES = 8
"""How often one request is sent at most, for new nonces, refreshed tokens and sign-ins together."""

_SKEW = 30.0
"""Seconds before its expiry at which a token is refreshed: clocks differ, and requests take time."""


def access_to(
    url: str, auth: Auth, *, ssl: tls.SSLContext | bool = True, proxy: str | None = None
) -> GivenToken | SignedIn:
    """Return what authorizes requests to a server; raise ``ConfigError`` if it would send a token in plain text."""
    server = URL(url)
    if origin_of(server)[0] == "http" and not is_loopback(server.host or ""):
        raise ConfigError(f"auth= would send a token in plain text to {show_address(server)}: use https")
    if isinstance(auth, OAuth):
        return SignedIn(auth, server, ssl=ssl, proxy=proxy)
    if isinstance(auth, str):
        _check_token(auth)
    elif not callable(auth):
        given = type(auth).__name__
        raise ConfigError(f"auth= is a token, an async function that returns one, or OAuth(...), not {given}")
    return GivenToken(server, auth)


def _check_token(given: Any) -> str:
    if not isinstance(given, str) or not re.fullmatch(r"[!-~]+", given):
        raise ConfigError("auth= is no token: it has to be visible ASCII without spaces")
    return given


class GivenToken:
    """Sends a token that the application provides, or what its function returns."""

    def __init__(self, server: URL, given: str | Callable[[], Awaitable[str]]) -> None:
        self.origin = origin_of(server)
        self._given = given

    def begin(self) -> _Giving:
        """Begin the authorization of one request."""
        return _Giving(self)

    async def give(self) -> str:
        """Return the token for one request."""
        return _check_token(self._given if isinstance(self._given, str) else await self._given())


class _Giving:
    """One request with a given token."""

    def __init__(self, access: GivenToken) -> None:
        self._access = access
        self._sent = ""
        self._asked_again = False

    async def headers(self, method: str, url: str) -> Mapping[str, str]:
        if origin_of(URL(url)) != self._access.origin:
            return {}
        if not self._asked_again:
            self._sent = await self._access.give()
        return {"Authorization": f"Bearer {self._sent}"}

    async def refused(self, status: int, headers: Mapping[str, str], lines: Sequence[str], *, ask: bool) -> bool:
        """See ``Entry.refused``: repeats the request if the application now provides another token."""
        if status != 401 or self._asked_again:
            return False
        sent, self._asked_again = self._sent, True
        self._sent = await self._access.give()
        return self._sent != sent

    def answered(self, headers: Mapping[str, str]) -> None:
        """See ``Entry.answered``."""

    def why(self, status: int) -> str | None:
        return "the token given in auth= was refused" if status == 401 else None


class SignedIn:
    """Signs in when the server requires it, and sends the resulting token."""

    def __init__(self, settings: OAuth, server: URL, *, ssl: tls.SSLContext | bool, proxy: str | None) -> None:
        if settings.client_secret is not None and settings.issuer is None and not is_loopback(server.host or ""):
            # Any server could name an authorization server of its own, and would be sent the secret.
            raise ConfigError("OAuth: a client_secret is for one authorization server only: give its issuer (--issuer)")
        self.settings = settings
        self.server = URL(show_address(server.with_scheme(origin_of(server)[0])))
        self.owner = os.urandom(16).hex()
        self.nonce: str | None = None
        """The server's latest nonce, for the next proof (RFC 9449, section 9)."""
        self._ssl = ssl
        self._proxy = proxy
        self._is_public = False
        """Whether a connection to the server had a public address."""
        self._key: tuple[str, ProofKey] | None = None

    def connects(self, address: str) -> None:
        self._is_public = self._is_public or is_public(address)

    def begin(self) -> _Entering:
        """Begin the authorization of one request."""
        return _Entering(self)

    async def login(self) -> Login | None:
        """Return the stored login, without making a request."""
        return (await self.settings.store.read()).find(str(self.server), self.settings.label)

    async def fresh(self) -> Login | None:
        """Return a login whose token does not expire soon, as far as its issuer told; refresh it if necessary."""
        login = await self.login()
        if login is None or login.expires_at is None or login.expires_at - _SKEW > time.time():
            return login
        if login.refresh_token is None:
            # It may still be valid for some seconds, or our clock may be wrong: the server decides.
            return login
        return await self.renew(login)

    async def renew(self, login: Login) -> Login | None:
        """Refresh a login; concurrent callers share one refresh."""
        return await self._share_work(
            lambda fetch: renew_login(self.settings.store, fetch, login, self.owner), ("renew", login.access_token)
        )

    async def sign_in(self, challenge: Challenge | None, before: Login | None) -> Login:
        """Sign in; concurrent callers share one sign-in, and so do processes where a person is asked."""

        async def obtain_login(fetch: Fetch) -> Login:
            grant = self.settings.grant
            if grant is not None and not grant.needs_person:
                return await self._obtain_login(fetch, challenge, before)
            return await sign_in_once(
                self.settings.store,
                str(self.server),
                self.settings.label,
                patience=(self.settings.timeout if grant is None else MAX_WAIT) + CLAIM,
                serves=lambda login: self._serves(login, challenge, before),
                sign_in=lambda: self._obtain_login(fetch, challenge, before),
            )

        login = await self._share_work(obtain_login, ("sign in", *(challenge.scopes if challenge else ())))
        assert login is not None
        return login

    async def _obtain_login(self, fetch: Fetch, challenge: Challenge | None, before: Login | None) -> Login:
        # Another process may have widened the login while this one waited for it.
        before = await self.login() or before
        used = before.metadata.issuer if before is not None else None
        found = await self._discover(fetch, challenge, used)
        return await sign_in(self.settings, fetch, self.server, found, challenge, before)

    def _serves(self, login: Login, challenge: Challenge | None, before: Login | None) -> bool:
        """Return whether a login that was obtained meanwhile makes a sign-in unnecessary."""
        wanted = {*(challenge.scopes if challenge is not None else ()), *(self.settings.scopes or ())}
        is_new = before is None or login.access_token != before.access_token
        return is_new and wanted <= {*login.asked}

    async def find_issuer(self, used: str, challenge: Challenge | None) -> ServerMetadata:
        """Return the issuer whose tokens the server accepts, as it describes itself now: ``used`` if it may be."""
        async with self._fetching() as fetch:
            return (await self._discover(fetch, challenge, used)).server

    async def _discover(self, fetch: Fetch, challenge: Challenge | None, used: str | None) -> FoundServer:
        hint = challenge.resource_metadata if challenge is not None else None
        return await discover_server(fetch, self.server, hint, issuer=self.settings.issuer, used=used)

    def key_of(self, login: Login) -> ProofKey | None:
        """Return the key that a login's token is bound to."""
        if login.key is None:
            return None
        if self._key is None or self._key[0] != login.access_token:
            self._key = (login.access_token, ProofKey(login.key))
        return self._key[1]

    def _fetching(self) -> AbstractAsyncContextManager[Fetch]:
        named = frozenset(URL(one).host or "" for one in (self.settings.issuer,) if one is not None)
        return open_fetch(self.server, ssl=self._ssl, proxy=self._proxy, named=named, is_public=self._is_public)

    async def _share_work(
        self, work: Callable[[Fetch], Awaitable[Login | None]], what: tuple[str, ...]
    ) -> Login | None:
        """Run something once for all concurrent callers; a cancelled caller does not cancel it for the others."""
        loops = _in_flight.setdefault(self.settings, WeakKeyDictionary())
        flights = loops.setdefault(asyncio.get_running_loop(), {})
        key = (str(self.server), *what)
        task = flights.get(key)
        if task is None:

            async def run_work() -> Login | None:
                async with self._fetching() as fetch:
                    return await work(fetch)

            task = flights[key] = asyncio.get_running_loop().create_task(run_work())
            task.add_done_callback(lambda _: flights.pop(key, None))
            task.add_done_callback(ignore_error)
        return await asyncio.shield(task)


_Flights = dict[tuple[str, ...], "asyncio.Task[Login | None]"]
_in_flight: WeakKeyDictionary[OAuth, WeakKeyDictionary[asyncio.AbstractEventLoop, _Flights]] = WeakKeyDictionary()
"""What is in progress, by settings and event loop."""


class _Entering:
    """The authorization of one request with a login."""

    def __init__(self, access: SignedIn) -> None:
        self._access = access
        self._sent: Login | None = None
        self._tries = 0
        self._sign_ins = 0
        self._nonces = 0
        self._renewed = False
        self._met: frozenset[str] = frozenset()
        """Scopes that a person was already asked for during this request."""
        self._why: str | None = None

    async def headers(self, method: str, url: str) -> Mapping[str, str]:
        if origin_of(URL(url)) != origin_of(self._access.server):
            return {}
        try:
            self._sent = login = await self._access.fresh()
        except Unauthorized as error:
            # The refresh failed for now. The token may still be valid; if not, the error is reported with
            # the refusal.
            self._why = error.message
            self._sent = login = await self._access.login()
        if login is None:
            return {}
        headers = {"Authorization": f"{login.token_type} {login.access_token}"}
        key = self._access.key_of(login)
        if key is not None:
            headers["DPoP"] = key.proof(method, url, token=login.access_token, nonce=self._access.nonce)
        return headers

    def answered(self, headers: Mapping[str, str]) -> None:
        """See ``Entry.answered``: a server may send its next nonce with any response."""
        nonce = headers.get("DPoP-Nonce")
        if nonce is not None and len(nonce) <= 1024:
            self._access.nonce = nonce

    def why(self, status: int) -> str | None:
        return self._why

    async def refused(self, status: int, headers: Mapping[str, str], lines: Sequence[str], *, ask: bool) -> bool:
        self._tries += 1
        if self._tries >= _MAX_TRIES:
            return False
        challenge = oauth_challenge(read_challenges(lines))
        if challenge is not None and challenge.error == "use_dpop_nonce":
            self._nonces += 1
            return self._nonces <= 2 and "DPoP-Nonce" in headers
        if status == 403:
            return await self._step_up(challenge, ask=ask)
        if self._sign_ins:
            self._why = "it refuses the token that was just obtained for it"
            return False
        current = await self._access.login()
        if current is not None and (self._sent is None or current.access_token != self._sent.access_token):
            # Another request signed in or refreshed the login while this one was in progress.
            return True
        return await self._renew(challenge) or await self._sign_in(challenge, ask=ask)

    async def _renew(self, challenge: Challenge | None) -> bool:
        """Refresh the login that the server no longer accepts, if the server still uses its issuer."""
        sent = self._sent
        if sent is None or sent.refresh_token is None or self._renewed:
            return False
        self._renewed = True
        found = await self._access.find_issuer(sent.metadata.issuer, challenge)
        if found.issuer != sent.metadata.issuer:
            return False
        if self._why is not None and found.token_endpoint == sent.metadata.token_endpoint:
            # Nothing has changed since: a refresh token that comes twice may end the login.
            raise Unauthorized(self._why)
        return await self._access.renew(structs.replace(sent, metadata=found)) is not None

    async def _step_up(self, challenge: Challenge | None, *, ask: bool) -> bool:
        """Request the missing scopes together with all earlier ones; once for each challenge."""
        if challenge is None or challenge.error != "insufficient_scope":
            return False
        if not challenge.scopes:
            self._why = "it wants more scopes and does not say which: OAuth(scopes=[...]) or antiphon login --scope"
            return False
        missing = format_scopes(challenge.scopes)
        if set(challenge.scopes) <= self._met:
            self._why = f"it wants the scope {missing}, and still does after a sign-in that asked for it"
            return False
        if self._sign_ins >= MAX_SIGN_INS:
            self._why = f"it wants the scope {missing} as well, after {self._sign_ins} sign-ins for one request"
            return False
        self._why = f"it wants the scope {missing}"
        return await self._sign_in(challenge, ask=ask)

    async def _sign_in(self, challenge: Challenge | None, *, ask: bool) -> bool:
        settings = self._access.settings
        if (settings.grant is None or settings.grant.needs_person) and (not ask or settings.unattended is not None):
            # Before a client is registered, or anything else is done for a sign-in that cannot happen.
            self._why = settings.unattended or "it wants a login"
            return False
        self._sign_ins += 1
        login = await self._access.sign_in(challenge, self._sent or await self._access.login())
        self._met = frozenset(join_scopes(login.asked, challenge.scopes if challenge is not None else ()))
        self._why = None
        return True
