"""Asking again from the history, in a real browser."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser

from antiphon.host import Host, Scripted
from antiphon.host.review.review import Approve, digest
from antiphon.host.store.ask_rows import Sought
from tests.browser.test_partials import Slow
from tests.browser.test_reach import faults
from tests.browser.visits import visit
from tests.web.pages import Desk, desk

pytestmark = pytest.mark.browser


async def answered(page: Desk) -> int:
    """Let a server ask and be answered. Returns the number of the record."""
    question, task = await page.asked(text="Describe a sweater")
    await page.queue.decide(question.id, Approve(digest=digest(question.item.params)), hash=question.hash)
    await task
    await page.store.gather()
    return (await page.store.asks(Sought(limit=1))).rows[0].seq


@pytest.mark.parametrize(
    "size", [{"width": 1280, "height": 900}, {"width": 390, "height": 844}], ids=["wide", "narrow"]
)
async def test_a_record_is_asked_again(chromium: Browser, size):
    """From its page, edited first; the answer appears by itself, and nothing is wider than the screen."""
    async with desk(provider=Scripted(["first", "A warm hat."]), keep_content=True, asks=True) as page:
        seq = await answered(page)
        async with visit(chromium, page, viewport=size) as seen:
            await seen.page.goto(f"{page.running.origin}/history/{seq}")
            await seen.page.click("text=Ask again")
            await seen.page.wait_for_selector("h1:has-text('Ask again')")
            assert await faults(seen.page) == []
            await seen.page.fill("textarea[name=text-0-0]", "Describe a hat")
            await seen.page.click("text=Send to the model")
            await seen.page.wait_for_selector(".answer >> text=A warm hat.")
            assert "The answer goes to nobody else." in await seen.page.inner_text("#view")
            assert await faults(seen.page) == []
            assert await seen.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            await seen.page.click("dd a[href^='/history/']")
            await seen.page.wait_for_selector("text=asked on the review page")


async def test_the_answer_is_seen_to_grow_and_can_be_stopped(chromium: Browser):
    """As any; nothing is left of it then."""
    provider = Slow()
    async with desk(provider=Scripted(["first"]), keep_content=True) as page:
        seq = await answered(page)
        page.running.page.site.own.asker = Host(provider, store=page.store, reviewer=None)
        async with visit(chromium, page) as seen:
            await seen.page.goto(f"{page.running.origin}/history/{seq}/again")
            await seen.page.wait_for_selector("body[data-ready]")
            await seen.page.click("text=Send to the model")
            await seen.page.wait_for_selector("text=slow is answering")
            (await provider.growth).add("A warm hat, with a feather of the finest kind ")
            await seen.page.wait_for_selector("#partials >> text=A warm hat")
            await seen.page.click("text=Stop waiting")
            await seen.page.wait_for_selector("text=You stopped waiting.")
            await seen.page.wait_for_selector("#partials", state="hidden")
