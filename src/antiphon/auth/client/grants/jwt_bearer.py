"""A signed statement of somebody else's about who we are, taken as a grant (RFC 7523, section 2.1)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from antiphon.auth.client.exchange import TokenAnswer
from antiphon.auth.client.grants.kinds import Wanted

__all__ = ["JWT_BEARER", "JwtBearer"]

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"


class JwtBearer:
    """Sign in with a JWT that an issuer gives which the authorization server trusts.

    Args:
        assertion: async function, called with the issuer of the authorization server, that returns a fresh JWT.
    """

    name = "JWT bearer"
    grant_type = JWT_BEARER
    needs_person = False

    def __init__(self, assertion: Callable[[str], Awaitable[str]]) -> None:
        self._assertion = assertion

    async def obtain(self, wanted: Wanted) -> TokenAnswer:
        """See ``Grant.obtain``. Asked once: what was refused is refused."""
        return await wanted.endpoint.request(
            {
                "grant_type": JWT_BEARER,
                "assertion": await self._assertion(wanted.endpoint.server.issuer),
                "scope": wanted.scope,
                "resource": wanted.resource,
            }
        )
