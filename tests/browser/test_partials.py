"""An answer while it comes, in a real browser: seen to grow, and gone when it is whole."""

from __future__ import annotations

import asyncio

import pytest
from playwright.async_api import Browser

from antiphon.host.providers.base import Completion, Growth
from antiphon.wire.sampling import text_answer
from tests.browser.test_reach import faults
from tests.browser.visits import visit
from tests.web.pages import desk

pytestmark = pytest.mark.browser


class Slow:
    """A provider whose answer comes when the test says so."""

    name = "slow"
    tools = True
    personal = False

    def __init__(self) -> None:
        self.growth: asyncio.Future[Growth] = asyncio.get_running_loop().create_future()
        self.answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def complete(self, params, *, model=None):
        return text_answer(await self.answer, "slow")

    async def stream(self, params, growth, *, model=None, fallbacks=()):
        self.growth.set_result(growth)
        return Completion(result=await self.complete(params))


@pytest.mark.parametrize(
    "size", [{"width": 1280, "height": 900}, {"width": 390, "height": 844}], ids=["wide", "narrow"]
)
async def test_an_answer_is_seen_to_grow(chromium: Browser, size):
    """Said to be unfinished and unsent, secrets masked; the buttons of the request beside it stay where they are."""
    provider = Slow()
    async with desk(provider=provider) as page:
        question, task = await page.asked(text="Describe a sweater")
        await page.asked(text="Something else")
        async with visit(chromium, page, viewport=size) as seen:
            await seen.open(question.id)
            await seen.page.keyboard.press("a")
            await seen.said("Approved")
            await seen.page.wait_for_selector(f"#detail:not([data-id='{question.id}']) .decide .primary")
            place = await seen.page.locator("#detail .decide .primary").bounding_box()
            growth = await provider.growth
            growth.add("A warm sweater. The password: hunter2-Xyz, and then there is ")
            await seen.page.wait_for_selector("#partials:not([hidden]) >> text=A warm sweater.")
            growth.add("something more to be said about it, for a while. ")
            await seen.page.wait_for_selector("#partials >> text=something more to be said")
            shown = await seen.page.inner_text("#partials")
            assert "not finished, not sent yet" in shown
            assert "hunter2" not in shown
            assert await seen.page.locator("#detail .decide .primary").bounding_box() == place
            assert await faults(seen.page) == []
            provider.answer.set_result("A warm sweater.")
            await task
            await seen.page.wait_for_selector("#partials", state="hidden")
