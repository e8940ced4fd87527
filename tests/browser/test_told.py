"""What a person tells a server, and what the page says became of an answer: with real servers, of both eras."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from playwright.async_api import Browser

from antiphon import Client, Context, Server
from antiphon.errors import Rejected
from tests.browser.visits import visit
from tests.web.pages import Desk, desk

pytestmark = pytest.mark.browser

MODERN, LEGACY = "2026-07-28", "2025-11-25"


def shop(told: list[object]) -> Server:
    """Make a server that keeps what it is told when its request is refused."""
    server = Server("shop")

    @server.tool
    async def describe(ctx: Context) -> str:
        """Describe a product."""
        try:
            return (await ctx.sample("Describe a hat")).text
        except Rejected as refused:
            told.append(refused.data)
            return "refused"

    @server.tool
    async def name(ctx: Context) -> str:
        """Ask for a name."""
        answer = await ctx.elicit("Who?", {"type": "object", "properties": {"name": {"type": "string"}}})
        return str(answer.value)

    return server


@asynccontextmanager
async def calling(page: Desk, tool: str, revision: str, told: list[object]) -> AsyncIterator[asyncio.Task[object]]:
    """Call a tool that asks; what is left of the call at the end is given up."""
    host = page.host
    async with Client(shop(told), sampling=host, elicitation=host.elicit, revision=revision) as client:
        call = asyncio.create_task(client.call_tool(tool))
        yield call
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)


async def test_a_server_is_told_the_reason_if_the_person_says_so(chromium: Browser):
    """Its error has the reason, and the record says that it was told."""
    told: list[object] = []
    async with desk() as page, visit(chromium, page) as seen, calling(page, "describe", LEGACY, told) as call:
        question = await page.arrived(set())
        await seen.open(question.id)
        await seen.key("r")
        await seen.page.fill("#detail input[name=reason]", "Not for hats")
        await seen.page.check("#detail input[name=tell]")
        await seen.key("Control+Enter")
        await seen.said("Denied")
        assert (await call).text == "refused"
        assert told == [{"reason": "user", "note": "Not for hats"}]
        await seen.page.goto(f"{page.running.origin}/history/1")
        assert "(told to the server)" in await seen.page.inner_text(".told table")


async def test_a_reason_that_is_not_to_be_told_stays_here(chromium: Browser):
    """Nothing of it reaches the server; the record has it."""
    told: list[object] = []
    async with desk() as page, visit(chromium, page) as seen, calling(page, "describe", LEGACY, told) as call:
        question = await page.arrived(set())
        await seen.open(question.id)
        await seen.key("r")
        await seen.page.keyboard.type("Not for hats")
        await seen.key("Enter")
        await seen.said("Denied")
        await call
        assert told == [{"reason": "user"}]
        await seen.page.goto(f"{page.running.origin}/history/1")
        assert "Not for hats" in await seen.page.inner_text(".told")
        assert "(told to the server)" not in await seen.page.inner_text(".told")


@pytest.mark.parametrize(("tool", "revision"), [("describe", MODERN), ("name", LEGACY), ("name", MODERN)])
async def test_where_no_reason_can_be_sent_the_page_says_so(chromium: Browser, tool: str, revision: str):
    """A round has no error, and a form is declined without a word: there is nothing to tick."""
    async with desk() as page, visit(chromium, page) as seen, calling(page, tool, revision, []):
        question = await page.arrived(set())
        await seen.page.wait_for_selector(f"#detail[data-id='{question.id}']:not([inert])")
        await seen.key("r")
        assert "no room for a reason" in await seen.page.text_content("#detail .further")
        assert await seen.page.locator("#detail input[name=tell]").count() == 0


@pytest.mark.parametrize("revision", [LEGACY, MODERN])
async def test_the_page_says_that_an_answer_was_handed_over(chromium: Browser, revision: str):
    """As soon as the client has said so, and not before; so does the record."""
    async with desk() as page, visit(chromium, page) as seen, calling(page, "describe", revision, []) as call:
        question = await page.arrived(set())
        await seen.open(question.id)
        await seen.key("a")
        await call
        await seen.became("Approved. Handed over to the server.")
        await seen.page.goto(f"{page.running.origin}/review/{question.id}")
        assert "Handed over to the server" in await seen.page.inner_text("#detail .banner")
        await seen.page.goto(f"{page.running.origin}/history/1")
        assert "handed over" in await seen.page.inner_text(".told .facts")


async def test_the_page_says_that_an_answer_came_too_late_and_why(chromium: Browser):
    """The server's connection is gone while its answer is made."""
    async with desk() as page, visit(chromium, page) as seen:
        question, task = await page.asked()
        # The page asks by itself only in the first seconds; an answer may take any time.
        await seen.page.evaluate(
            "const soon = setTimeout; window.setTimeout = (act, after) => (after < 1000 ? soon(act, after) : 0);"
        )
        await seen.open(question.id)
        await seen.key("a")
        await task
        await seen.page.wait_for_selector("#outcomes [data-open]", state="attached")
        await seen.count(0)
        # What it asked because of the decision itself has come.
        await seen.page.evaluate("new Promise(done => setTimeout(done, 900))")
        await page.host.handed_over(question.item.origin, "closed")
        await seen.became("Too late: it did not reach the server. The connection had closed.")
        await seen.page.goto(f"{page.running.origin}/review/{question.id}")
        assert "The connection had closed" in await seen.page.inner_text("#detail .banner")
