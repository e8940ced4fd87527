"""Presses, letters and texts that were meant for something else: none decides anything, and nothing typed is lost."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import pytest
from playwright.async_api import Browser, Route, expect

from antiphon.host.review.review import Deny
from tests.browser.test_cousins import UNSEEN, scroll_to_the_end
from tests.browser.test_shared_store import opened
from tests.browser.test_two_tabs import banner
from tests.browser.visits import ARMED, COMPLETE, WIDE, visit
from tests.web.pages import desk

pytestmark = pytest.mark.browser

PRESS_AGAIN = """id => new MutationObserver((_, watch) => {
    const button = document.querySelector(`#detail[data-id='${id}']:not([inert]) .deny button`);
    if (!button) return;
    watch.disconnect();
    button.click();
    document.body.dataset.pressed = "1";
}).observe(document.getElementById("view"), { childList: true, subtree: true })"""
"""Presses the button for refusal of a request in the moment in which it is drawn, as a double click may."""
BLOCK_STORAGE = (
    "Object.defineProperty(window, 'localStorage', { get() { throw new DOMException('blocked', 'SecurityError'); } });"
)


async def test_the_second_press_of_a_double_click_refuses_nothing(chromium: Browser):
    """The next request lies under the pointer by then. The button works once it could be seen."""
    async with desk() as page, visit(chromium, page) as seen:
        first, _ = await page.asked(text="First")
        second, _ = await page.asked(text="Second")
        await seen.open(first.id)
        await seen.page.evaluate(PRESS_AGAIN, second.id)
        await seen.page.click("#detail .deny button")
        await seen.page.wait_for_selector(f"body[data-pressed] #detail[data-id='{second.id}']")
        await seen.page.wait_for_selector("#detail .deny button:not([aria-disabled])")
        assert (await page.queue.get(second.id)).state == "pending"
        await seen.page.click("#detail .deny button")
        await seen.count(0)


@pytest.mark.parametrize(("key", "field"), [("r", "[name=reason]"), ("e", "textarea[name=text-0-0]")])
async def test_a_field_stays_while_somebody_types_and_who_asked_goes(
    chromium: Browser, tmp_path: Path, key: str, field: str
):
    """The page says that nobody waits any more; what is typed on is text, and no key that approves."""
    file = tmp_path / "host.db"
    async with opened(file) as store, desk(store=store) as page, visit(chromium, page) as seen:
        first, _ = await page.asked(text="First")
        row = await store.review(first.id)
        assert row is not None
        async with opened(file) as other:
            await other.put_review(msgspec.structs.replace(row, id="left", fingerprint="left", host=other.host))
            await seen.count(2)
            await seen.open("left")
            await seen.key(key)
            typed = seen.page.locator(f"#detail {field}:focus")
            await typed.fill("not ")
        await store.recover()
        await seen.page.wait_for_selector("#detail[data-id='left'] [data-nobody]")
        await seen.page.wait_for_selector("[data-row='left']:has-text('nobody waits now')")
        await seen.key("a")
        await expect(typed).to_have_value("not a")
        assert (await page.queue.get("left")).state == "pending"


async def test_letters_that_are_typed_on_when_a_field_goes_are_no_keys(chromium: Browser):
    """It is decided elsewhere in the middle of a word: its letters lead nowhere until there is a pause."""
    async with desk() as page, visit(chromium, page) as seen:
        fetched: list[str] = []
        seen.page.on("request", lambda sent: fetched.append(urlsplit(sent.url).path))
        await seen.page.clock.install()
        await seen.page.goto(page.running.origin)
        question, _ = await page.asked(text="First")
        await seen.open(question.id)
        await seen.key("r")
        await seen.page.wait_for_selector("#detail [name=reason]:focus")
        await seen.page.clock.pause_at(await seen.page.evaluate("Date.now() / 1000 + 1"))
        await seen.key("n")
        await page.queue.decide(question.id, Deny(), hash=question.hash, by="Bob")
        await banner(seen).to_contain_text("By Bob.")
        await expect(seen.page.locator("#detail h1")).to_be_focused()
        await seen.key("h")
        await seen.page.clock.run_for(500)
        await seen.page.clock.run_for(1000)
        await seen.key("G")
        await seen.page.clock.resume()
        await seen.page.wait_for_url("**/grants")
        assert "/history" not in fetched


async def test_a_preview_that_is_not_what_is_typed_cannot_be_sent(chromium: Browser):
    """It goes with the first letter, and what is sent is the text that is seen."""
    async with desk() as page, visit(chromium, page) as seen:
        question, task = await page.asked(text="First")
        await seen.open(question.id)
        await seen.key("e")
        text = seen.page.locator("[data-editing] textarea[name=text-0-0]")
        for words in ("One", "Two"):
            await text.fill(words)
            await expect(seen.page.locator("#preview button")).to_have_count(0)
            await seen.key("Control+Enter")
            await seen.page.wait_for_selector("#preview button:not([aria-disabled])")
        await seen.page.click("#preview button")
        await task
        assert page.host.provider.requests[-1].messages[0].content.text == "Two"


async def test_a_text_that_could_not_be_kept_is_kept_once_the_page_is_back(chromium: Browser):
    """Without another letter; the page says no more that it is lost, and reads aloud that something was asked."""
    async with desk() as page, visit(chromium, page) as seen:
        question, _ = await page.asked(text="First")
        await seen.open(question.id)
        await seen.key("w")
        await seen.page.route("**/draft", lambda route: route.abort())
        await seen.page.fill("#detail [name=text]", "Half of an answer")
        await seen.page.wait_for_selector("#banner:not([hidden])")
        await seen.page.unroute("**/draft")
        async with seen.page.expect_response("**/draft"):
            await page.asked(text="Second")
        await expect(seen.page.locator("#banner")).to_be_hidden()
        await expect(seen.page.get_by_role("status").filter(has_text="A server asks")).to_have_text(
            "A server asks for something. (2)"
        )
        assert await page.queue.draft(question.id) == [("answer:text", "Half of an answer")]


async def test_a_browser_that_keeps_nothing_shows_what_is_asked(chromium: Browser):
    """Where storage is blocked nobody can be notified, and the page goes on."""
    async with desk() as page:
        context = await chromium.new_context(viewport=WIDE, locale="en-GB")
        await context.add_init_script(BLOCK_STORAGE)
        tab = await context.new_page()
        await tab.goto(page.running.address())
        await tab.wait_for_selector(COMPLETE, state="attached")
        await page.asked()
        await tab.wait_for_selector(ARMED)
        await context.close()


async def test_a_low_window_shows_what_is_asked(chromium: Browser):
    """A screen of 1280 by 900 that is enlarged four times: whoever leafs through the text has seen all of it."""
    async with desk() as page, visit(chromium, page, viewport={"width": 320, "height": 225}) as seen:
        question, _ = await page.asked(text="Describe a sweater. " * 60)
        await seen.page.goto(f"{page.running.origin}/review/{question.id}")
        await seen.page.wait_for_selector(ARMED)
        unseen = seen.page.locator(UNSEEN)
        await expect(unseen).to_contain_text("characters unseen")
        await scroll_to_the_end(seen.page)
        await expect(unseen).to_have_text("")


@pytest.mark.parametrize("status", [0, 503])
async def test_no_text_that_could_not_be_kept_is_forgotten_for_another(chromium: Browser, status: int):
    """Neither without a connection nor while the store fails: what was typed about each request is kept later."""

    async def refuse(route: Route) -> None:
        await (route.fulfill(status=status, body="{}", content_type="application/json") if status else route.abort())

    async with desk() as page, visit(chromium, page) as seen:
        first, _ = await page.asked(text="First")
        second, _ = await page.asked(text="Second")
        await seen.count(2)
        await seen.page.route("**/draft", refuse)
        for question in (first, second):
            await seen.open(question.id)
            await seen.key("w")
            async with seen.page.expect_request(f"**/{question.id}/draft"):
                await seen.page.fill("#detail [name=text]", f"About {question.id}")
            await seen.page.wait_for_selector("#banner:not([hidden])")
        await seen.page.unroute("**/draft")
        async with (
            seen.page.expect_response(f"**/{first.id}/draft"),
            seen.page.expect_response(f"**/{second.id}/draft"),
        ):
            await page.asked(text="Third")
        for question in (first, second):
            assert await page.queue.draft(question.id) == [("answer:text", f"About {question.id}")]
