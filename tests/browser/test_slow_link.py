"""The page on a slow link: what must have come before a person can decide. Nothing is timed."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from playwright.async_api import Browser, Request

from antiphon.web.render import JOINED_AT
from tests.browser.test_overtaken import Held
from tests.browser.visits import ARMED, WIDE, visit
from tests.web.pages import desk

pytestmark = pytest.mark.browser

NEEDED = ["/open", f"{JOINED_AT}/page.css", f"{JOINED_AT}/page.js"]
"""The page at the printed address, which names the other two: they are fetched at the same time."""
MOST_BYTES = 40_000
"""Most bytes of their answers, compressed: 0.8 s at 50 kB a second."""


def is_needed(sent: Request) -> bool:
    """Return whether nobody can decide without the answer to a request."""
    return urlsplit(sent.url).path in NEEDED and "x-part" not in sent.headers


@pytest.mark.parametrize("width", [390, 1280])
async def test_a_person_can_decide_after_three_answers(chromium: Browser, width: int):
    """Fonts, the stream of changes and the next request are fetched as well, but nobody waits for them.

    The three are two round trips and 0.8 s at 50 kB a second, so that a button works 2 s after the address was opened.
    """
    async with desk() as page, visit(chromium, page, viewport={**WIDE, "width": width}) as seen:
        question, _ = await page.asked(system_prompt="Be brief")
        await page.asked(text="Second")
        needed: list[Request] = []
        seen.page.on("requestfinished", lambda sent: is_needed(sent) and needed.append(sent))
        async with Held(seen.page, lambda sent: not is_needed(sent)):
            await seen.page.goto(page.running.address(), wait_until="domcontentloaded")
            if width < 960:
                await seen.page.click(f"[data-row='{question.id}']")
            await seen.page.wait_for_selector(f"#detail[data-id='{question.id}']")
            await seen.page.wait_for_selector(ARMED)
            assert sorted(urlsplit(sent.url).path for sent in needed) == sorted(NEEDED)
        sizes = [await sent.sizes() for sent in needed]
        assert sum(each["responseBodySize"] + each["responseHeadersSize"] for each in sizes) <= MOST_BYTES


async def test_the_fonts_come_after_the_first_request(chromium: Browser):
    """They are asked for once the page can be used, and are the page's own in the end."""
    async with desk() as page, visit(chromium, page) as seen:
        await page.asked()
        await seen.page.wait_for_selector(ARMED)
        await seen.page.wait_for_function("document.fonts.check('13px Inter') && [...document.fonts].length > 1")
        assert await seen.page.evaluate("[...document.styleSheets].map(each => each.href.split('/').pop())") == [
            "page.css",
            "fonts.css",
        ]
