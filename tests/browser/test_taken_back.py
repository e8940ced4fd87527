"""What can be taken back and what is kept: a permission for a moment, a draft for as long as its request waits."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser

from tests.browser.visits import WIDE, visit
from tests.web.pages import desk

pytestmark = pytest.mark.browser


async def test_a_permission_is_taken_back(chromium: Browser):
    """By its key: the request waits again, on the screen, and nothing was sent."""
    async with desk(undo=60) as page:
        question, task = await page.asked()
        async with visit(chromium, page) as seen:
            await seen.open(question.id)
            await seen.page.keyboard.press("a")
            await seen.page.wait_for_selector("#undo:not([hidden]) >> text=Approved")
            await seen.page.keyboard.press("u")
            await seen.said("Taken back")
            await seen.page.wait_for_selector(f"#detail[data-id='{question.id}'][data-state=pending]")
            await seen.page.wait_for_selector("#undo", state="detached")
        assert (await page.queue.get(question.id)).state == "pending"
        assert not task.done()


async def test_a_permission_is_taken_back_without_script(chromium: Browser):
    """By the button beside what was said."""
    async with desk(undo=60) as page:
        question, task = await page.asked()
        context = await chromium.new_context(java_script_enabled=False, viewport=WIDE, locale="en-GB")
        tab = await context.new_page()
        await tab.goto(page.running.address())
        await tab.goto(f"{page.running.origin}/review/{question.id}")
        page.passes(1)
        await tab.click("#detail .decide .primary")
        await tab.click("#undo button")
        assert await tab.get_attribute("#detail", "data-state") == "pending"
        assert not task.done()
        await context.close()


async def test_a_draft_survives_another_request_and_a_reload(chromium: Browser):
    """What was typed is there again, until it is thrown away."""
    async with desk() as page:
        question, _ = await page.asked(text="Describe a sweater", system_prompt="Be brief")
        other, _ = await page.asked(text="Other")
        async with visit(chromium, page) as seen:
            await seen.open(question.id)
            await seen.page.keyboard.press("e")
            async with seen.page.expect_response(lambda answer: answer.url.endswith("/draft")):
                await seen.page.fill("textarea[name=text-0-0]", "Describe a scarf")
            await seen.open(other.id)
            await seen.open(question.id)
            await seen.page.keyboard.press("e")
            await seen.page.wait_for_selector("[data-editing]")
            assert await seen.page.input_value("textarea[name=text-0-0]") == "Describe a scarf"
            await seen.page.goto(f"{page.running.origin}/review/{question.id}/edit")
            assert await seen.page.input_value("textarea[name=text-0-0]") == "Describe a scarf"
            assert await seen.page.input_value("textarea[name=system]") == "Be brief"
            await seen.page.click("text=Start over")
            await seen.page.wait_for_selector("textarea[name=text-0-0] >> text=Describe a sweater")
