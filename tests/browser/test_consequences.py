"""Decisions that reach further than one request, and what a person can choose beside yes and no."""

from __future__ import annotations

import asyncio
from decimal import Decimal

import pytest
from playwright.async_api import Browser

from antiphon.errors import Rejected
from antiphon.host.budget import Budget, Cap
from antiphon.host.model_catalogue import Model, ModelCatalogue, ModelPrice
from antiphon.host.models.models import Models
from antiphon.wire.sampling import ModelPreferences
from tests.browser.visits import ARMED, visit
from tests.host.asks import origin, request
from tests.web.pages import desk

pytestmark = pytest.mark.browser


def models() -> Models:
    """Make two models, one dear and one slow."""
    made = [
        Model(
            name=name,
            provider="echo",
            model=name,
            context=100_000,
            inputs=("text",),
            tools=True,
            speed=speed,
            intelligence=mind,
            price=ModelPrice(input=Decimal(price), output=Decimal(price)),
        )
        for name, speed, mind, price in (("plain", 1, 1, 1), ("clever", 5, 5, 20))
    ]
    return Models(ModelCatalogue(tuple(made)), {})


async def test_a_whole_call_is_stopped(chromium: Browser):
    """The one that is looked at is refused, and whatever else its call asks; another call is not."""
    async with desk() as page:
        question, first = await page.asked(text="First")
        async with visit(chromium, page) as seen:
            await seen.open(question.id)
            await seen.page.keyboard.press("r")
            await seen.page.click("button >> text=Stop the whole call")
            await seen.page.click("#sure .danger")
            await seen.said("Denied")
        with pytest.raises(Rejected):
            await first
        with pytest.raises(Rejected):
            await page.host(request("Second"), origin("2"))
        _, other = await page.asked(text="Third", who=origin("3", call="call-2"))
        assert not other.done()


async def test_a_server_is_blocked_and_unblocked(chromium: Browser):
    """Everything it asks is refused, until the block is lifted on the page of grants."""
    async with desk() as page:
        question, first = await page.asked()
        async with visit(chromium, page) as seen:
            await seen.open(question.id)
            await seen.page.keyboard.press("r")
            await seen.page.keyboard.type("never again")
            await seen.page.click("button >> text=Block the server")
            await seen.page.click("#sure .danger")
            await seen.said("Denied")
            with pytest.raises(Rejected):
                await first
            with pytest.raises(Rejected):
                await page.host(request(), origin("2", call="call-2"))
            await seen.page.click("nav >> text=Grants")
            await seen.page.click("text=Unblock")
            await seen.said("Unblocked")
        _, again = await page.asked(who=origin("3", call="call-3"))
        assert not again.done()


async def test_another_model_is_chosen(chromium: Browser):
    """The table says why which model, the bar what it costs at most; the person's choice is what answers."""
    budget = Budget(call=Cap(money=500_000_000))
    async with desk(provider=models(), budget=budget) as page:
        wishes = ModelPreferences(intelligence_priority=1.0)
        question, task = await page.asked(max_tokens=1_000, model_preferences=wishes)
        async with visit(chromium, page) as seen:
            await seen.open(question.id)
            assert "clever" in await seen.page.inner_text("#model .winner")
            assert "$0.50 left to spend" in await seen.page.inner_text(".facts-line")
            amounts = await seen.page.locator("#model .facts dd strong").all_inner_texts()
            low, likely, worst, left = (float(amount.removeprefix("$")) for amount in amounts)
            assert low < likely < worst < left == 0.5
            await seen.page.select_option("#detail [data-models]", "plain")
            await seen.page.keyboard.press("Tab")
            await seen.page.click("#detail .decide .primary")
            await seen.said("Approved")
        await task
        assert [record.model for record in page.host.audit.records() if record.step == "settled"] == ["plain"]


async def test_an_edited_request_goes_to_another_model(chromium: Browser):
    """Chosen in the form that edits it, and kept through the preview."""
    async with desk(provider=models()) as page:
        question, task = await page.asked()
        async with visit(chromium, page) as seen:
            await seen.open(question.id)
            await seen.page.keyboard.press("e")
            await seen.page.select_option("[data-preview] select[name=model]", "clever")
            await seen.page.fill("input[name=max_tokens]", "50")
            await seen.page.click("[data-preview] button.primary")
            await seen.page.click("#preview [data-arming]:not([aria-disabled])")
            await seen.said("approved")
        await task
        assert [record.model for record in page.host.audit.records() if record.step == "settled"] == ["clever"]


async def test_an_answer_is_made_again_by_another_model_and_denied(chromium: Browser):
    """The second answer is the other model's; it is refused, and the server gets neither."""
    async with desk(provider=models(), review_response="always") as page:
        question, task = await page.asked()
        async with visit(chromium, page) as seen:
            await seen.open(question.id)
            await seen.page.keyboard.press("a")
            await seen.page.wait_for_selector("#detail[data-kind=response]")
            await seen.page.wait_for_selector(ARMED)
            first = await seen.page.get_attribute("#detail", "data-id")
            await seen.page.click(".more > summary")
            await seen.page.click("text=Have it answered again")
            await seen.page.select_option("details[open] select[name=model]", "clever")
            await seen.page.click("button >> text=Answer again")
            await seen.page.wait_for_selector(f"#detail[data-kind=response]:not([data-id='{first}'])")
            await seen.page.wait_for_selector(ARMED)
            await seen.page.click("#detail .decide button.danger")
            await seen.said("Denied")
        with pytest.raises(Rejected):
            await task
        settled = {record.model for record in page.host.audit.records() if record.step == "settled"}
        assert "clever" in settled


async def test_what_expires_is_refused_and_said_to_be(chromium: Browser):
    """The clock runs down before one's eyes; at zero the server has its refusal, and the page says so."""
    async with desk(review_timeout=9.5) as page:
        async with visit(chromium, page) as seen:
            await seen.count(0)
            question, task = await page.asked()
            await seen.page.wait_for_selector(f"#detail[data-id='{question.id}'] .clock >> text=0:0")
            assert "When the time is up, it is denied" in (await seen.page.text_content("#detail .who") or "")
            await asyncio.wait([task])
            await seen.page.wait_for_selector("#detail .banner >> text=Expired, and denied")
        assert task.exception().data == {"reason": "expired"}
