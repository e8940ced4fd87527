"""The page on a slow link: what must have come before a person can decide. Nothing is timed."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from playwright.async_api import Browser

from antiphon.web.render import JOINED_AT
from tests.browser.test_overtaken import Held
from tests.browser.visits import ARMED, WIDE, visit
from tests.web.pages import desk

pytestmark = pytest.mark.browser

FILES = [f"{JOINED_AT}/fonts.css", f"{JOINED_AT}/page.css", f"{JOINED_AT}/page.js"]
MOST_BYTES = 40_000
"""Most bytes of the answer, compressed: 0.8 s at 50 kB a second."""


@pytest.mark.parametrize("width", [390, 1280])
async def test_a_person_can_decide_after_one_answer(chromium: Browser, width: int):
    """Fonts, the stream of changes and the next request are fetched as well, but nobody waits for them.

    The script and the style sheet stand in the page at the printed address: one round trip and 0.8 s at 50 kB a second.
    """
    async with desk() as page, visit(chromium, page, viewport={**WIDE, "width": width}) as seen:
        question, _ = await page.asked(system_prompt="Be brief")
        await page.asked(text="Second")
        async with Held(seen.page, lambda sent: urlsplit(sent.url).path != "/open"):
            answer = await seen.page.goto(page.running.address(), wait_until="domcontentloaded")
            assert answer is not None
            if width < 960:
                await seen.page.click(f"[data-row='{question.id}']")
            await seen.page.wait_for_selector(f"#detail[data-id='{question.id}']")
            await seen.page.wait_for_selector(ARMED)
        sizes = await answer.request.sizes()
        assert sizes["responseBodySize"] + sizes["responseHeadersSize"] <= MOST_BYTES


async def test_what_stood_in_the_first_page_is_kept_for_the_next(chromium: Browser):
    """It is fetched as files once nobody waits, so that a page that is loaded anew has them."""
    async with desk() as page, visit(chromium, page) as seen:
        await seen.page.goto(page.running.address())
        await seen.page.wait_for_function(
            "files => files.every((file) => performance.getEntriesByName(location.origin + file).length)", arg=FILES
        )
        assert await seen.page.evaluate("[...document.querySelectorAll('script[src]')].length") == 0
        await seen.page.reload()
        await seen.page.wait_for_selector("body[data-ready]")
        fetched = (
            "performance.getEntriesByType('resource').filter(each => each.transferSize > 0).map(each => each.name)"
        )
        anew = await seen.page.evaluate(fetched)
        assert [file for file in FILES if any(name.endswith(file) for name in anew)] == []


async def test_the_fonts_come_after_the_first_request(chromium: Browser):
    """They are asked for once the page can be used, and are the page's own in the end."""
    async with desk() as page, visit(chromium, page) as seen:
        await page.asked()
        await seen.page.wait_for_selector(ARMED)
        await seen.page.wait_for_function("document.fonts.check('13px Inter') && [...document.fonts].length > 1")
        sheets = "[...document.styleSheets].map(each => each.href?.split('/').pop() ?? 'in the page')"
        assert await seen.page.evaluate(sheets) == ["in the page", "fonts.css"]
