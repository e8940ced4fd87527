"""The queue as a list to work on: filtered, sorted, several denied at once, with and without a script."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from playwright.async_api import Browser, Page, Route

from antiphon.errors import Rejected
from antiphon.host import Deny
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


async def test_only_the_rows_that_change_are_drawn(chromium: Browser):
    """What stays is the same row as before, with the focus; new ones and old ones go where they belong."""
    async with desk() as page, visit(chromium, page) as seen:
        (_, _, scarf), _ = await three(page)
        muff, _ = await page.asked(text="A muff")
        await seen.page.goto(f"{page.running.origin}/?wanted=f&order=newest")
        await seen.page.wait_for_selector("body[data-ready]")
        await seen.page.focus(f"[data-row='{scarf}']")
        await seen.page.evaluate("document.querySelectorAll('#rows li').forEach(row => { row.kept = true; })")
        gloves, _ = await page.asked(text="A pair of gloves")
        await page.asked(text="Nothing to see")
        await page.queue.decide(muff.id, Deny(), hash=muff.hash)
        await seen.page.wait_for_selector(f"[data-row='{gloves.id}']")
        await seen.page.wait_for_selector(f"[data-row='{muff.id}']", state="detached")
        await seen.count(5)
        assert await rows(seen.page) == [gloves.id, scarf]
        kept = await seen.page.eval_on_selector_all("#rows li", "rows => rows.map(row => row.kept === true)")
        assert kept == [False, True]
        assert await seen.page.evaluate("document.activeElement.dataset.row") == scarf
        assert await seen.page.inner_text("#queue-title") == "Waiting: 5"


async def test_a_tab_that_missed_too_much_fetches_the_whole_list(chromium: Browser):
    """Whatever became of the rows it had drawn; so does one of an earlier process."""
    async with desk() as page, visit(chromium, page) as seen:
        (hat, coat, scarf), _ = await three(page)
        await seen.count(3)
        await seen.page.evaluate("document.getElementById('queue').dataset.version = 'other-1'")
        await seen.page.evaluate(f"document.querySelector(\"li:has([data-row='{coat}'])\").remove()")
        gloves, _ = await page.asked(text="A pair of gloves")
        await seen.count(4)
        assert await rows(seen.page) == [hat, coat, scarf, gloves.id]


async def test_rows_that_do_not_fit_what_is_drawn_are_fetched_whole(chromium: Browser):
    """A row that should be there and is not: nothing is put beside it by guess."""
    async with desk() as page, visit(chromium, page) as seen:
        (hat, coat, scarf), _ = await three(page)
        await seen.count(3)
        group = (await page.queue.get(coat)).item.origin
        await seen.page.evaluate(f"document.querySelector(\"li:has([data-row='{coat}'])\").remove()")
        other, _ = await page.asked(text="Lining", who=msgspec.structs.replace(group, id="lining"))
        await seen.count(4)
        await seen.page.wait_for_selector(f"[data-row='{coat}']")
        assert sorted(await rows(seen.page)) == sorted([hat, coat, scarf, other.id])


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
        await seen.page.click("#sure .danger")
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
        async with asyncio.timeout(30):
            await asked.wait()
        await seen.key("z")
        await seen.key("z")
        await seen.said("newest first")
        # Whatever was asked for after the one that is held has arrived when this has.
        await seen.page.evaluate("fetch('/', { headers: { 'X-Part': 'queue' } }).then((answer) => answer.text())")
        async with seen.page.expect_event("requestfinished", lambda request: "order=" in request.url):
            release.set()
        await seen.page.evaluate("new Promise((drawn) => setTimeout(drawn, 100))")
        await seen.page.wait_for_selector(f"#rows li:first-child [data-row='{scarf}']")
        assert await rows(seen.page) == [scarf, coat, hat]


async def test_without_script_the_list_stays_as_it_was_sifted(chromium: Browser):
    """While a request is opened, edited and decided; then the next in that order is shown."""
    async with desk() as page:
        (hat, coat, scarf), _ = await three(page)
        muff, _ = await page.asked(text="A muff")
        context = await chromium.new_context(java_script_enabled=False, viewport=WIDE, locale="en-GB")
        tab = await context.new_page()
        await tab.goto(page.running.address())
        await tab.fill("#sift input", "f")
        await tab.select_option("#sift select", "newest")
        await tab.click("#sift button")
        await tab.click(f"[data-row='{muff.id}']")

        async def sifted() -> list[str | None]:
            assert await tab.input_value("#sift input") == "f"
            assert await tab.input_value("#sift select") == "newest"
            return [await row.get_attribute("data-row") for row in await tab.locator("[data-row]").all()]

        assert await sifted() == [muff.id, scarf]
        await tab.click("#detail [data-edit]")
        await tab.click("#detail .bar a")
        assert await sifted() == [muff.id, scarf]
        await tab.click("#detail .decide .danger")
        assert "Denied" in await tab.inner_text("#said")
        assert await tab.get_attribute("#detail", "data-id") == scarf
        assert await sifted() == [scarf]
        await tab.goto(f"{page.running.origin}/review/{scarf}?wanted=f&order=newest")
        await tab.click(".brand")
        assert await sifted() == [scarf]
        assert {hat, coat} <= {question.id for question in await page.queue.pending()}
        await context.close()
