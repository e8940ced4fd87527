"""Opening the page: its address is printed, and a browser is started only where somebody sees it."""

from __future__ import annotations

import asyncio
import re
import stat
import threading
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest

from antiphon.host import MemoryStore
from antiphon.web.launch import has_browser, opened_page
from tests.web.pages import visitor


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


@pytest.mark.parametrize(
    ("environ", "platform", "has"),
    [
        ({}, "darwin", True),
        ({}, "win32", True),
        ({}, "linux", False),
        ({"DISPLAY": ":0"}, "linux", True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", True),
        ({"DISPLAY": ":0", "SSH_CONNECTION": "192.0.2.1 1 192.0.2.2 22"}, "linux", False),
        ({"SSH_CONNECTION": "192.0.2.1 1 192.0.2.2 22"}, "darwin", False),
        ({"CI": "true", "DISPLAY": ":0"}, "linux", False),
        ({"BROWSER": "firefox"}, "linux", True),
        ({"BROWSER": "", "DISPLAY": ":0"}, "linux", False),
    ],
)
def test_a_browser_is_opened_where_somebody_sits(environ: dict[str, str], platform: str, has: bool):
    """Not over SSH, not without a display; ``BROWSER`` has the last word."""
    assert has_browser(environ, platform) is has


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
    async with opened_page(MemoryStore()) as running:
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
    async with opened_page(MemoryStore()):
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
    async with opened_page(MemoryStore()) as running:
        assert (await shown.get()).startswith(f"{running.origin}/open?token=")


async def test_no_browser_is_opened_where_none_is_wanted(monkeypatch: pytest.MonkeyPatch):
    """``browse=False``."""
    monkeypatch.setenv("BROWSER", "firefox")
    monkeypatch.setattr("webbrowser.open", lambda url: pytest.fail("opened"))
    async with opened_page(MemoryStore(), browse=False):
        pass


async def test_what_travels_unencrypted_is_said_where_others_can_reach_the_page(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """Before anybody opens it; on this machine alone there is nothing to say."""
    monkeypatch.setenv("BROWSER", "")
    async with opened_page(MemoryStore(), host="0.0.0.0", remote=True):
        said = capsys.readouterr().err
    assert "Not encrypted: this address, the session that it opens, all questions and all answers" in said
    async with opened_page(MemoryStore()):
        assert "Not encrypted" not in capsys.readouterr().err
