"""The recording and the pictures of docs/how-to/gateway.md: from a host's own file to a request on the page, for real.

``python -m tests.browser.recording docs/images`` (``make screenshots``) writes ``gateway.cast``, which ``asciinema
play`` shows, ``gateway-call.png`` and ``gateway-request.png``. The host is played by our client: it starts what the
file says, and calls a tool; the model is a vendor on loopback.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.async_api import Browser

from antiphon import Client
from tests.browser.screen import browser
from tests.browser.visits import ARMED
from tests.cli.program import COMMAND, environment
from tests.support.network import until
from tests.support.vendors import openai
from tests.support.vendors.site import Site, pouring, serving

SHOP = '''from antiphon import Context, Server

server = Server("shop")


@server.tool
async def slogan(product: str, ctx: Context) -> str:
    """Write a slogan for a product."""
    return (await ctx.sample(f"A slogan for {product}, in one line", max_tokens=60)).text


if __name__ == "__main__":
    server.run()
'''
HOME = "~"
VIEW = {"width": 1280, "height": 720}
KEY = 0.04
"""Seconds between two letters that are typed."""


class Recording:
    """A terminal as asciinema keeps one (version 2): a header, then what was written when."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._now = 0.0
        header = {"version": 2, "width": 110, "height": 30, "title": "From a host's file to a request on the page"}
        self._lines = [json.dumps(header)]

    def wrote(self, text: str, after: float = 0.0) -> None:
        """Add what was written, so many seconds after what was before it."""
        self._now += after
        self._lines.append(json.dumps([round(self._now, 3), "o", text], ensure_ascii=False))

    def says(self, text: str) -> None:
        """Add a remark."""
        self.wrote(f"\x1b[2m# {text}\x1b[0m\r\n", 0.6)

    async def runs(self, command: str) -> None:
        """Type a command, run it, and add what it prints."""
        self.wrote("$ ", 0.6)
        for letter in command:
            self.wrote(letter, KEY)
        self.wrote("\r\n", 0.3)
        words = command.split()
        program = [*COMMAND, *words[1:]] if words[0] == "antiphon" else words
        began = time.monotonic()
        done = await asyncio.to_thread(self._ran, [word.replace("~", str(self._folder)) for word in program])
        self.wrote(self.shown(done).replace("\n", "\r\n"), time.monotonic() - began)

    def _ran(self, words: list[str]) -> str:
        done = subprocess.run(words, env=home(self._folder), capture_output=True, text=True, timeout=60, check=True)
        return done.stdout

    def shown(self, text: str) -> str:
        """Leave out what is of this machine."""
        beside = str(Path(sys.executable).with_name("antiphon"))
        return (
            text.replace(beside, f"{HOME}/.local/bin/antiphon")
            .replace(sys.executable, "python")
            .replace(str(self._folder), HOME)
        )

    def write(self, file: Path) -> None:
        """Write the file."""
        file.write_text("\n".join([*self._lines, ""]), encoding="utf-8")


def home(folder: Path) -> dict[str, str]:
    """Return the environment of somebody whose browser notes what it is to open."""
    state, browsing = str(folder / ".local" / "state"), f"{folder / 'browser'} %s"
    return environment(
        HOME=str(folder), XDG_STATE_HOME=state, XDG_CONFIG_HOME=str(folder / ".config"), BROWSER=browsing
    )


async def journey(chromium: Browser, folder: Path, images: Path) -> None:
    """Go the whole way, and write what was seen."""
    host = folder / ".cursor" / "mcp.json"
    host.parent.mkdir()
    (folder / "shop.py").write_text(SHOP, encoding="utf-8")
    host.write_text(json.dumps({"mcpServers": {"shop": entry(folder)}}, indent=2) + "\n", encoding="utf-8")
    opened = folder / "opened"
    (folder / "browser").write_text(f'#!/bin/sh\ncp "${{1#file://}}" {opened}.new && mv {opened}.new {opened}\n')
    (folder / "browser").chmod(0o700)

    made = Recording(folder)
    await made.runs("cat ~/.cursor/mcp.json")
    await made.runs("antiphon install cursor")
    await made.runs("cat ~/.cursor/mcp.json")
    began = time.monotonic()
    made.says("In Cursor, started anew: the model calls shop__slogan. A browser opens with the review page.")
    installed = json.loads(host.read_text(encoding="utf-8"))["mcpServers"]["antiphon"]
    starts = {"command": installed["command"], "args": installed["args"]}
    async with (
        serving(openai, pouring(*openai.stream("Tea time, ", "all the time."))) as vendor,
        Client({**starts, "env": {**home(folder), **reaching(vendor)}}, revision="2025-11-25") as cursor,
    ):
        call = asyncio.create_task(cursor.call_tool("shop__slogan", {"product": "a tea pot"}))
        await until(opened.exists)
        page = await chromium.new_page(viewport=VIEW, locale="en-GB", reduced_motion="reduce")
        found = re.search(r"http://[^\s\"'<>]+", opened.read_text(encoding="utf-8"))
        assert found
        await page.goto(found[0])
        await page.wait_for_selector(ARMED)
        await page.wait_for_timeout(600)
        await page.screenshot(path=images / "gateway-call.png")
        await page.keyboard.press("a")
        await page.wait_for_selector("#detail[data-kind=request]")
        await page.wait_for_selector(ARMED)
        await page.wait_for_timeout(600)
        await page.screenshot(path=images / "gateway-request.png")
        made.wrote("", time.monotonic() - began)
        made.says("The call is allowed there. Then the server asks for a completion: that is on the page, too.")
        await made.runs("antiphon review")
        await page.keyboard.press("a")
        result: Any = await call
        made.says(f"It is approved, and Cursor has the answer: {result.text}")
        await page.close()
    await made.runs("antiphon uninstall cursor")
    made.write(images / "gateway.cast")


def entry(folder: Path) -> dict[str, Any]:
    """Write a server as the host has it."""
    return {"command": sys.executable, "args": [str(folder / "shop.py")]}


def reaching(vendor: Site) -> dict[str, str]:
    """Return the variables with which a gateway finds this vendor's usual model."""
    return {"OPENAI_BASE_URL": f"{vendor.url}/v1", "OPENAI_API_KEY": "sk-loopback"}


async def main(images: Path) -> None:
    """Write both into a folder."""
    with tempfile.TemporaryDirectory() as scratch:
        async with browser() as chromium:
            await journey(chromium, Path(scratch), images)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
