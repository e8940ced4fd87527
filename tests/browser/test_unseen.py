"""What is not in the page, or was not on the screen, is named on the button that would let it pass."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser

from antiphon.wire.tools import Tool
from tests.browser.test_consequences import models
from tests.browser.visits import WIDE, visit
from tests.web.pages import desk

pytestmark = pytest.mark.browser

NOTE = "#detail .approve [data-unseen]"


async def test_characters_that_were_not_loaded_are_named(chromium: Browser):
    """Also without a script; once they are loaded and were on the screen, nothing is named."""
    text = " ".join(f"word{n}" for n in range(7_000))
    async with desk() as page:
        question, _ = await page.asked(text=text)
        missing = f"{len(text) - 50_000:,}"
        async with visit(chromium, page) as seen:
            await seen.open(question.id)
            await seen.page.wait_for_function(f"() => document.querySelector('{NOTE}').textContent.includes('unseen')")
            left = int((await seen.page.inner_text(NOTE)).split()[0].replace(",", ""))
            assert left > len(text) - 50_000
            await seen.page.click(".turn [data-rest]")
            await seen.page.wait_for_selector(".turn [data-rest]", state="detached")
            await seen.page.evaluate(
                """async () => {
                    const text = document.querySelector("#detail pre.long");
                    text.scrollIntoView();
                    for (let at = 0; at <= text.scrollHeight; at += text.clientHeight / 2) {
                        text.scrollTop = at;
                        await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
                    }
                }"""
            )
            await seen.page.wait_for_function(f"() => document.querySelector('{NOTE}').textContent === ''")
        context = await chromium.new_context(java_script_enabled=False, viewport=WIDE, locale="en-GB")
        tab = await context.new_page()
        await tab.goto(page.running.address())
        await tab.goto(f"{page.running.origin}/review/{question.id}")
        assert f"{missing} characters unseen" in await tab.inner_text("#detail .approve")
        await context.close()


async def test_text_below_the_edge_is_named_until_it_was_seen(chromium: Browser):
    """On a phone as well; a short request names nothing."""
    async with desk() as page:
        short, _ = await page.asked(text="Short")
        long, _ = await page.asked(text="\n".join(f"Line {n}" for n in range(150)))
        async with visit(chromium, page, viewport={"width": 390, "height": 700}) as seen:
            for question, named in ((short, False), (long, True)):
                await seen.page.goto(f"{page.running.origin}/review/{question.id}")
                await seen.page.wait_for_selector("#detail .approve:not([aria-disabled])")
                assert ("unseen" in await seen.page.inner_text(NOTE)) == named
            for at in range(0, 6_000, 200):
                await seen.page.evaluate(
                    """at => {
                        scrollTo(0, at);
                        return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
                    }""",
                    at,
                )
            await seen.page.wait_for_function(f"() => document.querySelector('{NOTE}').textContent === ''")


async def test_a_part_that_is_folded_is_named_until_it_is_opened(chromium: Browser):
    """The description of a tool reaches the model: nobody has seen one that was folded before it was scrolled to."""
    tools = [Tool(name="look", input_schema={"type": "object"}, description="Orders. " * 50)]
    async with desk(provider=models()) as page:
        question, _ = await page.asked(text="\n".join(f"Line {n}" for n in range(150)), tools=tools)
        async with visit(chromium, page) as seen:
            await seen.open(question.id)
            fold = seen.page.locator("details:has(summary:has-text('look'))")
            await fold.evaluate("fold => { fold.open = false; fold.scrollIntoView(); }")
            await seen.page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
            before = int((await seen.page.inner_text(NOTE)).split()[0].replace(",", ""))
            await fold.evaluate("fold => { fold.open = true; fold.scrollIntoView(); }")
            await seen.page.wait_for_function(
                f"before => parseInt(document.querySelector('{NOTE}').textContent.replace(',', '')) < before - 300",
                arg=before,
            )


async def test_every_button_that_sends_a_text_names_what_was_not_seen(chromium: Browser):
    """Also the one that sends an edited request, and the one that allows its like."""
    async with desk(provider=models()) as page:
        question, _ = await page.asked(text="word " * 6_000)
        async with visit(chromium, page) as seen:
            await seen.open(question.id)
            further = seen.page.locator("#detail .further button [data-unseen]")
            assert [("unseen" in text) for text in await further.all_text_contents()] == [True]
            await seen.key("e")
            await seen.page.fill("[name=max_tokens]", "50")
            await seen.key("Control+Enter")
            await seen.page.wait_for_selector("#preview button [data-unseen] >> text=unseen")
            field = seen.page.locator("textarea[name=text-0-0]")
            await field.scroll_into_view_if_needed()
            for part in range(100):
                await field.evaluate("(each, part) => { each.scrollTop = each.scrollHeight * part / 100; }", part)
                await seen.page.evaluate("new Promise(requestAnimationFrame)")
            shown = await seen.page.text_content("#preview button [data-unseen]")
            assert int((shown or "0").split()[0].replace(",", "")) < 30_000
