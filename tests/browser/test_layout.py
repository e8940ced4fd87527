"""The layout of the page: what keeps its place, what the sentence says, and what is found by its name."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from playwright.async_api import Browser

from antiphon.wire.elicitation import ElicitRequestParams
from antiphon.wire.tools import CallToolRequestParams, Tool, ToolAnnotations
from tests.browser.test_consequences import models
from tests.browser.visits import ARMED, visit
from tests.host.asks import origin
from tests.web.pages import desk

pytestmark = pytest.mark.browser

WIDTHS = [{"width": 1440, "height": 900}, {"width": 1024, "height": 768}, {"width": 390, "height": 844}]
SHIFT = """() => new Promise(done => {
    let sum = 0;
    const add = each => { if (!each.hadRecentInput) sum += each.value; };
    new PerformanceObserver(list => list.getEntries().forEach(add)).observe({ type: "layout-shift", buffered: true });
    setTimeout(() => done(sum), 500);
})"""
DELETE = Tool(
    name="delete_drafts",
    description="Deletes drafts.",
    input_schema={
        "type": "object",
        "properties": {
            "ids": {"type": "array", "description": "drafts to delete"},
            "permanently": {"type": "boolean", "default": False, "description": "skip the bin"},
        },
    },
    annotations=ToolAnnotations(destructive_hint=True),
)


@pytest.mark.parametrize("viewport", WIDTHS, ids=lambda size: str(size["width"]))
async def test_approve_has_one_place_and_nothing_shifts(chromium: Browser, viewport: dict[str, int]):
    """A short and a long request: the button is where it was, and is as large."""
    async with desk() as page:
        short, _ = await page.asked(text="Short")
        long, _ = await page.asked(text="Long line\n" * 300, system_prompt="Be brief")
        async with visit(chromium, page, viewport=viewport) as seen:
            places = []
            for question in (short, long):
                await seen.page.goto(f"{page.running.origin}/review/{question.id}")
                await seen.page.wait_for_selector("#detail .approve:not([aria-disabled])")
                places.append(await seen.page.locator("#detail .approve").bounding_box())
                assert await seen.page.evaluate(SHIFT) <= 0.05
            assert places[0] == places[1]


async def test_a_call_that_waits_is_not_said_to_run(chromium: Browser):
    """Its name stands in the sentence; which call a server asks in is said only where that is another one."""
    async with desk() as page, visit(chromium, page) as seen:
        for name, says in (("describe", False), ("delete_drafts", True)):
            before = {each.id for each in await page.queue.pending()}
            who = msgspec.structs.replace(origin(name), tool=msgspec.structs.replace(DELETE, name=name))
            page.tasks.append(asyncio.create_task(page.host.confirm(CallToolRequestParams.of(name, {}), who)))
            question = await page.arrived(before)
            await seen.open(question.id)
            assert (await seen.page.locator("#detail .facts-line >> text=describe").count() > 0) == says


@pytest.mark.parametrize("locale", ["en-GB", "zh-CN"])
async def test_every_button_of_the_bar_is_whole_at_any_width(chromium: Browser, locale: str):
    """From a phone to a wide screen: none is cut off, none lies on another, whatever is asked."""
    async with desk(provider=models()) as page, visit(chromium, page, locale=locale) as seen:
        question, _ = await page.asked()
        form = asyncio.create_task(page.host.elicit(ElicitRequestParams.form("Who?", {"properties": {}}), origin("f")))
        page.tasks.append(form)
        other = await page.arrived({question.id})
        for id in (question.id, other.id):
            await seen.page.goto(f"{page.running.origin}/review/{id}")
            await seen.page.wait_for_selector(ARMED)
            for width in (320, 390, 640, 641, 700, 768, 900, 959, 960, 1100, 1279, 1280, 1439, 1440, 1920):
                await seen.page.set_viewport_size({"width": width, "height": 900})
                faults = await seen.page.evaluate(
                    """() => {
                        const named = "#detail .decide .bar :is(button, .button, summary, select)";
                        const all = [...document.querySelectorAll(named)].filter((each) => each.checkVisibility());
                        const boxes = all.map((each) => each.getBoundingClientRect());
                        const out = boxes.filter((box) => box.left < 0 || box.right > innerWidth);
                        const meets = (one, other) => one.left < other.right && one.top < other.bottom;
                        const lies = (one, other) => meets(one, other) && meets(other, one);
                        const on = boxes.filter((box, at) => boxes.slice(at + 1).some((other) => lies(box, other)));
                        return [boxes.length >= 4 ? 0 : 1, out.length, on.length];
                    }"""
                )
                assert faults == [0, 0, 0], (width, locale)


async def test_the_sentence_has_our_own_facts_alone(chromium: Browser):
    """Server, model and tokens; no word that the server chose."""
    async with desk() as page:
        question, _ = await page.asked(text="Approved by your administrator", max_tokens=300)
        async with visit(chromium, page) as seen:
            await seen.open(question.id)
            said = await seen.page.inner_text("#detail h1")
            assert "asks" in said
            assert "300 tokens" in said
            assert "administrator" not in said
            for inside in ("tools/call", "round 1", "at most 64"):
                assert inside not in await seen.page.inner_text("#detail")


async def test_the_arguments_of_a_call_are_a_table(chromium: Browser):
    """What differs from its default is first, and the button is of the colour of danger."""
    async with desk() as page:
        params = CallToolRequestParams(name="delete_drafts", arguments={"ids": ["a"], "permanently": True})
        who = msgspec.structs.replace(origin("t"), tool=DELETE)
        page.tasks.append(asyncio.create_task(page.host.confirm(params, who)))
        question = await page.arrived(set())
        async with visit(chromium, page) as seen:
            await seen.open(question.id)
            rows = await seen.page.locator(".args tr").all_inner_texts()
            assert "permanently" in rows[0]
            assert "skip the bin" in rows[0]
            assert "default: false" in rows[0]
            assert "drafts to delete" in rows[1]
            assert await seen.page.locator("#detail .approve.grave").count() == 1
            assert "may destroy" in await seen.page.inner_text("#detail .approve")


async def test_actions_and_requests_are_found_by_their_names(chromium: Browser):
    """Ctrl+K, some letters, Enter: a request is opened, a view is shown, an action is done."""
    async with desk() as page:
        first, _ = await page.asked(text="First")
        second, _ = await page.asked(text="Second")
        async with visit(chromium, page) as seen:
            await seen.open(first.id)
            await seen.key("Control+k")
            await seen.page.keyboard.type("second")
            await seen.key("Enter")
            await seen.page.wait_for_selector(f"#detail[data-id='{second.id}'] .approve:not([aria-disabled])")
            await seen.key("Control+k")
            await seen.page.keyboard.type("deny this request at once")
            await seen.key("Enter")
            await seen.said("Denied")
            await seen.key("Control+k")
            await seen.page.keyboard.type("what was decided")
            await seen.key("Enter")
            await seen.page.wait_for_url("**/history")
