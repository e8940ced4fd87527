"""A certificate and a key are read, or it is said what is wrong with them."""

from __future__ import annotations

import asyncio
import ssl

import pytest

from antiphon import Client, Server
from antiphon.errors import AntiphonError, ConfigError
from antiphon.transports.http.server.entrance import server_context
from tests.support.certificates import write_certificate
from tests.support.network import Bare, let_time_pass, listening, until


def make_server():
    """Make a server with one tool."""
    server = Server("secret", version="1")

    @server.tool
    def echo(text: str) -> str:
        """Say it again."""
        return text

    return server


URLS = {"http": "https://{}/mcp", "sse": "https://{}/sse", "websocket": "wss://{}/ws"}


@pytest.mark.parametrize("transport", URLS)
async def test_a_client_that_trusts_the_certificate_is_served(transport, tmp_path):
    """Over each transport, both eras where it has them."""
    cert, key = write_certificate(tmp_path)
    trusting = ssl.create_default_context(cafile=str(cert))
    async with listening(make_server(), transport, tls_cert=cert, tls_key=key) as network:
        url = URLS[transport].format(network.place)
        for revision in ("2025-11-25", "2026-07-28") if transport == "http" else ("auto",):
            async with Client(url, ssl=trusting, revision=revision) as client:
                assert (await client.call_tool("echo", {"text": "hi"})).text == "hi"


async def test_a_client_that_does_not_trust_it_says_so(tmp_path):
    """Nothing is sent to a server that nobody vouches for; nor to one that speaks TLS without it."""
    cert, key = write_certificate(tmp_path)
    async with listening(make_server(), tls_cert=cert, tls_key=key) as network:
        with pytest.raises(AntiphonError, match=r"(?i)certificate"):
            await Client(URLS["http"].format(network.place)).connect()
        with pytest.raises(AntiphonError):
            await Client(f"http://{network.place}/mcp").connect()


async def test_who_is_slow_is_cut_off_behind_tls_as_well(tmp_path):
    """Once the connection is secured; before, the event loop has a limit of its own."""
    cert, key = write_certificate(tmp_path)
    trusting = ssl.create_default_context(cafile=str(cert))
    async with listening(make_server(), tls_cert=cert, tls_key=key) as network:
        host, _, port = network.place.rpartition(":")
        bare = Bare(*await asyncio.open_connection(host, int(port), ssl=trusting))
        bare.send(b"POST /mcp HTTP/1.1\r\n")
        await until(lambda: network.server_state.connections)
        let_time_pass(network, 3600)
        assert await bare.ended() == b""


def test_certificate_and_key_may_be_in_one_file(tmp_path):
    """As many tools write them."""
    cert, key = write_certificate(tmp_path)
    both = tmp_path / "both.pem"
    both.write_bytes(cert.read_bytes() + key.read_bytes())
    assert server_context(both).minimum_version >= ssl.TLSVersion.TLSv1_2


def test_an_encrypted_key_is_opened_by_its_password(tmp_path):
    """Nobody is asked at a terminal."""
    cert, key = write_certificate(tmp_path, password="open sesame")
    assert isinstance(server_context(cert, key, "open sesame"), ssl.SSLContext)
    for wrong in ("no", None):
        with pytest.raises(ConfigError, match="is encrypted, and the password is missing or wrong"):
            server_context(cert, key, wrong)


def test_files_that_are_missing_or_do_not_belong_together_are_named(tmp_path):
    """With what is wrong about them."""
    cert, key = write_certificate(tmp_path)
    _, other = write_certificate(tmp_path, "other")
    none, text = tmp_path / "none.pem", tmp_path / "text.pem"
    text.write_text("hello")
    for given, message in [
        ((none, key), f"no such file: {none}"),
        ((cert, none), f"no such file: {none}"),
        ((cert, other), f"the key in {other} does not belong to the certificate in {cert}"),
        ((cert, text), "holds no certificate and key in PEM form"),
        ((text, key), "holds no certificate and key in PEM form"),
        ((cert,), "holds no certificate and key in PEM form"),
    ]:
        with pytest.raises(ConfigError) as caught:
            server_context(*given)
        assert message in str(caught.value)


async def test_a_key_alone_is_refused(tmp_path):
    """It was meant to be of use."""
    _, key = write_certificate(tmp_path)
    with pytest.raises(ConfigError, match="tls_cert"):
        async with listening(make_server(), tls_key=key):
            pass


def test_an_application_that_is_mounted_has_no_tls_of_its_own(tmp_path):
    """Whoever runs it has; the option is refused rather than ignored."""
    cert, _ = write_certificate(tmp_path)
    options = {"tls_cert": cert}
    with pytest.raises(ConfigError, match="tls_cert"):
        make_server().asgi(**options)
