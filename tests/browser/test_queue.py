"""The queue as a list to work on: filtered, sorted, several denied at once, with and without a script."""

from __future__ import annotations

import asyncio

import pytest
from playwright.async_api import Browser, Page, Route

from antiphon.errors import Rejected
from tests.browser.visits import WIDE, visit
from tests.web.pages import Desk, desk

pytestmark = pytest.mark.browser


async def rows(tab: Page) -> list[str]:
    """Read which questions the list shows, in its order."""
    return await tab.eval_on_selector_all("[data-row]", "rows => rows.map(row => row.dataset.row)")


async def three(page: Desk) -> tuple[list[str], list[asyncio.Task]]:
    """Let three requests wait."""
    asked = [await page.asked(text=text) for text in ("A hat", "A coat", "A scarf")]
    return [question.id for question, _ in asked], [task for _, task in asked]


async def test_the_queue_is_filtered_and_sorted_by_keyboard(chromium: Browser):
    """What is typed narrows the list at once, and both hold while something new arrives and one moves on."""
    async with desk() as page, visit(chromium, page) as seen:
        (hat, coat, scarf), _ = await three(page)
        await seen.open(hat)
        for _ in range(3):
            await seen.key("z")
        await seen.said("newest first")
        await seen.page.wait_for_selector(f"#rows li:first-child [data-row='{scarf}']")
        assert await rows(seen.page) == [scarf, coat, hat]
        await seen.key("/")
        await seen.page.keyboard.type("COAT")
        await seen.page.wait_for_selector(f"[data-row='{hat}']", state="detached")
        assert await rows(seen.page) == [coat]
        other, _ = await page.asked(text="Another coat")
        await seen.count(4)
        assert await rows(seen.page) == [other.id, coat]
        # Whoever types goes on typing: nothing of the list takes the focus or the text away.
        assert await seen.page.input_value("#sift input") == "COAT"
        assert await seen.page.evaluate("document.activeElement.name") == "wanted"
        await seen.key("Escape")
        await seen.key("h")
        await seen.page.wait_for_selector(".top nav [href='/history'][aria-current]")
        await seen.page.click(".brand")
        await seen.count(4)
        assert await rows(seen.page) == [other.id, coat]
        assert await seen.page.input_value("#sift input") == "COAT"


async def test_several_are_denied_by_keyboard_with_one_reason(chromium: Browser):
    """What was selected stays so while something new arrives; then the first that is left is shown."""
    async with desk() as page, visit(chromium, page) as seen:
        (hat, coat, scarf), tasks = await three(page)
        await seen.open(hat)
        await seen.key("D")
        await seen.said("Nothing is selected")
        await seen.key("v")
        await seen.page.check(f"li:has([data-row='{coat}']) input")
        await page.asked(text="Another")
        await seen.count(4)
        assert await seen.page.locator("#rows input:checked").count() == 2
        await seen.page.fill("#several input[name=reason]", "not today")
        await seen.page.focus(f"[data-row='{hat}']")
        await seen.key("D")
        await seen.said("The selected requests were denied")
        await seen.page.wait_for_selector(f"#detail[data-id='{scarf}']")
        await seen.count(2)
        for task in tasks[:2]:
            with pytest.raises(Rejected) as denied:
                await task
            assert denied.value.__notes__ == ["denied: not today"]
        assert await seen.page.is_hidden(".several")


async def test_the_queue_is_filtered_and_several_denied_without_script(chromium: Browser):
    """By the same fields and buttons."""
    async with desk() as page:
        (hat, coat, scarf), tasks = await three(page)
        context = await chromium.new_context(java_script_enabled=False, viewport=WIDE, locale="en-GB")
        tab = await context.new_page()
        await tab.goto(page.running.address())
        await tab.fill("#sift input", "a coat")
        await tab.click("#sift button")
        assert [await row.get_attribute("data-row") for row in await tab.locator("[data-row]").all()] == [coat]
        await tab.fill("#sift input", "")
        await tab.select_option("#sift select", "newest")
        await tab.click("#sift button")
        shown = [await row.get_attribute("data-row") for row in await tab.locator("[data-row]").all()]
        assert shown == [scarf, coat, hat]
        for id in (hat, coat):
            await tab.check(f"li:has([data-row='{id}']) input")
        await tab.fill("#several input[name=reason]", "none of these")
        await tab.click("#several button")
        assert "were denied" in await tab.inner_text("#said")
        await asyncio.wait(tasks[:2])
        assert [task.exception().__notes__ for task in tasks[:2]] == [["denied: none of these"]] * 2
        assert [question.id for question in await page.queue.pending()] == [scarf]
        await context.close()


async def test_an_older_list_never_replaces_a_newer_one(chromium: Browser):
    """The list is sorted again while the one before is still on its way: what is asked for last is what stays shown."""
    async with desk() as page, visit(chromium, page) as seen:
        (hat, coat, scarf), _ = await three(page)
        await seen.open(hat)
        asked, release = asyncio.Event(), asyncio.Event()

        async def held(route: Route) -> None:
            if "order=" in route.request.url and not asked.is_set():
                asked.set()
                await release.wait()
            await route.continue_()

        await seen.page.route("**/*", held)
        await seen.key("z")
        await asked.wait()
        await seen.key("z")
        await seen.key("z")
        await seen.said("newest first")
        # Whatever was asked for after the one that is held has arrived when this has.
        await seen.page.evaluate("fetch('/', { headers: { 'X-Part': 'queue' } }).then((answer) => answer.text())")
        async with seen.page.expect_response(lambda answer: "order=" in answer.url) as late:
            release.set()
        await (await late.value).finished()
        await seen.page.evaluate("new Promise((drawn) => setTimeout(drawn, 100))")
        await seen.page.wait_for_selector(f"#rows li:first-child [data-row='{scarf}']")
        assert await rows(seen.page) == [scarf, coat, hat]
        await seen.page.unroute_all(behavior="ignoreErrors")
