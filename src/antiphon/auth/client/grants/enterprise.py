"""Enterprise-managed authorization: the company's identity provider attests who a person is (ext-auth; SEP-990).

Two exchanges: the identity provider's token for an assertion addressed to the authorization server (RFC 8693), and that
assertion for an access token (RFC 7523).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from antiphon.auth.client.exchange import ClientIdentity, TokenAnswer
from antiphon.auth.client.grants.jwt_bearer import JWT_BEARER
from antiphon.auth.client.grants.kinds import Wanted
from antiphon.auth.metadata import ServerMetadata
from antiphon.errors import Unauthorized

__all__ = ["EnterpriseManaged"]

_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
_ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"
_ID_TOKEN = "urn:ietf:params:oauth:token-type:id_token"


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
        assertion = await self._statement(wanted)
        return await wanted.endpoint.request(
            {"grant_type": JWT_BEARER, "assertion": assertion, "scope": wanted.scope, "resource": wanted.resource}
        )

    async def _statement(self, wanted: Wanted) -> str:
        """Have the identity provider issue an assertion for this authorization server only."""
        provider = ServerMetadata(issuer="the identity provider", token_endpoint=self.token_endpoint)
        endpoint = wanted.endpoint.at(provider, self._client)
        answer = await endpoint.request(
            {
                "grant_type": _EXCHANGE,
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
        return answer.access_token
