"""The port at which a browser comes back: whose answer counts, and what others find there."""

from __future__ import annotations

import asyncio
import socket
import webbrowser
from urllib.parse import urlsplit

import pytest

from antiphon.auth.client.authorization_code import MAX_HEAD, Receiver, open_browser, read_redirect
from antiphon.errors import ConfigError


async def send(receiver, data):
    """Send bytes to the port and return what comes back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(receiver.redirect_uri).port)
    try:
        writer.write(data)
        await writer.drain()
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def get(receiver, target):
    """Ask for a page."""
    return (await send(receiver, f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode())).decode()


@pytest.fixture
async def receiver():
    """One that waits for the answer to a request."""
    made = await Receiver.open()
    made.expect("mine")
    yield made
    await made.close()


async def test_the_answer_is_handed_over_and_the_page_may_be_closed(receiver):
    """A plain page, kept by nobody, that loads nothing."""
    page = await get(receiver, "/callback?code=c&state=mine")
    assert page.startswith("HTTP/1.1 200")
    assert "You may close this page" in page
    assert "Cache-Control: no-store" in page
    assert "default-src 'none'" in page
    assert "code=c" not in page
    assert await receiver.answer() == f"{receiver.redirect_uri}?code=c&state=mine"


@pytest.mark.parametrize(
    "request_line",
    [
        b"GET /callback?code=evil&state=other HTTP/1.1",
        b"GET /callback?code=evil HTTP/1.1",
        b"GET /callback HTTP/1.1",
        b"GET /favicon.ico HTTP/1.1",
        b"GET /callback/../x?state=mine HTTP/1.1",
        b"POST /callback?state=mine HTTP/1.1",
        b"GET http://[/callback?state=mine HTTP/1.1",
        b"nonsense",
        b"\xff\xfe\x00",
        b"GET /callback?" + b"&".join(b"a%d=1" % n for n in range(200)) + b"&state=mine HTTP/1.1",
    ],
)
async def test_what_others_send_to_the_port_changes_nothing(receiver, request_line):
    """Any program and any page of this machine can: only what knows the state is the answer."""
    assert (await send(receiver, request_line + b"\r\n\r\n")).startswith(b"HTTP/1.1 404")
    assert not receiver._answer.done()
    await get(receiver, "/callback?code=c&state=mine")
    assert "code=c" in await receiver.answer()


async def test_only_the_first_answer_counts(receiver):
    """A second one finds nobody waiting."""
    await get(receiver, "/callback?code=first&state=mine")
    assert (await get(receiver, "/callback?code=second&state=mine")).startswith("HTTP/1.1 404")
    assert "code=first" in await receiver.answer()


async def test_nothing_is_taken_before_a_request_was_made():
    """Nor with an empty state."""
    receiver = await Receiver.open()
    try:
        assert (await get(receiver, "/callback?code=c&state=")).startswith("HTTP/1.1 404")
    finally:
        await receiver.close()


async def test_a_head_without_end_is_cut(receiver):
    """Memory of this machine is not for whoever finds the port."""
    assert await send(receiver, b"GET /" + b"a" * (4 * MAX_HEAD)) == b""
    assert not receiver._answer.done()


async def test_it_listens_on_this_machine_only(receiver):
    """No other machine can answer in the person's place."""
    assert {one.getsockname()[0] for one in receiver._server.sockets} == {"127.0.0.1"}


async def test_a_port_that_is_taken_is_said_to_be():
    """Whoever registered it registers another."""
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        await Receiver.open(f"http://127.0.0.1:{taken.getsockname()[1]}/callback")


@pytest.mark.parametrize("uri", ["https://a.example/cb", "http://a.example:80/cb", "http://127.0.0.1/cb", "x:/"])
async def test_an_address_of_another_machine_needs_somebody_who_shows_the_page(uri):
    """There is nothing here to listen at."""
    with pytest.raises(ConfigError, match="open_page"):
        await Receiver.open(uri)


async def test_without_a_browser_the_address_is_printed(monkeypatch, capsys):
    """One that is named and cannot be started is as none."""

    def fail(_address):
        raise webbrowser.Error("could not locate runnable browser")

    monkeypatch.setattr(webbrowser, "open", fail)
    await open_browser("https://issuer.example/authorize")
    assert "https://issuer.example/authorize" in capsys.readouterr().err


@pytest.mark.parametrize(("path", "asked"), [("", "/"), ("/cb?tenant=a", "/cb?tenant=a")])
async def test_a_redirect_uri_may_have_a_query_of_its_own_or_no_path(path, asked):
    """RFC 6749, section 3.1.2; browsers request "/" for an empty path."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        uri = f"http://127.0.0.1:{free.getsockname()[1]}{path}"
    receiver = await Receiver.open(uri)
    try:
        receiver.expect("mine")
        page = await get(receiver, f"{asked}{'&' if '?' in asked else '?'}code=c&state=mine")
        assert page.startswith("HTTP/1.1 200")
        read = read_redirect(await receiver.answer(), uri)
        assert (read["code"], read.get("tenant")) == ("c", "a" if path else None)
    finally:
        await receiver.close()


async def test_an_address_with_many_scopes_is_opened(monkeypatch):
    """Only what a server names has a bound; the query is ours."""
    opened = []
    monkeypatch.setattr(webbrowser, "open", lambda address: opened.append(address) or True)
    address = f"https://login.example/a?scope={'files.read+' * 1000}"
    await open_browser(address)
    assert opened == [address]
