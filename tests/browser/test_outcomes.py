"""What was decided last stands in a list: each with its request, its outcome and the way back."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser

from antiphon.errors import Rejected
from tests.browser.visits import visit
from tests.web.pages import desk

pytestmark = pytest.mark.browser


async def test_an_outcome_stays_with_its_own_request(chromium: Browser):
    """One is approved, another denied; when the first is handed over, the second is still only denied."""
    async with desk() as page:
        first, one = await page.asked(text="First")
        second, two = await page.asked(text="Second")
        async with visit(chromium, page) as seen:
            await seen.open(first.id)
            await seen.key("a")
            await seen.said("First Approved.")
            await one
            await seen.open(second.id)
            await seen.key("d")
            await seen.said("Second Denied.")
            with pytest.raises(Rejected):
                await two
            await page.host.handed_over(first.item.origin, None)
            await seen.page.wait_for_selector("#outcomes li:has-text('First') >> text=Approved. Handed over")
            assert await seen.page.text_content("#said") == "Second Denied."
            assert "Handed over" not in await seen.page.inner_text("#outcomes li:has-text('Second')")
            assert "Denied." in await seen.page.inner_text("#outcomes li:has-text('Second')")


async def test_five_outcomes_are_kept_and_survive_a_reload(chromium: Browser):
    """The newest first; the sixth pushes the first out."""
    async with desk() as page:
        asked = [await page.asked(text=f"Number {n}") for n in range(6)]
        async with visit(chromium, page) as seen:
            for question, _ in asked:
                await seen.open(question.id)
                await seen.key("d")
                await seen.page.wait_for_selector(f"#outcomes li[data-of='{question.id}']")
            await seen.page.reload()
            told = await seen.page.locator("#outcomes ol > li q").all_inner_texts()
            assert [each.strip("“”") for each in told] == [f"Number {n}" for n in (5, 4, 3, 2, 1)]
        for _, task in asked:
            with pytest.raises(Rejected):
                await task


async def test_an_older_decision_can_be_taken_back_after_a_newer_one(chromium: Browser):
    """Each has a button of its own."""
    async with desk(undo=60) as page:
        first, one = await page.asked(text="First")
        second, two = await page.asked(text="Second")
        async with visit(chromium, page) as seen:
            for question in (first, second):
                await seen.open(question.id)
                await seen.key("a")
                await seen.page.wait_for_selector(f"#outcomes li[data-of='{question.id}'] button")
            await seen.page.click(f"#outcomes li[data-of='{first.id}'] button")
            await seen.said("Taken back")
            await seen.page.wait_for_selector(f"#detail[data-id='{first.id}'][data-state=pending]")
            assert (await page.queue.get(second.id)).state == "held"
        assert not one.done()
        assert not two.done()


@pytest.mark.parametrize("size", [(1280, 900), (390, 800)])
async def test_nothing_moves_when_an_outcome_arrives(chromium: Browser, size: tuple[int, int]):
    """The button for approval is at the same place before and after, and for the next request."""
    async with desk(undo=60) as page:
        first, _ = await page.asked(text="First")
        second, _ = await page.asked(text="Second " * 300)
        async with visit(chromium, page, viewport={"width": size[0], "height": size[1]}) as seen:
            await seen.page.goto(f"{page.running.origin}/review/{first.id}")
            await seen.page.wait_for_selector("#detail .approve:not([aria-disabled])")
            before = await seen.page.locator("#detail .approve").bounding_box()
            await seen.key("a")
            await seen.page.wait_for_selector("#undo button")
            await seen.page.wait_for_selector(f"#detail[data-id='{second.id}'] .approve:not([aria-disabled])")
            after = await seen.page.locator("#detail .approve").bounding_box()
            assert before == after


async def test_an_outcome_hides_neither_a_change_nor_a_lost_connection(chromium: Browser):
    """On a wide screen it stands beside what will be sent; on a phone a lost connection lies over it."""
    async with desk(undo=60) as page, visit(chromium, page, viewport={"width": 1440, "height": 700}) as seen:
        first, _ = await page.asked(text="Describe a sweater in many words. " * 20)
        second, _ = await page.asked(text="Describe a scarf in many words. " * 20)
        await seen.open(first.id)
        await seen.key("a")
        await seen.page.wait_for_selector("#undo form")
        assert await seen.page.evaluate("said.scrollWidth <= said.clientWidth && said.innerText.endsWith('Approved.')")
        await seen.open(second.id)
        await seen.key("e")
        await seen.page.wait_for_selector("[data-editing]")
        await seen.page.keyboard.type("Please ")
        await seen.key("Control+Enter")
        await seen.page.wait_for_selector("#preview .diff")
        diff = await seen.page.locator("#preview .diff").bounding_box()
        outcome = await seen.page.locator("#outcomes").bounding_box()
        assert diff["x"] + diff["width"] <= outcome["x"]
        await seen.page.set_viewport_size({"width": 390, "height": 780})
        await seen.page.route("**/*", lambda route: route.abort())
        await seen.page.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))")
        box = await seen.page.locator("#banner:not([hidden])").bounding_box()
        on_top = "([x, y]) => document.elementFromPoint(x, y).id"
        assert await seen.page.evaluate(on_top, [box["x"] + 8, box["y"] + box["height"] - 4]) == "banner"
