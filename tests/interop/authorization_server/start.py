"""Starts the authorization server of the tests, and gets tokens of it as a program or as a person's application."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

import aiohttp

from tests.interop.peers import Peers
from tests.support.ports import free_port

__all__ = ["AS_PROGRAM", "PROGRAM", "AuthorizationServer", "authorization_server"]

PROGRAM = ("program", "program-secret-of-32-characters!")
AS_PROGRAM = {"authorization": "Basic " + base64.b64encode(":".join(PROGRAM).encode()).decode()}
CALLBACK = "http://127.0.0.1:39999/callback"
_SERVER = Path(__file__).parent / "server.mjs"
_READY = 30.0
"""Seconds that it may take to start; it takes one."""


class AuthorizationServer:
    """One at work. ``issuer``: its identifier."""

    def __init__(self, issuer: str) -> None:
        self.issuer = issuer

    async def token(self, form: dict[str, str], **headers: str) -> dict[str, Any]:
        """Ask for a token as the program; return the whole answer, which may be an error."""
        async with (
            aiohttp.ClientSession(headers=AS_PROGRAM) as web,
            web.post(f"{self.issuer}/token", data=form, headers=headers) as response,
        ):
            return await response.json()

    async def program_token(self, resource: str, scope: str = "", **headers: str) -> str:
        """Get an access token of the program's own (client credentials)."""
        form = {"grant_type": "client_credentials", "resource": resource, "scope": scope}
        return (await self.token(form, **headers))["access_token"]

    async def person_token(self, resource: str, scope: str = "openid") -> dict[str, Any]:
        """Get the tokens of a person's application: authorization code with PKCE, agreed to without a page."""
        verifier = secrets.token_urlsafe(32)
        asked = {
            "client_id": "application",
            "response_type": "code",
            "redirect_uri": CALLBACK,
            "scope": scope,
            "resource": resource,
            "code_challenge": _challenge(verifier),
            "code_challenge_method": "S256",
        }
        back = await self.browse(f"{self.issuer}/auth?{urlencode(asked)}")
        form = {
            "grant_type": "authorization_code",
            "client_id": "application",
            "code": parse_qs(urlsplit(back).query)["code"][0],
            "redirect_uri": CALLBACK,
            "code_verifier": verifier,
            "resource": resource,
        }
        async with aiohttp.ClientSession() as web, web.post(f"{self.issuer}/token", data=form) as response:
            return await response.json()

    async def browse(self, address: str) -> str:
        """Do what a person's browser does with the address of a sign-in; return where it ends."""
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as web:
            while address.startswith(self.issuer):
                async with web.get(address, allow_redirects=False) as response:
                    address = urljoin(address, response.headers["location"])
        return address


def _challenge(verifier: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


@asynccontextmanager
async def authorization_server(peers: Peers, seconds: int = 600, page: str = "") -> AsyncIterator[AuthorizationServer]:
    """Run the server on a free port. ``seconds``: how long its access tokens are good; ``page``: of a review page."""
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        peers.node,
        str(_SERVER),
        str(port),
        str(seconds),
        *([page] if page else []),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "ANTIPHON_INTEROP_DIR": str(peers.root)},
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(_READY):
            issuer = (await process.stdout.readline()).decode().strip()
            while issuer and not issuer.startswith("http"):
                issuer = (await process.stdout.readline()).decode().strip()
        if not issuer:
            raise RuntimeError(f"the authorization server ended with exit code {await process.wait()}")
        yield AuthorizationServer(issuer)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
