"""The demonstration in the browser, from the first command on: a real process, a real terminal, a real page."""

from __future__ import annotations

import asyncio
import re
import shlex
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pexpect
import pytest
from playwright.async_api import Browser, Page

from tests.browser.visits import ARMED, WIDE
from tests.cli.program import ROOT, environment
from tests.support.network import until

pytestmark = pytest.mark.browser

# The packages are there: otherwise make would install them again whenever pyproject.toml has changed.
MAKE = "make -o .venv/.made demo"


class Newcomer:
    """Somebody at a terminal with a browser; counts what they do."""

    def __init__(self, page: Page, folder: Path) -> None:
        self.page = page
        self.actions = 0
        self._opened = folder / "opened"
        self._env = environment(BROWSER=f"{_browser(folder)} %s", XDG_STATE_HOME=str(folder), NO_COLOR="1")

    def types(self, command: str) -> pexpect.spawn[str]:
        """Start a command, as it was typed."""
        self.actions += 1
        program, *words = shlex.split(command)
        return pexpect.spawn(
            program, words, cwd=str(ROOT), env=self._env, encoding="utf-8", timeout=60, dimensions=(50, 160)
        )

    async def sees_the_page(self) -> None:
        """Wait for the browser that opens by itself."""
        await until(lambda: self._opened.exists() and self._opened.read_text().strip(), seconds=100.0)
        await self.page.goto(self._opened.read_text().strip())

    async def clicks(self, selector: str) -> None:
        """Click something, as soon as it can be."""
        await self.page.wait_for_selector(selector)
        self.actions += 1
        await self.page.click(selector)


def _browser(folder: Path) -> Path:
    """Make a program that stands for the user's browser: it writes down what it is to show."""
    program = folder / "browser.sh"
    program.write_text(f'#!/bin/sh\necho "$1" > {folder / "opened"}\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


@asynccontextmanager
async def newcomer(chromium: Browser, folder: Path) -> AsyncIterator[Newcomer]:
    """Sit down."""
    context = await chromium.new_context(viewport=WIDE, locale="en-GB")
    page = await context.new_page()
    page.set_default_timeout(30_000)
    yield Newcomer(page, folder)
    await context.close()


async def line(child: pexpect.spawn[str], pattern: str) -> re.Match[str]:
    """Wait until the terminal shows something."""
    await asyncio.to_thread(child.expect, pattern)
    assert isinstance(child.match, re.Match)
    return child.match


async def test_from_make_demo_to_the_first_approval_in_three_actions(chromium: Browser, tmp_path: Path):
    """Run it, run what it names, click approve: the server has its description."""
    async with newcomer(chromium, tmp_path) as person:
        first = person.types(f'{MAKE} ARGS="--no-messages"')
        named = (await line(first, r"Decide yourself, in the browser: ([\w./-]+ demo --web)"))[1]
        await asyncio.to_thread(first.wait)
        assert first.exitstatus == 0
        second = person.types(f"{named} --no-messages")
        await person.sees_the_page()
        await person.clicks("#detail .decide .primary:not([aria-disabled])")
        await line(second, "answered by echo")
        await line(second, r"stored +P-1001")
        assert person.actions <= 3
        second.sendintr()
        await asyncio.to_thread(second.expect, pexpect.EOF)
        second.close()
        assert second.exitstatus == 130


async def test_products_arrive_and_decisions_travel_back(chromium: Browser, tmp_path: Path):
    """``make demo ARGS=--web``: three products queue up; two are approved, one denied, and two are described."""
    async with newcomer(chromium, tmp_path) as person:
        run = person.types(f'{MAKE} ARGS="--web --interval 0.01 --no-messages"')
        await person.sees_the_page()
        page = person.page
        await page.wait_for_selector("#queue[data-pending='3']")
        await page.wait_for_selector(ARMED)
        for key, left in (("a", 2), ("d", 1), ("a", 0)):
            decided = await page.get_attribute("#detail", "data-id")
            await page.keyboard.press(key)
            await page.wait_for_selector(f"#queue[data-pending='{left}']")
            if left:
                # Not the one that was just decided, which may be shown until its answer has come.
                await page.wait_for_selector(f"#detail[data-id]:not([data-id='{decided}'])")
                await page.wait_for_selector(ARMED)
        await line(run, "2 of 3 new products are described and stored")
        await line(run, "History and spending stay on the page until Ctrl-C")
        await page.click("nav >> text=History")
        await page.wait_for_selector("table.past")
        while await page.locator("[data-behind]").count():
            await page.reload()
        await page.wait_for_selector("td .ending.refused")
        assert await page.locator("td .ending.answered").count() == 2
        run.sendintr()
        await asyncio.to_thread(run.expect, pexpect.EOF)
        await page.wait_for_selector("#banner >> text=connection is lost")
