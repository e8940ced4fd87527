"""What nobody listed: another clock, a connection that died in a sleep, letters from right to left, long forms."""

from __future__ import annotations

import asyncio
import re

import msgspec
import pytest
from playwright.async_api import Browser, Page

from antiphon.wire.elicitation import ElicitRequestParams
from antiphon.wire.origin import OriginCall
from antiphon.wire.tools import CallToolRequestParams, Tool
from tests.browser.test_overtaken import Held
from tests.browser.test_shown import elicited
from tests.browser.visits import ARMED, WIDE, visit
from tests.host.asks import origin
from tests.web.pages import Desk, desk

pytestmark = pytest.mark.browser

UNSEEN = "#detail .approve [data-unseen]"
HEBREW = "\u05e9\u05dc\u05d5\u05dd 5"


async def called(page: Desk, tool: Tool, subject: str = "describe") -> str:
    """Let a program call a tool, in a call of a subject; return the id of the question."""
    who = msgspec.structs.replace(
        origin("t", tool=tool), call=OriginCall(id="1", method="tools/call", name=subject, arguments={})
    )
    page.tasks.append(asyncio.create_task(page.host.confirm(CallToolRequestParams.of(tool.name, {"sku": "P-1"}), who)))
    return (await page.arrived(set())).id


async def scroll_to_the_end(page: Page) -> None:
    """Have everything on the screen, a part at a time."""
    await page.evaluate(
        """async () => {
            for (let at = 0; at <= document.documentElement.scrollHeight; at += 200) {
                scrollTo(0, at);
                await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
            }
        }"""
    )


async def test_the_time_that_is_left_is_counted_by_the_clock_of_the_page(chromium: Browser):
    """A browser elsewhere may be an hour ahead: what waits is not said to be over."""
    async with desk() as page:
        await page.asked()
        context = await chromium.new_context(viewport=WIDE, locale="en-GB")
        await context.add_init_script("const now = Date.now.bind(Date); Date.now = () => now() + 3_600_000;")
        tab = await context.new_page()
        await tab.goto(page.running.address())
        await tab.wait_for_selector(f"body[data-ready] {ARMED}")
        assert re.match(r"(9|10):\d\d left", await tab.inner_text("#detail .facts-line .clock"))
        assert re.match(r"\d+ s|9:|10:", await tab.inner_text("#rows .meta .clock"))
        await context.close()


async def test_a_connection_that_says_nothing_is_not_believed(chromium: Browser):
    """After a sleep it may be dead without an end: the page says that it is lost, and asks again."""
    async with desk() as page, visit(chromium, page) as seen:
        await seen.page.clock.install()
        async with Held(seen.page, lambda sent: sent.url.endswith("/live")) as held:
            await seen.page.goto(page.running.origin)
            await held.came.wait()
            await seen.page.clock.fast_forward(41_000)
            await seen.page.wait_for_selector("#banner:not([hidden])")
        await seen.page.wait_for_selector("#banner", state="hidden")
        await page.asked()
        await seen.count(1)


async def test_letters_from_right_to_left_move_nothing_of_ours(chromium: Browser):
    """Nor does a name that is too long break the words beside it."""
    async with desk() as page, visit(chromium, page) as seen:
        id = await called(page, Tool(name=HEBREW, input_schema={}, description="Orders"), "W" * 400)
        await seen.open(id)
        for place in ("h1 b", ".facts-line strong", ".rail code"):
            found = await seen.page.locator(f"#detail {place}").first.evaluate(
                "each => getComputedStyle(each).unicodeBidi"
            )
            assert found == "isolate"
        rows = """each => {
            const words = document.createRange();
            words.selectNodeContents([...each.childNodes].find((one) => one.nodeType === 3 && one.data.trim()));
            return new Set([...words.getClientRects()].map((one) => one.top)).size;
        }"""
        assert await seen.page.locator("#detail .facts-line > span").first.evaluate(rows) == 1


@pytest.mark.parametrize("width", [390, 1280])
async def test_fields_that_were_not_seen_are_named_before_a_form_is_sent(chromium: Browser, width: int):
    """A server may suggest something for a hundred of them: who takes all has not seen what stands below the edge."""
    fields = {f"field{n}": {"type": "string", "default": f"suggested {n}"} for n in range(100)}
    async with desk() as page:
        _, task = await elicited(page, ElicitRequestParams.form("Sure?", {"properties": fields}))
        [question] = await page.queue.pending()
        async with visit(chromium, page, viewport={"width": width, "height": 800}) as seen:
            await seen.page.goto(f"{page.running.origin}/review/{question.id}")
            await seen.page.wait_for_selector(ARMED)
            await seen.page.click("text=Take all suggestions")
            assert "characters unseen" in await seen.page.inner_text(UNSEEN)
            await scroll_to_the_end(seen.page)
            await seen.page.wait_for_function(f"() => document.querySelector('{UNSEEN}').textContent === ''")
            await seen.key("a")
            assert len((await task).content) == 100


async def test_a_call_is_edited_and_run_in_two_keys(chromium: Browser):
    """Its first argument has the focus, and the button works once it could be read."""
    schema = {"type": "object", "properties": {"sku": {"type": "string"}}}
    async with desk() as page, visit(chromium, page) as seen:
        id = await called(page, Tool(name="order", input_schema=schema, description="Orders"))
        await seen.open(id)
        await seen.key("e")
        await seen.page.wait_for_selector("#detail[data-editing] textarea:focus")
        await seen.page.keyboard.type("New ")
        await seen.page.wait_for_selector("#detail[data-editing] .approve[data-since]:not([aria-disabled])")
        await seen.key("Control+Enter")
        made = await page.tasks[0]
        assert b"New P-1" in bytes(made.params.arguments)


async def test_an_edited_call_names_what_was_not_seen_of_its_tool(chromium: Browser):
    """Its description reaches the model, and stands below the fields."""
    async with desk() as page, visit(chromium, page) as seen:
        says = "".join(f"Orders number {n}.\n" for n in range(200))
        id = await called(page, Tool(name="order", input_schema={}, description=says))
        await seen.open(id)
        await seen.key("e")
        await seen.page.wait_for_selector("#detail[data-editing] .approve[data-since]:not([aria-disabled])")
        assert "characters unseen" in await seen.page.inner_text(UNSEEN)
        assert "Orders number 7." in await seen.page.inner_text("#detail .boxed")
