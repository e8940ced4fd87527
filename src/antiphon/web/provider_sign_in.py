"""Signing in on the page with an OpenID provider: authorization code with PKCE, and the ID token that names the person.

OpenID Connect Core 1.0, sections 3.1 and 5; RP-Initiated Logout 1.0. Requests, redirects and signatures are those of
``antiphon.auth``. Owns what is expected of a browser that comes back, and who the person is by the token's claims.

Nothing is kept for a sign-in that has begun, so that no number of them displaces another: the browser keeps a signed
cookie, from which state, nonce and PKCE verifier are derived with a key that only this process has.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from secrets import token_bytes, token_urlsafe
from typing import Any, cast
from urllib.parse import quote, unquote, urlencode

from yarl import URL

from antiphon.auth.client.authorization_code import Expected, authorization_address, check_pkce, code_in, read_redirect
from antiphon.auth.client.discovery import read_server
from antiphon.auth.client.fetch import Fetch, open_fetch
from antiphon.auth.client.token_endpoint import TokenEndpoint
from antiphon.auth.metadata import ClientIdentity, ServerMetadata
from antiphon.auth.server.access_token import Invalid
from antiphon.auth.server.issuer import Issuer, IssuerUnavailable
from antiphon.auth.server.verifier import Verifier
from antiphon.errors import ConfigError, Unauthorized
from antiphon.host.checks.people import Person, find_role
from antiphon.host.config.settings import SignIn
from antiphon.web.page_guards import BEGUN_FOR, CALLBACK, SIGNED_OUT, SignedInPerson, check_path

MAX_FINISHING = 20
"""Most sign-ins that the provider is asked about at the same time: each costs it a request."""
_MAX_USED = 10_000
"""Most completed sign-ins that are remembered for ``BEGUN_FOR``, so that none is completed twice."""
_LEEWAY = 60.0
"""Seconds that the provider's clock and ours may differ."""
_METADATA_FOR = 3600.0
_FAILURE_PAUSE = 5.0
"""Seconds after metadata could not be fetched before the next attempt."""
_MAX_GROUPS = 1_000


class ProviderSignIn:
    """Signs people in with the provider of the settings."""

    def __init__(self, settings: SignIn, environ: Mapping[str, str], *, clock: Callable[[], float] = time.time) -> None:
        """Prepare; nothing is fetched before somebody signs in.

        Raises ``ConfigError``: the environment variable of the secret is not set.
        """
        secret = None if settings.client_secret is None else environ.get(settings.client_secret)
        if settings.client_secret is not None and not secret:
            raise ConfigError(f"[review.sign_in]: the environment variable {settings.client_secret} is not set")
        self._settings = settings
        self.clock = clock
        self._identity = ClientIdentity(client_id=self._settings.client_id, secret=secret)
        self._redirect_uri = settings.origin + CALLBACK
        # Types: an access token has another audience, so that "JWT" alone confuses nothing.
        issuer = Issuer(url=self._settings.issuer, types=("", "JWT"))
        self._verifier = Verifier([issuer], frozenset({settings.client_id}), leeway=_LEEWAY, clock=clock)
        self._key = token_bytes(32)
        self._used: dict[str, None] = {}
        self._finishing = 0
        self._server: ServerMetadata | None = None
        self._tried = float("-inf")
        self._failure = ""
        self._reading = asyncio.Lock()

    async def begin(self, then: str) -> tuple[str, str]:
        """Return the provider's address for a browser, and the value of the cookie that the browser keeps meanwhile.

        Args:
            then: the path to show afterwards; any other address becomes ``/``.

        Raises ``Unauthorized``: the provider cannot be used now; the text says why.
        """
        server = await self._find_server()
        body = f"{int(self.clock())}.{token_urlsafe(24)}.{quote(check_path(then), safe='')}"
        cookie = f"{body}.{self._derive('cookie', body)}"
        scope = " ".join(dict.fromkeys(("openid", *self._settings.scopes)))
        address = authorization_address(
            server, self._settings.client_id, self._expect(cookie), scope=scope, resource=None
        )
        return f"{address}&{urlencode({'nonce': self._derive('nonce', cookie)})}", cookie

    async def finish(self, query: str, cookie: str) -> SignedInPerson:
        """Complete the sign-in of a browser that has come back.

        Args:
            query: the query of the address to which the provider has sent it.
            cookie: what ``begin`` returned for it; empty if it has none.

        Raises ``Unauthorized``: nobody is signed in; the text says why.
        """
        then = self._read_cookie(cookie)
        if self._finishing >= MAX_FINISHING:
            raise Unauthorized("too many people are signing in at once: try again in a moment")
        self._finishing += 1
        try:
            server, expected = await self._find_server(), self._expect(cookie)
            code = code_in(read_redirect(f"{self._redirect_uri}?{query}", self._redirect_uri), expected, server)
            if cookie in self._used:
                raise Unauthorized("signing in was stopped: this sign-in was completed before")
            self._used[cookie] = None
            while len(self._used) > _MAX_USED:
                del self._used[next(iter(self._used))]
            async with self._open_fetch() as fetch:
                answer = await TokenEndpoint(fetch, server, self._identity).request(expected.form_for(code))
            token = answer.raw.get("id_token")
            if not isinstance(token, str):
                raise Unauthorized(f"signing in failed: {self._settings.issuer} sent no ID token")
            return SignedInPerson(person=await self._read_person(token, cookie), token=token, then=then)
        finally:
            self._finishing -= 1

    async def find_end(self, token: str) -> str | None:
        """Return the address that signs a person out at the provider; ``None`` if it has none, or cannot be reached.

        Args:
            token: the ID token of the sign-in.
        """
        try:
            address = (await self._find_server()).end_session_endpoint
        except Unauthorized:
            return None
        if not address:
            return None
        back = self._settings.origin + SIGNED_OUT
        asked = {"id_token_hint": token, "client_id": self._settings.client_id, "post_logout_redirect_uri": back}
        return str(URL(address, encoded=True).update_query(asked))

    async def close(self) -> None:
        """Stop what is being fetched."""
        await self._verifier.close()

    def _derive(self, purpose: str, text: str) -> str:
        mac = hmac.digest(self._key, f"{purpose} {text}".encode("utf-8", "surrogatepass"), "sha256")
        return base64.urlsafe_b64encode(mac).rstrip(b"=").decode()

    def _expect(self, cookie: str) -> Expected:
        return Expected(
            state=self._derive("state", cookie),
            verifier=self._derive("verifier", cookie),
            issuer=self._settings.issuer,
            redirect_uri=self._redirect_uri,
        )

    def _read_cookie(self, cookie: str) -> str:
        """Return the path that the browser had asked for."""
        body, _, mac = cookie.rpartition(".")
        if not hmac.compare_digest(self._derive("cookie", body).encode(), mac.encode("utf-8", "surrogatepass")):
            raise Unauthorized("signing in was stopped: it was not begun in this browser")
        at, _, path = body.split(".", 2)
        if self.clock() - int(at) > BEGUN_FOR:
            raise Unauthorized("signing in was stopped: it has taken too long")
        return unquote(path)

    def _open_fetch(self) -> AbstractAsyncContextManager[Fetch]:
        url = URL(self._settings.issuer)
        return open_fetch(url, named=frozenset({url.host or ""}))

    async def _find_server(self) -> ServerMetadata:
        """Return the provider's metadata; it is fetched once for all who sign in at the same time."""
        async with self._reading:
            now = self.clock()
            if self._server is not None and 0 <= now - self._tried < _METADATA_FOR:
                return self._server
            if self._failure and 0 <= now - self._tried < _FAILURE_PAUSE:
                raise Unauthorized(self._failure)
            self._tried, self._server = now, None
            try:
                async with self._open_fetch() as fetch:
                    server = await read_server(fetch, self._settings.issuer)
                if server.issuer != self._settings.issuer:
                    # Its tokens have this name, and would be refused after the person has signed in.
                    raise Unauthorized(f"[review.sign_in]: issuer has to be {server.issuer}, as the provider says")
                # A provider that announces no methods (Entra) has PKCE all the same, and the nonce binds its code.
                if server.code_challenge_methods_supported is not None:
                    check_pkce(server)
                if not server.authorization_endpoint:
                    raise Unauthorized(f"{server.issuer} names no authorization_endpoint")
            except Unauthorized as error:
                self._failure = str(error)
                raise
            self._server, self._failure = server, ""
            return server

    async def _read_person(self, token: str, cookie: str) -> Person:
        """Verify an ID token (OpenID Connect Core, section 3.1.3.7), and read whom it names."""
        try:
            claims = (await self._verifier.verify(token.encode())).caller.claims
        except (Invalid, IssuerUnavailable) as error:
            raise Unauthorized(f"signing in was stopped: the ID token is refused: {error}") from None
        subject, audience = claims.get("sub"), claims["aud"]
        nonce = str(claims.get("nonce", "")).encode("utf-8", "surrogatepass")
        if not hmac.compare_digest(nonce, self._derive("nonce", cookie).encode()):
            raise Unauthorized("signing in was stopped: the ID token is of another sign-in")
        is_shared = isinstance(audience, list) and len(cast("list[object]", audience)) > 1
        if (is_shared or "azp" in claims) and claims.get("azp") != self._settings.client_id:
            raise Unauthorized("signing in was stopped: the ID token was issued to another client")
        if not isinstance(subject, str) or not subject or "iat" not in claims:
            raise Unauthorized("signing in was stopped: the ID token names nobody, or no time")
        return find_role(read_person(claims, self._settings), self._settings.roles)


def read_person(claims: Mapping[str, Any], settings: SignIn) -> Person:
    """Read a person from verified claims: issuer and subject prove who it is, all others describe the person."""
    email = claims.get("email")
    names = (claims.get(name) for name in ("name", "preferred_username", "email"))
    groups: Any = claims
    for step in settings.groups_claim.split("."):
        groups = cast("dict[str, Any]", groups).get(step) if isinstance(groups, Mapping) else None
    listed = cast("list[object]", groups) if isinstance(groups, list) else [groups]
    return Person(
        issuer=claims["iss"],
        subject=claims["sub"],
        name=next((name for name in names if isinstance(name, str) and name), ""),
        # An address that nobody has verified may be anybody's.
        email=email if isinstance(email, str) and claims.get("email_verified") is True else None,
        groups=frozenset(group for group in listed[:_MAX_GROUPS] if isinstance(group, str) and group),
    )
