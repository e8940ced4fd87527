"""The authorization code grant: a person signs in with a browser (OAuth 2.1, section 4.1).

2026-07-28 basic/authorization. Builds the authorization address, and validates the redirect: the state has to be ours
and the issuer the one that was asked (RFC 9207) before the code, or even an error, is used.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from msgspec import Struct

from antiphon.auth.client.addresses import checked_address
from antiphon.auth.client.discovery import OFFLINE
from antiphon.auth.client.exchange import TokenAnswer
from antiphon.auth.client.grants import Wanted
from antiphon.auth.metadata import ServerMetadata
from antiphon.errors import Unauthorized

__all__ = ["AuthorizationCode", "Expected", "authorization_address", "check_pkce", "code_in", "read_redirect"]

MAX_ADDRESS = 16 * 1024
"""Characters of the redirect address at most."""

_WORD = re.compile(r"[A-Za-z0-9_.\-]{1,64}")


class Expected(Struct, frozen=True, kw_only=True):
    """The secrets of one authorization request, kept until the browser returns; used once."""

    state: str
    verifier: str
    issuer: str
    redirect_uri: str

    @classmethod
    def make(cls, issuer: str, redirect_uri: str) -> Expected:
        """Generate the secrets of one request."""
        return cls(
            state=secrets.token_urlsafe(32),
            verifier=secrets.token_urlsafe(64),
            issuer=issuer,
            redirect_uri=redirect_uri,
        )

    @property
    def challenge(self) -> str:
        """The S256 challenge of the verifier (RFC 7636, section 4.2)."""
        digest = hashlib.sha256(self.verifier.encode()).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()

    def __repr__(self) -> str:
        return f"Expected({self.issuer})"


def check_pkce(server: ServerMetadata) -> None:
    """Check that the authorization server supports PKCE (2026-07-28, "Authorization Code Protection").

    Raises:
        Unauthorized: its metadata does not say so, and then it must not be used.
    """
    if "S256" not in (server.code_challenge_methods_supported or ()):
        raise Unauthorized(
            f"signing in was stopped: {server.issuer} does not announce PKCE with S256, without which an intercepted "
            "code could be used by others"
        )


def authorization_address(
    server: ServerMetadata, client_id: str, expected: Expected, *, scope: str | None, resource: str | None
) -> str:
    """Build the authorization address; the query that the endpoint already has is kept."""
    checked_address(server.authorization_endpoint or "", "the authorization_endpoint")
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
    """Parse the address that the browser was redirected to.

    Raises:
        Unauthorized: it is not the redirect URI, or has a parameter twice.
    """
    try:
        parts, own = urlsplit(address.strip()[:MAX_ADDRESS]), urlsplit(redirect_uri)
        same = (parts.scheme, parts.netloc, parts.path) == (own.scheme, own.netloc, own.path)
        pairs = parse_qsl(parts.query, keep_blank_values=True, max_num_fields=64)
    except ValueError:
        raise Unauthorized("signing in failed: the redirect is no address") from None
    if not same:
        raise Unauthorized(f"signing in failed: the redirect does not begin with {redirect_uri}")
    if len({name for name, _ in pairs}) != len(pairs):
        raise Unauthorized("signing in failed: the redirect has a parameter twice")
    return dict(pairs)


def code_in(answer: Mapping[str, str], expected: Expected, server: ServerMetadata) -> str:
    """Validate the redirect and return its authorization code.

    Raises:
        Unauthorized: it does not belong to our request, comes from another issuer, or is a refusal.
    """
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
        raise Unauthorized(f"signing in failed: {expected.issuer}{told}")
    code = answer.get("code", "")
    if not code:
        raise Unauthorized("signing in failed: the redirect has no code")
    return code


class AuthorizationCode:
    """Signs in with a browser. ``show`` shows a page to a person and returns the address of the redirect.

    ``check``: whether the authorization server has to announce PKCE in its metadata; one of 2025-03-26 may have none.
    """

    name = "browser"
    grant_type = "authorization_code"
    needs_person = True

    def __init__(
        self, show: Callable[[str], Awaitable[str]], redirect_uri: str, *, timeout: float, check: bool = True
    ) -> None:
        self._show = show
        self._redirect_uri = redirect_uri
        self._timeout = timeout
        self._check = check

    async def obtain(self, wanted: Wanted) -> TokenAnswer:
        """See ``Grant.obtain``."""
        server, client_id = wanted.endpoint.server, wanted.endpoint.identity.client_id
        if self._check:
            check_pkce(server)
        expected = Expected.make(server.issuer, self._redirect_uri)
        address = authorization_address(server, client_id, expected, scope=wanted.scope, resource=wanted.resource)
        try:
            async with asyncio.timeout(self._timeout):
                ended = await self._show(address)
        except TimeoutError:
            raise Unauthorized(f"signing in failed: nobody completed it within {self._timeout:g} s") from None
        code = code_in(read_redirect(ended, self._redirect_uri), expected, server)
        return await wanted.endpoint.request(
            {
                "grant_type": self.grant_type,
                "code": code,
                "redirect_uri": self._redirect_uri,
                "code_verifier": expected.verifier,
                "resource": wanted.resource,
            }
        )
