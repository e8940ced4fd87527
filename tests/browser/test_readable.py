"""What is shown is read as it is: each letter, in large type, on paper, in a person's own colours, without a script."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from playwright.async_api import Browser

from antiphon.wire.tools import CallToolRequestParams, Tool, ToolAnnotations
from tests.browser.test_named import ask_purge
from tests.browser.visits import WIDE, Visit, visit
from tests.host.asks import origin, says
from tests.web.pages import Desk, desk

pytestmark = pytest.mark.browser

JOINED = """() => [...document.querySelectorAll("pre, code, textarea, .theirs, .args th")]
    .filter((each) => getComputedStyle(each).fontVariantLigatures !== "none")
    .map((each) => each.outerHTML.slice(0, 80))"""
SPILLED = """() => [...document.querySelectorAll("main :is(button, .button, summary)")]
    .map((each) => [each, each.scrollWidth - each.clientWidth, each.scrollHeight - each.clientHeight])
    .filter(([each, across, down]) => each.checkVisibility() && Math.max(across, down) > 1)
    .map(([each, across, down]) => `${each.textContent.trim()} ${across} ${down}`)"""
PHONE = {"width": 360, "height": 740}


async def see(seen: Visit, page: Desk, path: str) -> None:
    """Open a view, and wait until its buttons can be pressed."""
    await seen.page.goto(page.running.origin + path)
    await seen.page.wait_for_selector("main [data-arming]:not([aria-disabled])")


async def test_letters_of_a_server_are_never_joined(chromium: Browser):
    """A font draws != and -> as one sign: what is compared letter by letter would not be what is sent."""
    tool = Tool(name="t", description="a != b", input_schema={"type": "object"})
    async with desk() as page:
        question, _ = await page.asked(system_prompt="a -> b", messages=[says("a => b")], tools=[tool])
        purge = await ask_purge(page)
        async with visit(chromium, page) as seen:
            for path in (question.id, purge, f"{purge}/edit", f"{purge}/like"):
                await see(seen, page, f"/review/{path}")
                assert (path, await seen.page.evaluate(JOINED)) == (path, [])


@pytest.mark.parametrize("letters", [16, 24, 32])
async def test_a_label_stays_within_its_button_on_a_phone(chromium: Browser, letters: int):
    """Also in letters of twice the size: what denies, what reaches further, and what runs an edited call."""
    async with desk() as page:
        question, _ = await page.asked(text="word " * 300)
        purge = await ask_purge(page)
        async with visit(chromium, page, viewport=PHONE, has_touch=True) as seen:
            session = await seen.page.context.new_cdp_session(seen.page)
            await session.send("Page.setFontSizes", {"fontSizes": {"standard": letters}})
            for path in (question.id, purge, f"{purge}/edit"):
                await see(seen, page, f"/review/{path}")
                if await seen.page.locator(".more").count():
                    await seen.page.click(".more > summary")
                    await seen.page.click("[data-fold=reason] > summary")
                assert (path, await seen.page.evaluate(SPILLED)) == (path, [])
                assert await seen.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


async def test_a_name_of_many_lines_pushes_no_risk_out_of_the_window(chromium: Browser):
    """A tool's name may be two hundred characters that are each written as a mark."""
    tool = Tool(name="Z" + "\u0351\u036b\u0343\u0334" * 40, input_schema={"type": "object"})
    tool = msgspec.structs.replace(tool, annotations=ToolAnnotations(destructive_hint=True))
    async with desk() as page:
        before = {each.id for each in await page.queue.pending()}
        who = msgspec.structs.replace(origin("t"), tool=tool)
        page.tasks.append(asyncio.create_task(page.host.confirm(CallToolRequestParams.of(tool.name, {"n": 1}), who)))
        question = await page.arrived(before)
        for size in (WIDE, PHONE):
            async with visit(chromium, page, viewport=size) as seen:
                await see(seen, page, f"/review/{question.id}")
                place = await seen.page.locator(".risks .grave").bounding_box()
                dock = await seen.page.locator(".dock").bounding_box()
                assert place is not None
                assert dock is not None
                assert place["y"] + place["height"] < dock["y"]


async def test_paper_has_all_of_a_text_in_dark_letters_and_nothing_to_press(chromium: Browser):
    """Whatever colours the screen has: browsers print no grounds, so that light letters would be lost."""
    async with desk() as page, visit(chromium, page, color_scheme="dark") as seen:
        question, _ = await page.asked(text="Long line\n" * 600)
        await seen.page.context.add_cookies([{"name": "antiphon-theme", "value": "dark", "url": page.running.origin}])
        await see(seen, page, f"/review/{question.id}")
        await seen.page.emulate_media(media="print")
        ink = await seen.page.eval_on_selector("#detail pre.text", "text => getComputedStyle(text).color")
        assert ink == "rgb(26, 28, 32)"
        cut = "text => text.scrollHeight > text.clientHeight + 1"
        assert not await seen.page.eval_on_selector("#detail pre.long", cut)
        for pressed in await seen.page.query_selector_all("button, .button, nav a"):
            assert not await pressed.is_visible()


async def test_what_a_ground_tells_is_told_by_a_border_in_forced_colours(chromium: Browser):
    """They have no grounds and no shadows: the argument that is not as usual and each risk keep their marks."""
    async with desk() as page, visit(chromium, page, forced_colors="active") as seen:
        await see(seen, page, f"/review/{await ask_purge(page)}")
        for marked, side in ((".args .hot th", "inlineStart"), (".risks .grave", "top"), (".pill", "top")):
            edge = f"each => parseFloat(getComputedStyle(each).border{side[0].upper()}{side[1:]}Width)"
            assert await seen.page.eval_on_selector(marked, edge) >= 1


async def test_without_script_no_button_and_no_key_is_named_that_needs_one(chromium: Browser):
    """The list of actions and of keys opens by script alone; each button that decides is there."""
    async with desk() as page:
        question, _ = await page.asked()
        context = await chromium.new_context(java_script_enabled=False, viewport=WIDE, locale="en-GB")
        tab = await context.new_page()
        await tab.goto(page.running.address())
        await tab.goto(f"{page.running.origin}/review/{question.id}")
        assert await tab.locator("#detail .approve, #detail .deny button").count() == 2
        for named in ("[data-palette]", "[data-help]", ".bar kbd"):
            assert not await tab.locator(named).first.is_visible()
        await context.close()
