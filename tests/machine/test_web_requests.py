"""Which proxy carries a request, and what of an address or a failure is shown."""

from __future__ import annotations

import errno
import socket
import ssl

import aiohttp
import pytest
from yarl import URL

from antiphon.errors import ConfigError
from antiphon.machine.web_requests import (
    describe_cause,
    describe_os_error,
    find_proxy,
    list_causes,
    make_printable,
    origin_of,
    show_address,
)
from tests.support.ports import free_port

TARGET = URL("https://server.example/mcp")


def test_an_address_is_shown_without_secrets():
    """Neither user, password nor query, and no fragment, which some providers put a token into."""
    assert show_address(URL("https://me:secret@host:8443/mcp?key=1#x")) == "https://host:8443/mcp"


def test_an_origin_is_scheme_host_and_port():
    """With the default port of the scheme; a WebSocket has that of its handshake."""
    assert origin_of(URL("https://a/x")) == origin_of(URL("https://a:443/y")) == origin_of(URL("wss://a"))
    assert origin_of(URL("https://a")) != origin_of(URL("http://a"))


def test_a_text_of_the_servers_is_cut_to_what_can_be_shown():
    """Its first line, without what a terminal would act on."""
    assert make_printable(" a\x1b[2J b\nc") == "a[2J b"
    assert len(make_printable("x" * 5_000)) == 200


@pytest.mark.parametrize("named", ["http://me:secret@proxy:3128", "me:secret@proxy:3128"])
def test_a_proxy_is_named_with_its_scheme_or_without(monkeypatch, named):
    """As curl takes both."""
    monkeypatch.setenv("https_proxy", named)
    assert find_proxy(TARGET) == URL("http://me:secret@proxy:3128")
    assert find_proxy(URL("http://server.example/mcp")) is None


@pytest.mark.parametrize("named", ["https://me:secret@proxy:3128", "socks5://me:secret@proxy:1080"])
def test_a_proxy_that_cannot_be_used_is_left_to_others(monkeypatch, caplog, named):
    """The log says so, without the address."""
    monkeypatch.setenv("https_proxy", named)
    assert find_proxy(TARGET) is None
    assert "is not used" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.parametrize("named", ["http://me:secret@[", "me:secret@proxy:99999"])
def test_a_proxy_without_an_address_is_refused(monkeypatch, named):
    """The variable may hold a password, so its value is not shown."""
    monkeypatch.setenv("https_proxy", named)
    with pytest.raises(ConfigError, match="no address") as caught:
        find_proxy(TARGET)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
def test_this_machine_is_reached_without_the_proxy_of_the_environment(monkeypatch, host):
    """No proxy reaches this machine by the names that it has for itself."""
    monkeypatch.setenv("http_proxy", "http://proxy:3128")
    assert find_proxy(URL(f"http://{host}:8000/")) is None


async def test_the_cause_of_a_failed_connection_is_that_of_the_system():
    """Whatever a library has put around it."""
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientConnectorError) as caught:
            await session.get(f"http://127.0.0.1:{free_port()}/")
    wrapped = RuntimeError("the request of me:secret failed")
    wrapped.__cause__ = caught.value
    assert describe_cause(wrapped) == "Connection refused"
    assert describe_cause(RuntimeError("me:secret")) == ""


def test_the_text_of_a_library_is_no_cause():
    """It has no number, and shows the whole address, whose query may hold a secret."""
    assert describe_os_error(aiohttp.ClientOSError(None, "Can not write request body for http://h/?key=secret")) == ""
    assert describe_os_error(socket.gaierror(-2, "Name or service not known")) == "Name or service not known"


def test_causes_that_are_a_circle_end():
    """Some libraries raise an error from itself."""
    one, other = RuntimeError(), ValueError()
    one.__cause__, other.__cause__ = other, one
    assert 1 < len([*list_causes(one)]) < 50


def test_a_certificate_that_nobody_vouches_for_has_a_remedy():
    """One that has expired has none on this side."""
    error = ssl.SSLCertVerificationError(1, "secret")
    error.verify_code, error.verify_message = 18, "self-signed certificate"
    assert "SSL_CERT_FILE" in describe_os_error(error)
    error.verify_code, error.verify_message = 10, "certificate has expired"
    assert describe_os_error(error) == "its certificate is not accepted: certificate has expired"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.ECONNRESET, "secret"), "Connection reset by peer"),
        (socket.gaierror(-2, "Name or service not known"), "Name or service not known"),
        (ssl.SSLError(), "TLS failed: the connection was cut"),
        (OSError("secret"), ""),
    ],
)
def test_a_failure_is_told_in_the_words_of_the_system(error: OSError, said: str):
    """Never in those of a library."""
    assert describe_os_error(error) == said
