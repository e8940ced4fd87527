"""A person at the page: a browser that has opened it, and what is seen there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import APIResponse, Browser, Page, Route

from tests.browser.screen import Watch
from tests.web.pages import Desk

COMPLETE = "body[data-ready] #dialogs dialog, body:not([data-files])"
"""All of a page has come: its second script, and what the first view leaves out. The page of a sign-in has no more."""
ARMED = "#detail .bar .approve[data-key]:not([aria-disabled])"
WIDE = {"width": 1280, "height": 900}


class Visit:
    """One browser with the page open."""

    def __init__(self, page: Page, watch: Watch) -> None:
        self.page = page
        self.watch = watch

    async def key(self, key: str) -> None:
        """Press a key."""
        await self.page.keyboard.press(key)

    async def open(self, id: str) -> None:
        """Open a question of the queue, and wait until it can be approved."""
        await self.page.click(f"[data-row='{id}']")
        # Not the same one as the page may have shown by itself: that is dead as soon as another is on its way.
        await self.page.wait_for_selector(f"#detail[data-id='{id}']:not([inert])")
        await self.page.wait_for_selector(ARMED)

    async def said(self, text: str) -> None:
        """Wait until the page has said something."""
        await self.page.wait_for_function(
            "text => document.getElementById('said').textContent.includes(text)", arg=text
        )

    async def became(self, text: str) -> None:
        """Wait until the list of outcomes says something."""
        await self.page.wait_for_function(
            "text => document.getElementById('outcomes').textContent.replace(/\\s+/g, ' ').includes(text)", arg=text
        )

    async def count(self, number: int) -> None:
        """Wait until so many questions are in the queue."""
        await self.page.wait_for_selector(f"#queue[data-pending='{number}']")


async def fetched(route: Route) -> APIResponse:
    """Fetch what a browser asked for; Playwright itself does not find names under ``localhost``."""
    host = route.request.url.split("/")[2]
    url = route.request.url.replace(host, f"127.0.0.1:{host.rpartition(':')[2]}", 1)
    return await route.fetch(url=url, headers={**await route.request.all_headers(), "host": host})


@asynccontextmanager
async def visit(chromium: Browser, desk: Desk, **more: object) -> AsyncIterator[Visit]:
    """Open the page in a browser of its own; at the end, nothing may have happened that a page of ours does not do."""
    options = {"viewport": WIDE, "locale": "en-GB", **more}
    context = await chromium.new_context(**options)
    watch = Watch(context, desk.running.origin)
    page = await context.new_page()
    page.set_default_timeout(30_000)
    await page.goto(desk.running.address())
    # What a page does before is tested in test_slow_link.
    await page.wait_for_selector(COMPLETE, state="attached")
    yield Visit(page, watch)
    # Whoever holds an answer back at the end holds nothing else back.
    await page.unroute_all(behavior="ignoreErrors")
    await context.close()
    assert watch.faults == []
