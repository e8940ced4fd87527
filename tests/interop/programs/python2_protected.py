"""A protected server written with the official Python SDK 2.x: what our client signs in to. PORT ISSUER."""

from __future__ import annotations

import asyncio
import sys

import jwt
from mcp.server import MCPServer
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings

port, issuer = int(sys.argv[1]), sys.argv[2]
resource = f"http://127.0.0.1:{port}/mcp"
keys = jwt.PyJWKClient(f"{issuer}/jwks")


class Verifier:
    """Takes what the issuer has signed for this server."""

    async def verify_token(self, token: str) -> AccessToken | None:
        """Check one."""
        try:
            key = await asyncio.to_thread(keys.get_signing_key_from_jwt, token)
            claims = jwt.decode(token, key, algorithms=["RS256", "ES256"], audience=resource, issuer=issuer)
        except jwt.PyJWTError:
            return None
        scopes = claims.get("scope", "").split()
        return AccessToken(
            token=token, client_id=claims["client_id"], scopes=scopes, resource=resource, subject=claims["sub"]
        )


server = MCPServer(
    "protected",
    log_level="ERROR",
    token_verifier=Verifier(),
    auth=AuthSettings(
        issuer_url=issuer, resource_server_url=resource, required_scopes=["orders:read"], validate_token_resource=True
    ),
)


@server.tool()
def whoami() -> str:
    """Say who calls."""
    token = get_access_token()
    return f"{token.subject} {' '.join(token.scopes)}"


server.run("streamable-http", host="127.0.0.1", port=port)
