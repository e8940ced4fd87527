"""Serving: on this machine, until it ends, and it ends at once."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import stat
import threading
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest

from antiphon.errors import ConfigError
from antiphon.host import MemoryStore
from antiphon.host.config.settings import Config, Reviewing
from antiphon.transports.http.server.connections import BoundedConnection
from antiphon.web.page_server import running_page, serve_and_open_page
from tests.web.pages import desk, visitor


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.com", ""])
async def test_only_this_machine_is_served_by_default(host: str):
    """An address that others can reach has to be asked for."""
    with pytest.raises(ConfigError, match="this machine only"):
        async with running_page(MemoryStore(), host=host):
            pass


async def test_others_are_served_where_that_was_asked_for():
    """By the name it was asked for; other names are still refused."""
    async with running_page(MemoryStore(), host="0.0.0.0", remote=True) as running:
        port = running.origin.rpartition(":")[2]
        async with visitor() as client:
            assert (await client.get(f"http://127.0.0.1:{port}/")).status_code == 401
            assert (await client.get(f"http://127.0.0.1:{port}/", headers={"Host": "evil.example"})).status_code == 403


async def test_the_other_family_of_addresses_is_ours_as_well():
    """Browsers look for the page's name at ::1 first: nobody else may listen there."""
    async with running_page(MemoryStore()) as running:
        port = int(running.origin.rpartition(":")[2])
        with socket.socket(socket.AF_INET6) as other, pytest.raises(OSError, match="in use"):
            other.bind(("::1", port))


_FORM = "POST /open HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nContent-Length: 9\r\n\r\nof"


@pytest.mark.parametrize("half", ["GET / HTTP/1.1\r\nHost: ", _FORM], ids=["head", "form"])
async def test_half_open_connections_do_not_take_the_place_of_others(half: str):
    """250 of them wait with half a head or half a form: the page is served all the same, and the oldest are let go."""
    async with asyncio.timeout(60), desk() as page:
        host = page.running.origin.removeprefix("http://")
        with contextlib.ExitStack() as opened:
            address = ("127.0.0.1", int(host.rpartition(":")[2]))
            halves: list[socket.socket] = []
            for _ in range(25):
                halves += [opened.enter_context(socket.create_connection(address)) for _ in range(10)]
                for each in halves[-10:]:
                    each.sendall(half.format(host=host).encode())
                assert (await page.get("/")).status_code == 200
            halves[0].settimeout(30)
            with contextlib.suppress(ConnectionResetError):
                assert halves[0].recv(1) == b""


async def test_a_form_that_breaks_off_is_no_error(caplog: pytest.LogCaptureFixture):
    """Whoever reaches the page could otherwise fill the log."""
    async with asyncio.timeout(60), desk() as page:
        host = page.running.origin.removeprefix("http://")
        with socket.create_connection(("127.0.0.1", int(host.rpartition(":")[2]))) as visiting:
            visiting.sendall(_FORM.format(host=host).encode())
            assert (await page.get("/")).status_code == 200
        assert (await page.get("/")).status_code == 200
    assert not caplog.records


async def test_a_form_has_to_arrive_in_time(monkeypatch: pytest.MonkeyPatch):
    """A connection is not kept for a visitor who sends nothing more."""
    monkeypatch.setattr("antiphon.web.page_guards.BODY_SECONDS", 0.0)
    async with asyncio.timeout(60), desk() as page:
        host = page.running.origin.removeprefix("http://")
        reader, writer = await asyncio.open_connection("127.0.0.1", int(host.rpartition(":")[2]))
        writer.write(_FORM.format(host=host).encode())
        assert (await reader.readline()).startswith(b"HTTP/1.1 408 ")
        await reader.read()
        writer.close()


async def test_a_taken_port_is_said():
    """In one sentence."""
    async with running_page(MemoryStore()) as running:
        port = int(running.origin.rpartition(":")[2])
        with pytest.raises(ConfigError, match=f"cannot be served at 127.0.0.1:{port}"):
            async with running_page(MemoryStore(), port=port):
                pass


async def test_open_streams_end_with_the_page():
    """A browser that listens does not hold the end up."""
    async with asyncio.timeout(30), desk() as page, page.client.stream("GET", "/live") as stream:
        lines = stream.aiter_lines()
        await anext(lines)
        page.running.page.site.closing.set()
        async for _ in lines:
            pass
        assert stream.is_stream_consumed


async def test_a_permission_can_be_undone_for_as_long_as_is_configured():
    """Five seconds where nothing is said; what a caller says counts most."""
    for config, undo, seconds in (
        (None, None, 5.0),
        (Config(review=Reviewing(undo=2)), None, 2),
        (Config(review=Reviewing(undo=0)), None, 0),
        (Config(), 1.0, 1.0),
    ):
        async with running_page(MemoryStore(), config=config, undo=undo) as running:
            assert running.page.site.queue.undo_seconds == seconds


async def test_what_is_small_is_sent_at_once(monkeypatch: pytest.MonkeyPatch):
    """Nothing waits for the acknowledgement of what was sent before it, which takes 40 ms."""
    seen: list[int] = []
    made = BoundedConnection.connection_made

    def connected(self: BoundedConnection, transport: asyncio.Transport) -> None:
        seen.append(transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        made(self, transport)

    monkeypatch.setattr(BoundedConnection, "connection_made", connected)
    async with desk():
        assert seen
    assert all(seen)


def file_of(uri: str) -> Path:
    """Return the file that a browser was started with."""
    assert uri.startswith("file:///")
    return Path(url2pathname(urlsplit(uri).path))


def is_there(uri: str) -> bool:
    """Tell whether it was not removed yet."""
    return file_of(uri).exists()


def address_in(uri: str) -> str:
    """Return where it leads, if it is for this account alone."""
    assert stat.S_IMODE(file_of(uri).stat().st_mode) == 0o600
    [address] = re.findall('<a href="([^"]*)"', file_of(uri).read_text(encoding="utf-8"))
    return address


async def test_the_address_is_printed_and_another_one_opened(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """Both open the page, each once; the one that is opened stands in a file that is gone then, on no command line."""
    shown, opened = threading.Event(), list[str]()

    def show(url: str) -> bool:
        opened.append(url)
        shown.set()
        return True

    monkeypatch.setenv("BROWSER", "firefox")
    monkeypatch.setattr("webbrowser.open", show)
    async with serve_and_open_page(MemoryStore()) as running:
        printed = capsys.readouterr().err.split()[2]
        assert shown.wait(60)
        led = address_in(opened[0])
        assert {printed.partition("?")[0], led.partition("?")[0]} == {f"{running.origin}/open"}
        assert printed != led
        async with visitor() as client:
            assert (await client.get(printed)).status_code == 303
            assert is_there(opened[0])
            assert (await client.get(led)).status_code == 303
            assert not is_there(opened[0])
            client.cookies.clear()
            assert (await client.get(printed)).status_code == 403


async def test_a_file_that_no_browser_has_read_is_removed_in_the_end(monkeypatch: pytest.MonkeyPatch):
    """The page ends, and its addresses with it."""
    shown = asyncio.Queue[str]()
    loop = asyncio.get_running_loop()
    monkeypatch.setenv("BROWSER", "firefox")
    monkeypatch.setattr("webbrowser.open", lambda url: loop.call_soon_threadsafe(shown.put_nowait, url))
    async with serve_and_open_page(MemoryStore()):
        opened = await shown.get()
        assert is_there(opened)
    assert not is_there(opened)


async def test_a_browser_that_finds_no_file_of_ours_gets_the_address(monkeypatch: pytest.MonkeyPatch):
    """A browser of Windows, started from within its Linux."""
    shown = asyncio.Queue[str]()
    loop = asyncio.get_running_loop()
    monkeypatch.setenv("BROWSER", "firefox")
    monkeypatch.setattr("platform.release", lambda: "5.15.90.1-microsoft-standard-WSL2")
    monkeypatch.setattr("webbrowser.open", lambda url: loop.call_soon_threadsafe(shown.put_nowait, url))
    async with serve_and_open_page(MemoryStore()) as running:
        assert (await shown.get()).startswith(f"{running.origin}/open?token=")


async def test_no_browser_is_opened_where_none_is_wanted(monkeypatch: pytest.MonkeyPatch):
    """``browse=False``."""
    monkeypatch.setenv("BROWSER", "firefox")
    monkeypatch.setattr("webbrowser.open", lambda url: pytest.fail("opened"))
    async with serve_and_open_page(MemoryStore(), browse=False):
        pass


async def test_what_travels_unencrypted_is_said_where_others_can_reach_the_page(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """Before anybody opens it; on this machine alone there is nothing to say."""
    monkeypatch.setenv("BROWSER", "")
    async with serve_and_open_page(MemoryStore(), host="0.0.0.0", remote=True):
        said = capsys.readouterr().err
    assert "Not encrypted: this address, the session that it opens, all questions and all answers" in said
    async with serve_and_open_page(MemoryStore()):
        assert "Not encrypted" not in capsys.readouterr().err
