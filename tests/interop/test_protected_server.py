"""Our protected server with tokens of an authorization server that nobody here wrote, and other people's clients."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from antiphon import Client, OAuth
from antiphon.auth import DPoP, Introspection, Issuer, ResourceServer
from tests.auth.server.protected import protected, shop
from tests.interop.authorization_server.start import AS_PROGRAM, PROGRAM, AuthorizationServer, authorization_server
from tests.interop.peers import Peers
from tests.support.issuer import Sender, b64
from tests.support.network import listening
from tests.support.ports import free_port

RESOURCE = "https://mcp.example.com/mcp"
OPAQUE = "https://mcp.example.com/opaque"


@asynccontextmanager
async def trusting(peers: Peers, issuer: Any = None, **options: Any) -> AsyncIterator[tuple[AuthorizationServer, Any]]:
    """Run both, the one trusting the other. ``issuer``: makes what is trusted, of the issuer's name."""
    async with authorization_server(peers) as authority:
        trusted = authority.issuer if issuer is None else issuer(authority.issuer)
        options = {"audience": RESOURCE, **options}
        async with protected(authority, issuers=trusted, **options) as server:
            yield authority, server


async def test_tokens_of_a_program_are_taken(peers: Peers) -> None:
    """With the scopes they were given, and no others."""
    async with trusting(peers) as (authority, server):
        token = await authority.program_token(RESOURCE, "orders:read")
        assert json.loads((await server.tool(token=token)).text)[0] == f"{authority.issuer} sub:program"
        assert (await server.tool("orders", token=token)).text == "two"
        refused = await server.tool("order", token=token, arguments={"what": "tea"})
        assert refused.challenge[1]["scope"] == "orders:read orders:write"


async def test_tokens_of_a_person_are_taken(peers: Peers) -> None:
    """By authorization code; the ID token that comes with it is for the application, and opens nothing here."""
    async with trusting(peers) as (authority, server):
        tokens = await authority.person_token(RESOURCE, "openid orders:read")
        answer = json.loads((await server.tool(token=tokens["access_token"])).text)
        assert answer == [f"{authority.issuer} sub:ann", ["orders:read"], "application"]
        assert (await server.tool(token=tokens["id_token"])).status == 401


async def test_tokens_for_another_resource_are_not_taken(peers: Peers) -> None:
    """Though they are of the same issuer, and good there."""
    async with trusting(peers) as (authority, server):
        for resource in ("https://mcp.example.com/other", RESOURCE + "/more", "https://mcp.example.com"):
            assert (await server.tool(token=await authority.program_token(resource))).status == 401


async def test_opaque_tokens_are_asked_about_until_they_are_revoked(peers: Peers) -> None:
    """By introspection, as a client of the issuer's."""

    def asked(url: str) -> Issuer:
        how = Introspection(client_id=PROGRAM[0], client_secret=PROGRAM[1], remembered_for=0)
        return Issuer(url=url, introspection=how)

    async with trusting(peers, asked, audience=OPAQUE) as (authority, server):
        token = await authority.program_token(OPAQUE, "orders:read")
        assert "." not in token
        assert (await server.tool("orders", token=token)).text == "two"
        assert (await server.tool(token=token + "x")).status == 401
        await revoke(authority, token)
        assert (await server.tool(token=token)).status == 401


async def revoke(authority: AuthorizationServer, token: str) -> None:
    """Take a token back."""
    async with (
        aiohttp.ClientSession(headers=AS_PROGRAM) as web,
        web.post(f"{authority.issuer}/token/revocation", data={"token": token}) as response,
    ):
        assert response.status == 200


async def test_tokens_bound_to_a_key_are_taken_with_proofs(peers: Peers) -> None:
    """The issuer binds them to the key that its proof was made with."""
    sender = Sender()
    async with trusting(peers, dpop=DPoP(required=True)) as (authority, server):
        ath = b64(hashlib.sha256(b"").digest())
        proof = sender.proof("", htu=f"{authority.issuer}/token", ath=ath, without=["ath"])
        token = await authority.program_token(RESOURCE, "orders:read", DPoP=proof)
        assert (await server.tool("orders", **sender.headers(token))).text == "two"
        assert (await server.tool(token=token)).status == 401
        assert (await server.tool(**Sender().headers(token))).error == "invalid_dpop_proof"


@pytest.mark.parametrize("dpop", [DPoP(), DPoP(required=True), DPoP(required=True, nonces=True)], ids=repr)
async def test_our_client_signs_in(peers: Peers, dpop: DPoP) -> None:
    """From the first 401 on, with more scopes where they are missing, with proofs and nonces where they are wanted."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    async with authorization_server(peers) as authority:
        auth = ResourceServer(authority.issuer, url, scopes_supported=["orders:read"], dpop=dpop)
        async with (
            listening(shop(), auth=auth, port=port),
            Client(url, auth=OAuth(open_page=authority.browse)) as client,
        ):
            assert (await client.call_tool("orders")).text == "two"
            assert (await client.call_tool("order", {"what": "tea"})).text == "tea"
            whose = json.loads((await client.call_tool("whoami")).text)
            assert whose[:2] == [f"{authority.issuer} sub:ann", ["orders:read", "orders:write"]]


@pytest.mark.parametrize("name", ["python2", "ts2"])
async def test_an_official_client_signs_in(peers: Peers, name: str) -> None:
    """From the first 401 on: metadata, registration, code, token, call; and once more where a scope is missing."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    async with authorization_server(peers) as authority:
        auth = ResourceServer(authority.issuer, url, scopes_supported=["orders:read"])
        async with listening(shop(), auth=auth, port=port):
            done = await asyncio.to_thread(peers.run, [*peers.program(f"{name}_sign_in"), url])
    assert done.returncode == 0, done.stderr[-4000:]
    seen = json.loads(done.stdout)
    assert seen["orders"] == "two"
    assert seen["order"] == "tea"
