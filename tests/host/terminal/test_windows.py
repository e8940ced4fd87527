"""Lines from the console of a Windows program, typed key by key."""

from __future__ import annotations

import asyncio
import ctypes
import io
from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest

from antiphon.host.review.review import NoReviewer
from antiphon.host.terminal import tty
from antiphon.host.terminal.console import Console
from antiphon.host.terminal.reviewer import TerminalReviewer
from antiphon.host.terminal.tty import EndOfInput, WindowsTty, find_terminal, open_terminal, reads_keys


class Keys:
    """A keyboard, as the module ``msvcrt`` reads one."""

    def __init__(self) -> None:
        self.typed: deque[str] = deque()
        self.empty = asyncio.Event()

    def kbhit(self) -> bool:
        """Return whether a key was pressed."""
        return bool(self.typed)

    def getwch(self) -> str:
        """Read a key."""
        key = self.typed.popleft()
        if not self.typed:
            self.empty.set()
        return key


@pytest.fixture
def keys() -> Keys:
    """Return a keyboard on which nothing was typed."""
    return Keys()


@pytest.fixture
def screen() -> io.StringIO:
    """Return what the console shows."""
    return io.StringIO()


async def test_lines_are_shown_as_they_are_typed(keys: Keys, screen: io.StringIO):
    """Backspace erases; keys that are no characters do nothing."""
    keys.typed.extend("heß\bllo\xe0H\x00;\x1b\r\b\byes\r")
    console = WindowsTty(keys, screen)
    assert [await console.read_line(), await console.read_line()] == ["hello", "yes"]
    assert screen.getvalue() == "heß\b \bllo\nyes\n"


async def test_a_cancelled_read_keeps_what_was_typed(keys: Keys, screen: io.StringIO):
    """The next read goes on with the same line."""
    console = WindowsTty(keys, screen)
    keys.typed.extend("la")
    reading = asyncio.create_task(console.read_line())
    await keys.empty.wait()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    keys.typed.extend("ter\r")
    assert await console.read_line() == "later"


async def test_typed_keys_can_be_discarded(keys: Keys, screen: io.StringIO):
    """Read ones, and waiting ones."""
    console = WindowsTty(keys, screen)
    keys.typed.extend("aaa\r")
    console.discard_typed()
    keys.typed.extend("d\r")
    assert await console.read_line() == "d"


async def test_ctrl_z_ends_the_input(keys: Keys, screen: io.StringIO):
    """On an empty line."""
    keys.typed.append("\x1a")
    with pytest.raises(EndOfInput):
        await WindowsTty(keys, screen).read_line()


async def test_a_person_is_asked_as_at_another_terminal(keys: Keys, screen: io.StringIO):
    """The conversation is the same."""
    keys.typed.extend("x\ra\r")
    console = Console(WindowsTty(keys, screen), color=False, pause=0.0)
    assert await console.choose({"a": "Approve"}) == "a"
    assert "[a] Approve" in screen.getvalue()


def test_the_console_is_found_where_a_person_can_type(monkeypatch: pytest.MonkeyPatch):
    """A program that was started with a pipe has none."""
    monkeypatch.setattr(tty.sys, "platform", "win32")
    for typing in (True, False):
        monkeypatch.setattr(tty.sys.stdin, "isatty", lambda typing=typing: typing)
        assert find_terminal() == ("CON" if typing else None)


@pytest.mark.parametrize(
    ("mode", "is_full"),
    [(0x01F7, False), (0x0003, False), (0x0200, True), (0x01F1, True), (0x0000, True), (None, False)],
)
def test_a_full_screen_program_is_noticed(mode: int | None, is_full: bool, monkeypatch: pytest.MonkeyPatch):
    """It reads keys, as Textual, curses and prompt_toolkit do, and is not disturbed."""

    def read_mode(handle: int, pointer: Any) -> int:
        assert handle == 7
        pointer._obj.value = mode or 0
        return int(mode is not None)

    kernel = SimpleNamespace(GetStdHandle={-10: 7}.__getitem__, GetConsoleMode=read_mode)
    monkeypatch.setattr(ctypes, "windll", SimpleNamespace(kernel32=kernel), raising=False)
    assert reads_keys("CON") == is_full
    monkeypatch.setattr(tty.sys, "platform", "win32")
    monkeypatch.setattr(tty.sys.stdin, "isatty", lambda: True)
    assert TerminalReviewer().obstacle == ("a full-screen program uses this terminal" if is_full else None)


def test_a_process_without_a_console_cannot_ask():
    """Here, there is none."""
    with pytest.raises(NoReviewer, match="the console cannot be opened"):
        open_terminal("CON")
