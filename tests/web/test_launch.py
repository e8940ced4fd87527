"""Opening the page: its address is printed, and a browser is started only where somebody sees it."""

from __future__ import annotations

import threading

import pytest

from antiphon.host import MemoryStore
from antiphon.web.launch import has_browser, opened_page
from tests.web.pages import visitor


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
    """Both open the page, each once."""
    shown, opened = threading.Event(), list[str]()

    def show(url: str) -> bool:
        opened.append(url)
        shown.set()
        return True

    monkeypatch.setenv("BROWSER", "firefox")
    monkeypatch.setattr("webbrowser.open", show)
    async with opened_page(MemoryStore()) as running:
        printed = capsys.readouterr().err.split()[2]
        assert shown.wait(5)
        assert {printed.partition("?")[0], opened[0].partition("?")[0]} == {f"{running.origin}/open"}
        assert printed != opened[0]
        async with visitor() as client:
            assert [(await client.get(url)).status_code for url in (printed, opened[0])] == [303, 303]
            client.cookies.clear()
            assert (await client.get(printed)).status_code == 403


async def test_no_browser_is_opened_where_none_is_wanted(monkeypatch: pytest.MonkeyPatch):
    """``browse=False``."""
    monkeypatch.setenv("BROWSER", "firefox")
    monkeypatch.setattr("webbrowser.open", lambda url: pytest.fail("opened"))
    async with opened_page(MemoryStore(), browse=False):
        pass
