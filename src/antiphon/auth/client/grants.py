"""The ways to obtain a token: their common interface, and those that need no person.

* ``ClientCredentials``: the client's own credentials (RFC 6749, section 4.4; ext-auth, "OAuth Client Credentials").
* ``JwtBearer``: an assertion that another issuer signed is exchanged for a token (RFC 7523, section 2.1).
* ``WorkloadIdentity``: the identity that a platform gives a workload (SEP-1933, a draft). Kubernetes, clouds and build
  services write a short-lived JWT to a file, and replace it before it expires.
* ``EnterpriseManaged``: the company's identity provider attests who a person is (ext-auth; SEP-990). Two exchanges: the
  identity provider's token for an assertion addressed to the authorization server (RFC 8693), and that assertion for an
  access token (RFC 7523).

A person signs in by ``authorization_code``, in a browser here or on another device.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from antiphon.auth.client.token_endpoint import TokenEndpoint
from antiphon.auth.metadata import ClientIdentity, ServerMetadata, TokenAnswer
from antiphon.errors import Unauthorized
from antiphon.machine.files import read_file

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"

MAX_FILE = 64 * 1024
"""Bytes of the file at most."""

_ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"
_ID_TOKEN = "urn:ietf:params:oauth:token-type:id_token"


class Wanted(Struct, frozen=True, kw_only=True):
    """A token to obtain."""

    endpoint: TokenEndpoint
    """The token endpoint, used as one client."""
    resource: str | None
    scopes: tuple[str, ...]

    @property
    def scope(self) -> str | None:
        """The scopes as one text, as requests have them."""
        return " ".join(self.scopes) or None


class Grant(Protocol):
    """A way to obtain a token."""

    @property
    def name(self) -> str:
        """Its name in lists of logins."""
        ...

    @property
    def grant_type(self) -> str:
        """Its ``grant_type`` at authorization servers."""
        ...

    @property
    def needs_person(self) -> bool:
        """Whether a person has to act each time."""
        ...

    async def obtain(self, wanted: Wanted) -> TokenAnswer:
        """Obtain a token.

        Args:
            wanted: the resource, the scopes, and the token endpoint.

        Raises:
            Unauthorized: no token was granted; the message says why.
        """
        ...


class ClientCredentials:
    """Sign in as the program: ``OAuth(client_id=..., client_secret=..., issuer=..., grant=ClientCredentials())``."""

    name = "client credentials"
    grant_type = "client_credentials"
    needs_person = False

    async def obtain(self, wanted: Wanted) -> TokenAnswer:
        """See ``Grant.obtain``."""
        form = {"grant_type": self.grant_type, "scope": wanted.scope, "resource": wanted.resource}
        return await wanted.endpoint.request(form)


class JwtBearer:
    """Sign in with a JWT from an issuer that the authorization server trusts.

    Args:
        assertion: async function that is called with the authorization server's issuer and returns a fresh JWT.
    """

    name = "JWT bearer"
    grant_type = JWT_BEARER
    needs_person = False

    def __init__(self, assertion: Callable[[str], Awaitable[str]]) -> None:
        self._assertion = assertion

    async def obtain(self, wanted: Wanted) -> TokenAnswer:
        """See ``Grant.obtain``; a refusal is final."""
        return await _present_assertion(wanted, await self._assertion(wanted.endpoint.server.issuer))


class WorkloadIdentity(JwtBearer):
    """Sign in as the workload of this process: ``OAuth(client_id=..., grant=WorkloadIdentity(path))``.

    Args:
        path: file with the JWT; read each time, because the platform replaces it.
    """

    name = "workload identity"

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        super().__init__(self._from_file)

    async def _from_file(self, _issuer: str) -> str:
        try:
            return (await asyncio.to_thread(read_file, self._path, MAX_FILE)).decode("ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise Unauthorized(f"signing in failed: {self._path} cannot be read ({type(error).__name__})") from None


class EnterpriseManaged:
    """Sign in with the login that a person has at their company.

    Args:
        token_endpoint: URL of the identity provider's token endpoint.
        identity_token: async function that returns the person's ID token.
        client_id: this program's client id at the identity provider; none by default.
        client_secret: the secret of ``client_id``; none by default.
        subject_token_type: type of the token that ``identity_token`` returns; an OpenID Connect ID token by default.
    """

    name = "enterprise-managed"
    grant_type = JWT_BEARER
    needs_person = False

    def __init__(
        self,
        *,
        token_endpoint: str,
        identity_token: Callable[[], Awaitable[str]],
        client_id: str | None = None,
        client_secret: str | None = None,
        subject_token_type: str = _ID_TOKEN,
    ) -> None:
        self.token_endpoint = token_endpoint
        self._identity_token = identity_token
        self._client = ClientIdentity(client_id=client_id or "", secret=client_secret)
        self._kind = subject_token_type

    async def obtain(self, wanted: Wanted) -> TokenAnswer:
        """See ``Grant.obtain``."""
        # The identity provider issues an assertion for this authorization server only.
        provider = ServerMetadata(issuer="the identity provider", token_endpoint=self.token_endpoint)
        endpoint = wanted.endpoint.at(provider, self._client)
        answer = await endpoint.request(
            {
                "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
                "requested_token_type": _ID_JAG,
                "audience": wanted.endpoint.server.issuer,
                "resource": wanted.resource,
                "scope": wanted.scope,
                "subject_token": await self._identity_token(),
                "subject_token_type": self._kind,
            }
        )
        if answer.raw.get("issued_token_type") != _ID_JAG:
            raise Unauthorized("signing in was stopped: the identity provider gave a token of another kind")
        return await _present_assertion(wanted, answer.access_token)


async def _present_assertion(wanted: Wanted, assertion: str) -> TokenAnswer:
    form = {"grant_type": JWT_BEARER, "assertion": assertion, "scope": wanted.scope, "resource": wanted.resource}
    return await wanted.endpoint.request(form)
