"""How the client of the conformance suite signs in, by scenario: what a user would set for such a server.

The suite's authorization servers ask nobody anything: the page at which a person would sign in redirects at once. So
"the browser" is one request, and the address of the redirect goes back as if a person had pasted it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiohttp import ClientSession

from antiphon.auth.client.grants import ClientCredentials, EnterpriseManaged, JwtBearer
from antiphon.auth.client.oauth import OAuth

METADATA_URL = "https://conformance-test.local/client-metadata.json"
REDIRECT = "http://localhost:3000/callback"


async def browse(address: str) -> str:
    """Open a page as a browser would, and return where it leads."""
    async with ClientSession() as session, session.get(address, allow_redirects=False) as response:
        return response.headers["Location"]


def oauth(scenario: str, context: Mapping[str, Any]) -> OAuth:
    """Set up what signs in."""
    known = {name: context[name] for name in ("client_id", "client_secret") if name in context}
    if scenario == "auth/client-credentials-jwt":
        return OAuth(
            **known,
            private_key=context["private_key_pem"],
            algorithm=context["signing_algorithm"],
            grant=ClientCredentials(),
        )
    if scenario.startswith("auth/client-credentials"):
        return OAuth(**known, grant=ClientCredentials())
    if scenario == "auth/wif-jwt-bearer":

        async def platform(_issuer: str) -> str:
            return context["valid_jwt"]

        return OAuth(**known, grant=JwtBearer(platform))
    if scenario == "auth/enterprise-managed-authorization":

        async def signed_in() -> str:
            return context["idp_id_token"]

        provider = {"token_endpoint": context["idp_token_endpoint"], "client_id": context["idp_client_id"]}
        return OAuth(**known, grant=EnterpriseManaged(**provider, identity_token=signed_in))
    return OAuth(**known, client_metadata_url=METADATA_URL, redirect_uri=REDIRECT, open_page=browse)
