"""Several requests at once: nothing is ticked for a person, and the button says what it lets pass."""

from __future__ import annotations

import asyncio

import pytest
from playwright.async_api import Browser

from antiphon.host.budget import DOLLAR
from tests.browser.test_consequences import models
from tests.browser.visits import Visit, visit
from tests.web.pages import Desk, desk

pytestmark = pytest.mark.browser

BUTTON = "form[data-together] button.primary"
ARMED_TOGETHER = f"{BUTTON}:not([aria-disabled])"


async def opened(seen: Visit, id: str) -> None:
    """Open the page of all that are like one request."""
    await seen.open(id)
    await seen.page.click(".more > summary")
    await seen.page.click("text=Approve several similar ones")
    await seen.page.wait_for_selector(ARMED_TOGETHER)


async def described(page: Desk, number: int, text: str = "Describe") -> list[tuple[str, asyncio.Task[object]]]:
    """Let a server ask for so many descriptions."""
    asked = [await page.asked(text=f"{text} {n}") for n in range(number)]
    return [(question.id, task) for question, task in asked]


async def test_alike_are_approved_together(chromium: Browser):
    """Two of three that are ticked are approved; the third, and one of another kind, still wait."""
    async with desk() as page:
        alike = await described(page, 3)
        other, waiting = await page.asked(text="Describe 3", system_prompt="Be rude")
        async with visit(chromium, page) as seen:
            await opened(seen, alike[0][0])
            assert await seen.page.locator("input[name=id]").count() == 3
            assert await seen.page.locator("input[name=id]:checked").count() == 0
            await seen.page.click(BUTTON)
            await seen.page.wait_for_selector(".problem >> text=Nothing is ticked")
            for id, _ in alike[:2]:
                await seen.page.check(f"input[value='{id}']")
            await seen.page.click(BUTTON)
            await seen.said("together")
        await asyncio.gather(*(task for _, task in alike[:2]))
        assert not waiting.done()
        assert {question.id for question in await page.queue.pending()} == {alike[2][0], other.id}


async def test_the_button_names_number_cost_models_and_unseen_text(chromium: Browser):
    """The cost is the sum of what will be reserved for those that are ticked."""
    async with desk(provider=models()) as page:
        alike = await described(page, 2)
        await page.asked(text="word " * 4_000)
        reserved = sum(balance.held.money for balance in await page.store.balances() if balance.key == "total")
        async with visit(chromium, page) as seen:
            await opened(seen, alike[0][0])
            costs = await seen.page.eval_on_selector_all("input[name=id]", "all => all.map(one => +one.dataset.most)")
            assert sum(costs) == reserved
            for id, _ in alike:
                await seen.page.check(f"input[value='{id}']")
            said = await seen.page.inner_text(BUTTON)
            assert "Approve 2" in said and "plain" in said and "unseen" not in said
            shown = float(said.partition("at most $")[2].split()[0])
            assert 0 <= shown - sum(costs[:2]) / DOLLAR < 0.00001
            await seen.page.locator("input[name=id]").nth(2).check()
            await seen.page.wait_for_function(f"() => document.querySelector('{BUTTON}').innerText.includes('unseen')")
            assert "Approve 3" in await seen.page.inner_text(BUTTON)


async def test_all_that_were_on_the_screen_are_ticked(chromium: Browser):
    """Those further below are ticked once they were scrolled to, and not before."""
    async with desk() as page:
        alike = await described(page, 8, "Describe this one, please. " * 20)
        async with visit(chromium, page) as seen:
            await opened(seen, alike[0][0])
            await seen.page.click("[data-tick-seen]")
            ticked = await seen.page.locator("input[name=id]:checked").count()
            assert 0 < ticked < 8
            for number in range(8):
                await seen.page.locator("fieldset").nth(number).scroll_into_view_if_needed()
                await seen.page.evaluate(
                    "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
                )
            await seen.page.click("[data-tick-seen]")
            assert await seen.page.locator("input[name=id]:checked").count() == 8


async def test_several_are_taken_back_as_one_is(chromium: Browser):
    """All wait again, and their entry is gone."""
    async with desk(undo=60) as page:
        alike = await described(page, 3)
        async with visit(chromium, page) as seen:
            await opened(seen, alike[0][0])
            await seen.page.click("[data-tick-seen]")
            await seen.page.click(BUTTON)
            await seen.page.wait_for_selector("#outcomes li >> text=3 requests")
            await seen.page.keyboard.press("u")
            await seen.said("Taken back")
            await seen.count(3)
            await seen.page.wait_for_selector("#outcomes", state="hidden")
        assert not any(task.done() for _, task in alike)


async def test_the_outcomes_of_several_are_a_list(chromium: Browser):
    """What became of each is said beside its own words: one was handed over, one came too late."""
    async with desk() as page:
        asked = [await page.asked(text=f"Describe {n}") for n in range(2)]
        async with visit(chromium, page) as seen:
            await opened(seen, asked[0][0].id)
            await seen.page.click("[data-tick-seen]")
            await seen.page.click(BUTTON)
            await asyncio.gather(*(task for _, task in asked))
            for (question, _), why in zip(asked, (None, "closed"), strict=True):
                await page.host.handed_over(question.item.origin, why)
            await seen.page.click("#outcomes summary")
            await seen.page.wait_for_selector("#outcomes li li:has-text('Describe 0') >> text=Handed over")
            await seen.page.wait_for_selector("#outcomes li li:has-text('Describe 1') >> text=Too late")
