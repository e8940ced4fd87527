"""Documents of issuers: bounded in size and time, and never from elsewhere."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.auth.client.fetch import MAX_BODY
from antiphon.auth.server import issuer as module
from antiphon.auth.server.issuer import IssuerUnavailable, check_address, fetch_document
from antiphon.errors import ConfigError
from tests.support.issuer import Issuer


@pytest.mark.parametrize("length", [0, 10, MAX_BODY])
async def test_a_document_is_fetched(length):
    """Up to its bound."""
    async with Issuer().open() as issuer:
        issuer.bodies["/x"] = (200, b"x" * length)
        assert len(await fetch_document(f"{issuer.url}/x")) == length


@pytest.mark.parametrize("answer", [(200, b"x" * (MAX_BODY + 1)), (302, b""), (404, b"{}"), (500, b""), (204, b"")])
async def test_anything_else_is_no_document(answer):
    """Too long, elsewhere, or not there."""
    async with Issuer().open() as issuer:
        issuer.bodies["/x"] = answer
        with pytest.raises(IssuerUnavailable):
            await fetch_document(f"{issuer.url}/x")
        assert issuer.paths == ["/x"]


async def test_whoever_is_silent_is_given_up(monkeypatch):
    """No request waits for ever for somebody else's machine."""
    monkeypatch.setattr(module, "FETCH_TIMEOUT", 0.05)
    met = []
    server = await asyncio.start_server(lambda _reader, writer: met.append(writer), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(IssuerUnavailable, match="did not answer"):
        await fetch_document(f"http://127.0.0.1:{port}/x")
    for writer in met:
        writer.close()
    server.close()
    await server.wait_closed()


async def test_whoever_is_not_there_is_said_to_be():
    """Without a word of what was sent."""
    with pytest.raises(IssuerUnavailable, match="cannot be reached") as failed:
        await fetch_document("http://127.0.0.1:1/x", {"token": "secret-token"}, "Basic secret")
    assert "secret" not in str(failed.value)


async def test_a_public_issuer_leads_to_no_local_network(monkeypatch):
    """The addresses of its keys and of its questions come from its metadata; those of the settings are the user's."""
    async with Issuer().open() as issuer:
        issuer.bodies["/x"] = (200, b"keys")
        with pytest.raises(IssuerUnavailable, match=r"is public, and sends us to 127\.0\.0\.1, which is"):
            await fetch_document(f"{issuer.url}/x", issuer="https://93.184.215.14")
        assert issuer.paths == []
        assert await fetch_document(f"{issuer.url}/x", issuer=issuer.url) == b"keys"
        assert await fetch_document(f"{issuer.url}/x") == b"keys"


@pytest.mark.parametrize("url", ["ftp://a.example", "https://[", "https://a.example:99999", "//a.example", ""])
def test_an_address_must_be_one(url):
    """And safe."""
    with pytest.raises(ConfigError):
        check_address(url, "x")
