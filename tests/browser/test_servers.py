"""The servers behind a gateway, by keyboard: what has changed is open, and a switch keeps its place."""

from __future__ import annotations

import asyncio

import pytest
from playwright.async_api import Browser

from antiphon import Client, Context, Server
from antiphon.host import MemoryStore
from tests.browser.test_reach import faults
from tests.browser.visits import visit
from tests.web.gated import gated
from tests.web.pages import desk

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("locale", ["en-GB", "zh-CN"])
async def test_a_tool_is_switched_off_by_keyboard(chromium: Browser, locale: str):
    """The page says what happened, and shows it; nothing of a server is markup, and axe finds no fault."""
    store = MemoryStore()
    async with (
        gated(store) as (gateway, client),
        desk(store=store, servers=gateway) as page,
        visit(chromium, page, locale=locale, viewport={"width": 390, "height": 900}) as seen,
    ):
        await seen.page.wait_for_selector("body[data-ready]")
        await seen.page.click("nav a[href='/servers']")
        order = seen.page.locator("[data-server='shop'] [data-tool='order']")
        await order.get_by_text("<b>of anybody</b>").wait_for()
        assert await faults(seen.page) == []
        # A tool is a part of its server's card, and no card itself.
        assert await order.evaluate("tool => getComputedStyle(tool).borderLeftWidth") == "0px"
        await order.locator("button").focus()
        await seen.key("Enter")
        await order.locator("input[name=on][value=true]").wait_for(state="attached")
        assert [tool.name async for tool in client.tools()] == ["shop__stock"]
        await order.locator("button").focus()
        await seen.key("Enter")
        await order.locator("input[name=on][value=false]").wait_for(state="attached")
        assert len([tool async for tool in client.tools()]) == 2


async def test_servers_in_one_process_have_their_own_names(chromium: Browser):
    """In the queue, in the sentence and beside it; both servers may be objects of one program."""

    def asking(name: str) -> Server:
        server = Server(name)

        @server.tool
        async def describe(ctx: Context) -> str:
            """Describe something."""
            return (await ctx.sample("Describe a hat", max_tokens=50)).text

        return server

    async with (
        desk() as page,
        visit(chromium, page) as seen,
        Client(asking("the shop"), sampling=page.host) as shop,
        Client(asking("notes"), sampling=page.host) as notes,
    ):
        calls = [asyncio.create_task(each.call_tool("describe")) for each in (shop, notes)]
        await seen.count(2)
        heads = await seen.page.locator("#queue .who").all_inner_texts()
        assert sorted(heads) == ["notes", "the shop"]
        for question in await page.queue.pending():
            await seen.open(question.id)
            name = question.item.origin.target
            assert (await seen.page.inner_text("#detail h1")).startswith(f"{name} asks")
            assert "in this process" in await seen.page.inner_text(".asks")
            await seen.page.click("#detail .approve")
        await asyncio.gather(*calls)
