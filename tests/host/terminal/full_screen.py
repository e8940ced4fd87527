"""A program for the tests that need a full screen: a host answers an ask while the screen is in use, and one after it.

Usage: full_screen.py KIND FILE. KIND is "curses", "initscr" (curses that waits for lines), "raw" (no library) or
"textual". The file gets the outcome of the first ask; that of the second is printed.
"""

from __future__ import annotations

import asyncio
import curses
import sys
import termios
import tty
from pathlib import Path

from antiphon.errors import PeerError
from antiphon.host import Host
from antiphon.host.terminal import TerminalReviewer
from tests.host.asks import origin, request


async def ask(host: Host) -> str:
    """Return what comes of one ask."""
    try:
        return (await host(request("Describe a sweater"), origin())).content.text
    except PeerError as error:
        return error.message


async def ask_in_textual(host: Host) -> str:
    """Ask within an application of Textual."""
    from textual.app import App

    class Asking(App[str]):
        async def on_ready(self) -> None:
            self.exit(await ask(host))

    return await Asking().run_async() or ""


def ask_in_curses(host: Host, *, keys: bool) -> str:
    """Ask within curses, which reads ``keys``, or lines."""
    screen = curses.initscr()
    if keys:
        curses.cbreak()
    screen.addstr(0, 0, "the program's own screen")
    screen.refresh()
    try:
        return asyncio.run(ask(host))
    finally:
        curses.endwin()


def ask_in_raw_mode(host: Host) -> str:
    """Ask while every key is read as it is."""
    before = termios.tcgetattr(0)
    tty.setraw(0)
    try:
        return asyncio.run(ask(host))
    finally:
        termios.tcsetattr(0, termios.TCSANOW, before)


def main(kind: str, file: str) -> None:
    """Ask on the full screen, then without it."""
    host = Host("echo", reviewer=TerminalReviewer(pause=0.0, color=False, undo=0.0))
    screens = {
        "curses": lambda: ask_in_curses(host, keys=True),
        "initscr": lambda: ask_in_curses(host, keys=False),
        "raw": lambda: ask_in_raw_mode(host),
        "textual": lambda: asyncio.run(ask_in_textual(host)),
    }
    Path(file).write_text(screens[kind]())
    print("RESULT", asyncio.run(ask(host)))


if __name__ == "__main__":
    main(*sys.argv[1:])
