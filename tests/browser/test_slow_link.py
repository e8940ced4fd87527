"""The page on a slow link: what must have come before a person can decide. Nothing is timed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import pytest
from playwright.async_api import Browser, Route

from antiphon.host.review.review import ReviewItem
from antiphon.identity import identity_of
from antiphon.web.render import JOINED_AT
from tests.browser.pictures import NEW, Scene, product, scene
from tests.browser.test_overtaken import Held
from tests.browser.visits import ARMED, WIDE, visit
from tests.web.pages import desk

pytestmark = pytest.mark.browser

FILES = [f"{JOINED_AT}/{name}" for name in ("fonts.css", "page.css", "page.js", "rest.css", "rest.js")]
MOST_BYTES = 25_000
"""Most bytes of the answer, compressed, with its head: half a second at 50 kB a second."""
WAITING = 500


@asynccontextmanager
async def full_scene(folder: Path) -> AsyncIterator[Scene]:
    """Serve a page on which many requests of eight servers wait, each with its own words, models and price."""
    async with scene(folder) as made:
        first = await made.queue.get(await made.ask(*product(0, *NEW[0])))
        assert isinstance(first.item, ReviewItem)
        for number in range(1, WAITING):
            name, price, words = NEW[number % len(NEW)]
            params, origin = product(number, f"{name} {number}", f"{number * 7919 % 300}.{price[-2:]}", words)
            target = ["python", f"shop{number % 8}.py"]
            origin = msgspec.structs.replace(origin, identity=identity_of(target), target=" ".join(target))
            one = msgspec.structs.replace(first.item, params=params, received=params, origin=origin)
            made.tasks.append(asyncio.create_task(made.queue.review(one)))
        async for _ in made.queue.changes():
            if await made.queue.waiting() == WAITING:
                break
        yield made


@pytest.mark.parametrize(("width", "language"), [(390, "en-GB"), (1280, "en-GB"), (1280, "zh-CN")])
async def test_a_person_can_decide_after_one_answer(chromium: Browser, tmp_path: Path, width: int, language: str):
    """With 500 waiting, one answer of at most 25 kB has come when Approve works; all other requests are held back.

    Fonts, the rest of the script, the stream of changes, the other rows and the next request: nobody waits for them.
    """
    async with full_scene(tmp_path) as made:
        context = await chromium.new_context(viewport={**WIDE, "width": width}, locale=language)
        page = await context.new_page()
        page.set_default_timeout(30_000)
        async with Held(page, lambda sent: urlsplit(sent.url).path != "/open"):
            answer = await page.goto(made.running.address(), wait_until="domcontentloaded")
            assert answer is not None
            if width < 960:
                await page.click("[data-row] >> nth=0")
            await page.wait_for_selector(ARMED)
            assert await page.locator("#queue [name=ask]:checked").count() == 0
            id = await page.get_attribute("#detail", "data-id")
            async with page.expect_request(lambda sent: sent.method == "POST") as sent:
                await page.click(ARMED)
            assert urlsplit((await sent.value).url).path == f"/review/{id}/approve"
        await page.wait_for_selector(f"#queue[data-pending='{WAITING - 1}']", state="attached")
        sizes = await answer.request.sizes()
        assert sizes["responseBodySize"] + sizes["responseHeadersSize"] <= MOST_BYTES
        await context.close()


async def test_the_first_view_says_how_many_wait_before_it_has_their_rows(chromium: Browser, tmp_path: Path):
    """In all, and of each server; the other rows come by themselves. Without a script a link leads to them."""
    async with full_scene(tmp_path) as made:
        context = await chromium.new_context(viewport=WIDE, locale="en-GB")
        page = await context.new_page()
        page.set_default_timeout(30_000)
        async with Held(page, lambda sent: urlsplit(sent.url).path != "/open"):
            await page.goto(made.running.address(), wait_until="domcontentloaded")
            await page.wait_for_selector(ARMED)
            assert await page.locator("[data-row]").count() == 30
            assert await page.locator("#queue > h1").text_content() == "Waiting: 500"
            assert await page.locator("#queue .group h2 .muted").all_text_contents() == ["1 waiting", "63 waiting"]
        await page.wait_for_function(f"() => document.querySelectorAll('[data-row]').length === {WAITING}")
        assert await page.is_hidden("#beyond")
        await context.close()
        context = await chromium.new_context(viewport=WIDE, locale="en-GB", java_script_enabled=False)
        page = await context.new_page()
        await page.goto(made.running.address())
        assert await page.locator("[data-row]").count() == 30
        await page.click("#beyond a[href='/?all=1']")
        assert await page.locator("[data-row]").count() == WAITING
        await context.close()


@pytest.mark.parametrize("key", ["r", "?", "Control+k"])
async def test_a_key_that_is_pressed_early_does_what_it_does(chromium: Browser, key: str):
    """What it opens is left out of the first view, and is opened as soon as it has come."""
    places = {"r": "#detail [name=reason]", "?": "#help", "Control+k": "#palette"}
    async with desk() as page, visit(chromium, page) as seen:
        await page.asked()
        async with Held(seen.page, lambda sent: urlsplit(sent.url).path != "/open"):
            await seen.page.goto(page.running.address(), wait_until="domcontentloaded")
            await seen.page.wait_for_selector(ARMED)
            await seen.key(key)
            assert not await seen.page.locator(places[key]).count()
        await seen.page.wait_for_selector(places[key])


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
        await seen.page.wait_for_function("() => document.fonts.check('13px Inter') && [...document.fonts].length > 1")
        sheets = "[...document.styleSheets].map(each => each.href?.split('/').pop() ?? 'in the page')"
        assert await seen.page.evaluate(sheets) == ["in the page", "rest.css", "fonts.css"]


@pytest.mark.parametrize("key", ["s", "b"])
async def test_what_reaches_further_is_asked_about_also_when_the_rest_is_late(chromium: Browser, key: str):
    """Of a request that is opened meanwhile all decisions are there, but not yet the question about them."""
    async with desk() as page, visit(chromium, page) as seen:
        await page.asked(text="First")
        second, _ = await page.asked(text="Second")
        opened = ("/open", f"/review/{second.id}")
        async with Held(seen.page, lambda sent: sent.method == "GET" and urlsplit(sent.url).path not in opened):
            await seen.page.goto(page.running.address(), wait_until="domcontentloaded")
            await seen.page.wait_for_selector(ARMED)
            await seen.open(second.id)
            await seen.key(key)
            # Long enough for the letter to count: it is the first of no word.
            await seen.page.evaluate("new Promise(done => setTimeout(done, 300))")
        await seen.page.wait_for_selector("#sure[open]")
        assert len(await page.queue.pending()) == 2


async def test_a_rest_that_was_not_delivered_is_fetched_again(chromium: Browser):
    """The first request can be decided meanwhile; the page is loaded anew once it has proved that it is the same."""
    async with desk() as page, visit(chromium, page) as seen:
        first, _ = await page.asked(text="First")
        await page.asked(text="Second")
        asked: list[str] = []

        async def fail(route: Route) -> None:
            asked.append(route.request.url)
            await route.abort()

        async with Held(seen.page, lambda sent: urlsplit(sent.url).path == "/alive"):
            await seen.page.route("**/rest.js", fail, times=1)
            await seen.page.goto(page.running.address(), wait_until="domcontentloaded")
            await seen.page.wait_for_selector("#banner:not([hidden])")
            assert await seen.page.get_attribute("#detail", "data-id") == first.id
        await seen.page.wait_for_selector("body[data-ready]")
        assert len(asked) == 1
        await seen.page.wait_for_selector(ARMED)
        await seen.key("?")
        await seen.page.wait_for_selector("#help[open]")
