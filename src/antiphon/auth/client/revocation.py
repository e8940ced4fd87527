"""Revokes tokens at logout (RFC 7009)."""

from __future__ import annotations

from yarl import URL

from antiphon.auth.client.fetch import fetching
from antiphon.auth.client.store import Login
from antiphon.auth.client.token_endpoint import TokenEndpoint, refusal_of

__all__ = ["revoke"]


async def revoke(login: Login) -> bool:
    """Revoke the tokens of a login; return whether its authorization server supports that.

    Raises:
        Unauthorized: it could not be reached, or refused.
    """
    address = login.metadata.revocation_endpoint
    if not address:
        return False
    async with fetching(URL(login.server)) as fetch:
        endpoint = TokenEndpoint(fetch, login.metadata, login.identity)
        # Revoking the refresh token revokes the access token as well if the server supports that.
        tokens = [(login.refresh_token, "refresh_token"), (login.access_token, "access_token")]
        for token, kind in tokens:
            if token is not None:
                answer = await endpoint.post(address, {"token": token, "token_type_hint": kind})
                refused = None if answer.status == 200 else refusal_of(answer, login.metadata.issuer)
                # RFC 7009, section 2.2.1: a self-contained access token cannot be revoked; it expires soon.
                if refused is not None and refused.error != "unsupported_token_type":
                    raise refused
    return True
