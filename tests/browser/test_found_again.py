"""What was sent, to which model, at which cost: found by keyboard; and the page of each server."""

from __future__ import annotations

import time

import pytest
from playwright.async_api import Browser

from antiphon.host.review.review import Approve, digest
from tests.browser.test_reach import faults
from tests.browser.visits import visit
from tests.web.pages import desk

pytestmark = pytest.mark.browser


async def test_what_was_sent_yesterday_is_found_in_one_key(chromium: Browser):
    """Each request with its model and cost, and the sums by model; nothing of it is typed."""
    async with desk() as page:
        question, task = await page.asked()
        await page.queue.decide(question.id, Approve(digest=digest(question.item.params)), hash=question.hash)
        await task
        page.running.page.site.clock = lambda: time.time() + 86_400
        async with visit(chromium, page) as seen:
            await seen.page.wait_for_selector("body[data-ready]")
            await seen.key("y")
            await seen.page.wait_for_selector(".past tbody tr")
            assert "scripted" in await seen.page.inner_text(".past tbody")
            assert "scripted 1 requests $0.00" in (await seen.page.inner_text(".sums")).replace("\n", " ")
            export = await seen.page.get_attribute("a[href^='/history/audit.csv']", "href")
            assert "since=" in (export or "")
            assert await faults(seen.page) == []


@pytest.mark.parametrize("width", [390, 1440])
async def test_a_server_is_blocked_on_its_own_page(chromium: Browser, width: int):
    """The request leads to it; the button says how many requests it refuses, and the block can be lifted there."""
    async with desk() as page:
        question, _ = await page.asked()
        async with visit(chromium, page, viewport={"width": width, "height": 900}) as seen:
            await seen.page.wait_for_selector("body[data-ready]")
            await seen.page.click(f"[data-row='{question.id}']")
            await seen.page.click(".rail a[href^='/servers/']")
            await seen.page.wait_for_selector("text=Block the server, and refuse 1 that wait")
            assert await faults(seen.page) == []
            await seen.page.click("text=Block the server, and refuse 1 that wait")
            await seen.page.wait_for_selector("button:has-text('Unblock')")
            assert await page.queue.pending() == []
            await seen.page.click("button:has-text('Unblock')")
            await seen.page.wait_for_selector("button:has-text('Block the server')")
