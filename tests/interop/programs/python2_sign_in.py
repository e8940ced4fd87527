"""The official Python SDK 2.x signs in at a protected server: usage python2_sign_in.py URL.

Everything is the SDK's: discovery, registration, the code, the token, and more scopes when a tool needs them. Only the
browser is not: the pages of the authorization server agree by themselves, so its redirects are followed.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata

CALLBACK = "http://127.0.0.1:39998/callback"


class Memory:
    """Keeps what the SDK wants kept."""

    def __init__(self) -> None:
        self.tokens: Any = None
        self.client: Any = None

    async def get_tokens(self) -> Any:
        """Return the tokens."""
        return self.tokens

    async def set_tokens(self, tokens: Any) -> None:
        """Keep the tokens."""
        self.tokens = tokens

    async def get_client_info(self) -> Any:
        """Return what was registered."""
        return self.client

    async def set_client_info(self, client_info: Any) -> None:
        """Keep what was registered."""
        self.client = client_info


class Browser:
    """Follows the redirects of the authorization server."""

    def __init__(self) -> None:
        self.result: AuthorizationCodeResult | None = None

    async def open(self, url: str) -> None:
        """Go where the SDK sends its user."""
        async with httpx2.AsyncClient(follow_redirects=False) as web:
            while not url.startswith(CALLBACK):
                response = await web.get(url)
                url = str(response.url.join(response.headers["location"]))
        said = parse_qs(urlsplit(url).query)
        if "code" not in said:
            raise RuntimeError(f"the authorization server says {said}")
        self.result = AuthorizationCodeResult(
            code=said["code"][0], state=said.get("state", [None])[0], iss=said.get("iss", [None])[0]
        )

    async def back(self) -> AuthorizationCodeResult:
        """Return what the redirect brought."""
        assert self.result is not None
        return self.result


async def sign_in(url: str) -> dict[str, str]:
    """Call a tool that needs one scope, and one that needs another."""
    browser = Browser()
    about = OAuthClientMetadata(redirect_uris=[CALLBACK], client_name="interop", application_type="native")
    provider = OAuthClientProvider(url, about, Memory(), browser.open, browser.back)
    async with (
        httpx2.AsyncClient(auth=provider, timeout=30) as web,
        Client(streamable_http_client(url, http_client=web)) as client,
    ):
        orders = await client.call_tool("orders", {})
        order = await client.call_tool("order", {"what": "tea"})
    return {"orders": orders.content[0].text, "order": order.content[0].text}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(sign_in(sys.argv[1]))))
