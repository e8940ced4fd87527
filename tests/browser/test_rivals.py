"""Two answers beside one another, in a real browser."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser

from tests.browser.test_reach import faults
from tests.browser.visits import visit
from tests.host.test_pipeline_models import Provider
from tests.web.pages import desk

pytestmark = pytest.mark.browser

WIDE, NARROW = {"width": 1440, "height": 900}, {"width": 390, "height": 844}


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
async def test_one_of_two_answers_is_chosen(chromium: Browser, size):
    """Beside one another, or one below the other on a phone; the second is sent by its key."""
    async with desk(provider=Provider()) as page:
        question, task = await page.asked()
        async with visit(chromium, page, viewport=size) as seen:
            await seen.open(question.id)
            await seen.page.click(".more > summary")
            await seen.page.click("text=Compare two models")
            await seen.page.click("text=Ask both")
            await seen.said("Approved")
            # Another than the one that was approved, which leaves the list in its own time.
            answers = f"#queue[data-pending='1'] [data-row]:not([data-row='{question.id}'])"
            await seen.page.wait_for_selector(answers, state="attached")
            both = (await page.queue.pending())[0]
            await seen.page.goto(f"{page.running.origin}/review/{both.id}")
            await seen.page.wait_for_selector(".beside >> text=dear 2")
            first, second = [
                await each.bounding_box() for each in await seen.page.query_selector_all(".beside > section")
            ]
            if size is WIDE:
                assert first["y"] == second["y"]
                assert first["x"] + first["width"] <= second["x"]
            else:
                assert first["x"] == second["x"]
                assert first["y"] + first["height"] <= second["y"]
            assert await seen.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            assert await faults(seen.page) == []
            page.passes(1)
            await seen.page.wait_for_selector("#detail [data-key='2']:not([aria-disabled])")
            await seen.page.keyboard.press("2")
            assert (await task).text == "dear 2"
