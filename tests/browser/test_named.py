"""What the button says is said whole, and the words of a server stand in its own type on every view."""

from __future__ import annotations

import asyncio
from decimal import Decimal

import msgspec
import pytest
from playwright.async_api import Browser

from antiphon.host import MemoryStore
from antiphon.host.model_catalogue import Model, ModelCatalogue, ModelPrice
from antiphon.host.models.models import Models
from antiphon.wire.elicitation import ElicitRequestParams
from antiphon.wire.tools import CallToolRequestParams, Tool, ToolAnnotations
from tests.browser.visits import ARMED, Visit, visit
from tests.host.asks import approve, origin
from tests.web.pages import Desk, desk

pytestmark = pytest.mark.browser

MARK = "zqx"
"""In every text of the server."""
PURGE = Tool(
    name="purge",
    description=f"Purge {MARK} " + "and more " * 500,
    input_schema={"properties": {"count": {"type": "integer", "description": f"how many {MARK}", "default": 1}}},
    annotations=ToolAnnotations(destructive_hint=True),
)
CUT = """small => {
    const button = small.closest("button").getBoundingClientRect();
    const named = [...small.querySelectorAll("span:not(:has(*)):not(.yields)")].filter((each) => each.textContent);
    return named.filter((each) => {
        const place = each.getBoundingClientRect();
        return each.scrollWidth > each.clientWidth + 1 || place.right > button.right || place.width < 8;
    }).map((each) => each.textContent);
}"""
OUTSIDE = """mark => {
    const texts = document.createTreeWalker(document.getElementById("view"), NodeFilter.SHOW_TEXT);
    const found = [];
    for (let text; (text = texts.nextNode());) {
        const box = text.parentElement;
        if (!text.data.includes(mark) || box.closest("option, textarea, .hidden") || !box.checkVisibility()) continue;
        const mono = getComputedStyle(box).fontFamily.includes("JetBrains Mono");
        if (!mono && !box.closest(".turn, .boxed")) found.push(text.data);
    }
    return found;
}"""


def name_models() -> Models:
    """Make a model with a long name, and a price."""
    price = ModelPrice(input=Decimal(3), output=Decimal(15))
    name = "a-model-with-a-very-long-name-2026-11-26-preview"
    made = Model(name=name, provider="echo", model="m", context=1_000_000, inputs=("text",), price=price)
    other = msgspec.structs.replace(made, name="b")
    return Models(ModelCatalogue((made, other)), {})


async def ask_purge(page: Desk) -> str:
    """Let a program call a tool that may destroy something; returns the id of the question."""
    before = {question.id for question in await page.queue.pending()}
    who = msgspec.structs.replace(origin("t"), tool=PURGE)
    params = CallToolRequestParams.of("purge", {"count": 7})
    page.tasks.append(asyncio.create_task(page.host.confirm(params, who)))
    return (await page.arrived(before)).id


async def find_cut(seen: Visit) -> list[str]:
    """Return what is cut off on the button that approves."""
    return await seen.page.eval_on_selector("#detail .approve small", CUT)


@pytest.mark.parametrize(
    ("width", "locale"), [(320, "en-GB"), (390, "zh-CN"), (960, "en-GB"), (1280, "en-GB"), (1440, "zh-CN")]
)
async def test_what_weighs_is_never_cut_off_the_button(chromium: Browser, width: int, locale: str):
    """The price, what was not seen, and that it may destroy; a long name of a model gives way."""
    async with desk(provider=name_models()) as page:
        question, _ = await page.asked(text="word " * 30_000)
        purge = await ask_purge(page)
        size = {"width": width, "height": 700}
        async with visit(chromium, page, viewport=size, locale=locale) as seen:
            for id, named in ((question.id, "$"), (purge, "可能" if locale == "zh-CN" else "may destroy")):
                await seen.page.goto(f"{page.running.origin}/review/{id}")
                await seen.page.wait_for_selector(ARMED)
                await seen.page.wait_for_function("() => document.querySelector('#detail [data-unseen]').textContent")
                assert named in await seen.page.inner_text("#detail .approve")
                assert await find_cut(seen) == []
                over = await seen.page.eval_on_selector(".decide .bar", "bar => bar.scrollWidth - bar.clientWidth")
                assert over <= 0
            await seen.page.goto(f"{page.running.origin}/alike/{question.id}")
            await seen.page.check("[name=id]")
            assert await seen.page.eval_on_selector("form[data-together] .approve small", CUT) == []


async def test_an_edited_call_is_still_named_destructive(chromium: Browser):
    """The button that runs it with other arguments is as red as the one that runs it as it is."""
    async with desk() as page:
        purge = await ask_purge(page)
        async with visit(chromium, page) as seen:
            await seen.open(purge)
            drawn = "each => getComputedStyle(each).backgroundColor"
            asked = await seen.page.eval_on_selector("#detail .approve", drawn)
            await seen.key("e")
            button = seen.page.locator("form[data-draft] .approve")
            await button.wait_for()
            assert "may destroy" in await button.inner_text()
            assert await button.evaluate(drawn) == asked


@pytest.mark.parametrize("width", [390, 1440])
async def test_the_words_of_a_server_are_in_its_type_on_every_view(chromium: Browser, width: int):
    """Or in one of its boxes: in the queue, in a form, beside arguments, among several, in the history."""
    form = ElicitRequestParams.form(
        f"Where to {MARK}?",
        {"properties": {f"a{MARK}": {"type": "string", "title": f"Title {MARK}", "description": f"Says {MARK}"}}},
    )
    store = MemoryStore(keep_content=True)
    async with desk(store=store, keep_content=True) as page:
        first, task = await page.asked(text=f"Describe {MARK}", system_prompt=f"Be {MARK}")
        await page.queue.decide(first.id, approve(first.item), hash=first.hash, by="ada")
        await task
        question, _ = await page.asked(text=f"Describe {MARK}", system_prompt=f"Be {MARK}")
        purge = await ask_purge(page)
        before = {each.id for each in await page.queue.pending()}
        page.tasks.append(asyncio.create_task(page.host.elicit(form, origin("f"))))
        asked = (await page.arrived(before)).id
        async with visit(chromium, page, viewport={"width": width, "height": 900}) as seen:
            for path in (
                *("/", f"/review/{question.id}", f"/review/{purge}", f"/review/{asked}"),
                *(f"/review/{purge}/edit", f"/review/{question.id}/edit", f"/alike/{question.id}"),
                *("/history", "/history/1", "/spending", "/servers", "/grants", f"/servers/{origin().identity}"),
            ):
                await seen.page.goto(page.running.origin + path)
                await seen.page.wait_for_selector("main h1")
                assert (path, await seen.page.evaluate(OUTSIDE, MARK)) == (path, [])
