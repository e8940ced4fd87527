"""The JWT bearer grant: an assertion that another issuer signed is exchanged for a token (RFC 7523, section 2.1)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from antiphon.auth.client.exchange import TokenAnswer
from antiphon.auth.client.grants.kinds import Wanted

__all__ = ["JWT_BEARER", "JwtBearer"]

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"


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
        return await wanted.endpoint.request(
            {
                "grant_type": JWT_BEARER,
                "assertion": await self._assertion(wanted.endpoint.server.issuer),
                "scope": wanted.scope,
                "resource": wanted.resource,
            }
        )
