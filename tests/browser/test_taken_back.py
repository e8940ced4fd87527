"""What can be taken back and what is kept: a permission for a moment, a draft for as long as its request waits."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser

from antiphon.wire.tools import Tool
from tests.browser.test_consequences import models
from tests.browser.test_cousins import called
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


async def test_all_that_was_chosen_is_in_the_draft(chromium: Browser):
    """Several choices of an argument, and none of them; the model of an edited request."""
    tags = {"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}}
    tool = Tool(name="send", input_schema={"type": "object", "properties": {"tags": tags}})
    chosen = "[...document.querySelector('[data-editing] select').selectedOptions].map((one) => one.value)"
    async with desk(provider=models()) as page:
        call = await called(page, tool)
        question, _ = await page.asked()
        async with visit(chromium, page) as seen:
            for id, picked in ((call, ["a", "c"]), (call, []), (question.id, ["clever"])):
                await seen.open(id)
                await seen.key("e")
                await seen.page.wait_for_selector("[data-editing] select")
                async with seen.page.expect_response("**/draft"):
                    await seen.page.select_option("[data-editing] select", picked)
                await seen.key("Escape")
                await seen.page.click("#detail [data-edit]")
                await seen.page.wait_for_selector("[data-editing] >> text=This is your draft")
                assert await seen.page.evaluate(chosen) == picked
                await seen.key("Escape")
                await seen.page.wait_for_selector("#detail:not([data-editing])")
            assert await seen.page.evaluate("document.querySelector('#detail')?.dataset.id") == question.id
