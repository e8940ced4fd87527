"""The price on the page follows the model that a person chooses, and is the sum that is reserved."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, expect

from antiphon.host import MemoryStore
from antiphon.host.budget import DOLLAR, Budget, Cap, format_dollars
from antiphon.host.providers.base import Usage
from antiphon.host.review.review import most_of
from antiphon.host.store.base import Change
from tests.browser.test_consequences import models
from tests.browser.visits import visit
from tests.host.asks import request
from tests.host.test_pipeline_money import Metered, choose
from tests.web.pages import desk

pytestmark = pytest.mark.browser


async def test_the_price_follows_the_model(chromium: Browser):
    """Wherever it stands: on the button, beside it, in the head, in the list of costs."""
    async with desk(provider=models(), undo=60) as page:
        question, _ = await page.asked()
        cheap, dear = (format_dollars(most_of(question.item, name)) for name in ("plain", "clever"))
        async with visit(chromium, page) as seen:
            await seen.open(question.id)
            prices = seen.page.locator("#detail [data-price]:visible")
            assert set(await prices.all_inner_texts()) == {cheap}
            assert "<span" not in await seen.page.text_content("#detail")
            assert f"plain\n{cheap}" in await seen.page.inner_text("#detail .approve")
            await seen.page.select_option("[data-models]", "clever")
            assert set(await prices.all_inner_texts()) == {dear}
            assert f"clever\n{dear}" in await seen.page.inner_text("#detail .approve")
            await seen.page.keyboard.press("Escape")
            await seen.page.click("#detail .approve")
            await seen.page.wait_for_selector("#undo")
    assert cheap != dear


async def test_the_price_is_reserved(chromium: Browser):
    """What the button says for the chosen model is held on the account while the model answers."""
    store = MemoryStore()
    async with desk(provider=models(), store=store) as page:
        question, task = await page.asked(text="Describe a sweater")
        held: list[int] = []
        committing = store.commit

        async def commit(change: Change) -> str | None:
            held.extend([] if change.hold is None else [change.hold.amount.money])
            return await committing(change)

        store.commit = commit
        async with visit(chromium, page) as seen:
            await seen.open(question.id)
            await seen.page.select_option("[data-models]", "clever")
            await seen.page.click("#detail .approve")
            await task
        assert held == [most_of(question.item, "clever")]


async def test_an_edited_request_shows_what_it_costs(chromium: Browser):
    """A longer text for a dearer model: the sum stands on the button that sends it."""
    async with desk(provider=models()) as page:
        question, _ = await page.asked(text="Describe a sweater")
        async with visit(chromium, page) as seen:
            await seen.open(question.id)
            await seen.page.keyboard.press("e")
            await seen.page.select_option("form[data-preview] select[name=model]", "clever")
            await seen.page.fill("textarea[name=text-0-0]", "Describe a sweater " * 100)
            await seen.page.click("[data-preview] button.primary")
            said = await seen.page.inner_text("#preview button.primary")
            assert "clever" in said
            shown = float(said.partition("at most $")[2].split()[0]) * 1e9
            assert shown > most_of(question.item, "clever")


async def test_the_total_of_several_is_written_as_everywhere(chromium: Browser):
    """The browser adds up what is ticked; it rounds and writes the sum as the host does."""
    sums = [0, 1, 123, 185_250, 999_999, 9_999_999, 10_000_000, 999_999_999, DOLLAR, 12_345_600_001, 1_234_567_891_234]
    async with desk() as page, visit(chromium, page) as seen:
        written = await seen.page.evaluate(
            "async (sums) => { const { money } = await import('/static/consent/alike.js'); return sums.map(money); }",
            sums,
        )
    assert written == [format_dollars(each) for each in sums]


async def test_the_head_shows_the_budget(chromium: Browser):
    """Of the budgets of all servers the head shows the one of which the least is left, as it is at any moment."""
    budget = Budget(day=Cap(money=10 * DOLLAR), total=Cap(money=DOLLAR))
    words = {
        "en-GB": ("{} of $1.00 in total", "$0.00 of $10.00 today"),
        "zh-CN": ("总计：{}，共 $1.00", "今日：$0.00，共 $10.00"),
    }
    for locale, (reserved, settled) in words.items():
        async with desk(provider=models(), budget=budget) as page:
            question, task = await page.asked()
            async with visit(chromium, page, locale=locale) as seen:
                head = seen.page.locator("#budget")
                await expect(head).to_have_text(reserved.format(format_dollars(most_of(question.item, "plain"))))
                assert await seen.page.locator("#budget meter").evaluate("meter => 0 < meter.value && meter.value < 1")
                await seen.page.click("#detail .approve:not([aria-disabled])")
                await task
                # An echo costs nothing, so that the reservation is all that there was.
                await expect(head).to_have_text(settled)
                await head.click()
                await seen.page.wait_for_selector(".budgets")


async def test_the_head_follows_what_a_host_spends_by_itself(chromium: Browser):
    """Nothing is asked of anybody: the sum in the head of each tab is another one all the same."""
    provider = Metered(Usage(input_tokens=7_000_000, output_tokens=5_000_000))
    async with (
        desk(provider=provider, choose=choose) as page,
        visit(chromium, page) as one,
        visit(chromium, page) as two,
    ):
        for seen in (one, two):
            await expect(seen.page.locator("#count")).to_be_attached()
            await expect(seen.page.locator("#budget")).to_be_hidden()
        await page.host.complete(request())
        for seen in (one, two):
            await expect(seen.page.locator("#budget")).to_have_text("$0.012 of $10.00 today")
            assert await seen.page.locator("#budget meter").evaluate("meter => meter.value") == pytest.approx(0.0012)


async def test_the_head_is_silent_without_a_budget(chromium: Browser):
    """Where nothing limits what is spent, the head has no sum."""
    async with desk(provider=models(), budget=Budget(day=Cap())) as page:
        await page.asked()
        async with visit(chromium, page) as seen:
            await seen.count(1)
            await seen.page.wait_for_selector("#count:not([hidden])")
            assert await seen.page.locator("#budget").is_hidden()
