"""The client's own credentials, without a person (RFC 6749, section 4.4; ext-auth, "OAuth Client Credentials")."""

from __future__ import annotations

from antiphon.auth.client.exchange import TokenAnswer
from antiphon.auth.client.grants.kinds import Wanted

__all__ = ["ClientCredentials"]


class ClientCredentials:
    """Sign in as the program: ``OAuth(client_id=..., client_secret=..., issuer=..., grant=ClientCredentials())``."""

    name = "client credentials"
    grant_type = "client_credentials"
    needs_person = False

    async def obtain(self, wanted: Wanted) -> TokenAnswer:
        """See ``Grant.obtain``."""
        form = {"grant_type": self.grant_type, "scope": wanted.scope, "resource": wanted.resource}
        return await wanted.endpoint.request(form)
