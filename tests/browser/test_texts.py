"""Texts on the page: copied as they are shown, and read to their end where they are very long."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser

from antiphon.host import MemoryStore
from antiphon.wire.elicitation import ElicitRequestParams
from tests.browser.test_shown import elicited, shown
from tests.browser.visits import WIDE, Visit, visit
from tests.host.asks import says
from tests.web.pages import desk

pytestmark = pytest.mark.browser

HIDDEN = "Describe\u202e a sweater\n\tin wool"
SEEN = "Describe\u27e6U+202E\u27e7 a sweater\n    in wool"
CLIPBOARD = "navigator.clipboard.readText()"
REFUSED = "() => { navigator.clipboard.writeText = () => Promise.reject(new Error('not allowed')); }"

COPIED = """async ([wanted, whole]) => {
    const is = (text) => whole ? text === wanted : text.includes(wanted);
    while (!is(await navigator.clipboard.readText())) await new Promise((done) => setTimeout(done, 50));
}"""


async def copied(seen: Visit, text: str, *, whole: bool = True) -> None:
    """Wait until a text, or one with it in it, is what was copied last."""
    await seen.page.evaluate(COPIED, [text, whole])


async def test_each_text_is_copied_as_it_is_shown(chromium: Browser):
    """The system prompt, a message, and the raw data: with our marks, as nobody sees what they stand for."""
    async with desk() as page, visit(chromium, page, permissions=["clipboard-read", "clipboard-write"]) as seen:
        question, _ = await page.asked(messages=[says(HIDDEN)], system_prompt="Be brief")
        await seen.open(question.id)
        await seen.page.click("button[aria-label='Copy: System prompt']")
        await seen.said("Copied.")
        assert await seen.page.evaluate(CLIPBOARD) == "Be brief"
        await seen.page.focus(".turn button.copy")
        await seen.key("Enter")
        await copied(seen, SEEN)
        assert await seen.page.evaluate("document.activeElement.className") == "copy"
        await seen.page.click(".raw summary")
        await seen.page.click(".raw button.copy")
        await copied(seen, "maxTokens", whole=False)


async def test_where_copying_is_not_allowed_the_text_is_selected(chromium: Browser):
    """And the page says what is left to do; an address to visit can be copied like any other text."""
    url = "https://pay.example.com/" + "a" * 200
    async with desk() as page, visit(chromium, page) as seen:
        id, _ = await elicited(page, ElicitRequestParams.visit("Pay?", url))
        await shown(seen, id)
        await seen.page.evaluate(REFUSED)
        await seen.page.click(".address button.copy")
        await seen.said("The text is selected")
        assert await seen.page.evaluate("String(getSelection())") == url


async def test_without_script_there_is_no_button_that_does_nothing(chromium: Browser):
    """Nor one that a template had made."""
    async with desk() as page:
        question, _ = await page.asked(system_prompt="Be brief")
        context = await chromium.new_context(java_script_enabled=False, viewport=WIDE, locale="en-GB")
        tab = await context.new_page()
        await tab.goto(page.running.address())
        await tab.goto(f"{page.running.origin}/review/{question.id}")
        assert await tab.locator("[data-copy]").count() >= 3
        assert await tab.locator(".copy").count() == 0
        await context.close()


async def test_an_answer_and_the_address_of_its_record_are_copied(chromium: Browser):
    """In the history, where the contents are kept."""
    store = MemoryStore(keep_content=True)
    options = {"permissions": ["clipboard-read", "clipboard-write"]}
    async with desk(store=store, keep_content=True) as page, visit(chromium, page, **options) as seen:
        question, task = await page.asked()
        await seen.open(question.id)
        await seen.key("a")
        assert (await task).text == "ok"
        await seen.page.goto(f"{page.running.origin}/history")
        await seen.page.click("td.at a")
        await seen.page.click("section:has(#answer-title) button.copy")
        await seen.said("Copied.")
        assert await seen.page.evaluate(CLIPBOARD) == "ok"
        await seen.page.click("button[aria-label='Copy: Address']")
        await copied(seen, seen.page.url)


async def test_a_very_long_text_is_read_to_its_end_where_it_stands(chromium: Browser):
    """By keyboard, piece after piece; then there is no button any more."""
    text = "".join(f"word {at} " for at in range(12_000))
    async with desk() as page, visit(chromium, page) as seen:
        question, _ = await page.asked(text=text)
        await seen.open(question.id)
        length = "document.querySelector('.turn pre').textContent.length"
        assert 0 < await seen.page.evaluate(length) < len(text)
        await seen.page.focus(".turn [data-rest]")
        while await seen.page.locator(".turn [data-rest]").count():
            before = await seen.page.evaluate(length)
            await seen.key("Enter")
            await seen.page.wait_for_function(f"before => {length} > before", arg=before)
            await seen.page.wait_for_function("() => document.activeElement.matches('.turn [data-rest], .turn pre')")
        assert await seen.page.text_content(".turn pre") == text
