"""``SearchTools``: a server whose clients list two tools and find the others."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from antiphon import Client, Context, Server
from antiphon.errors import ConfigError, PeerError
from antiphon.middleware import SearchTools
from antiphon.protocol.caller import Caller
from antiphon.server.state.request_state import outcome_unknown
from antiphon.transports.queued import memory_pair
from tests.support.raw_client import RawClient, raw_client, said, text

ERAS = ["2025-11-25", "2026-07-28"]


def shop(count: int = 3, **options: Any) -> Server:
    """Make a server with search, some tools alike, and one for Ann alone."""
    server = Server("shop", **options)
    server.middleware(SearchTools(keep=["help_me"]))
    for number in range(count):
        server.tool(name=f"order_{number}", description=f"Order the thing number {number}")(lambda pieces=1: pieces)
    server.tool(name="order_secretly", visible=lambda principal: principal == "ann")(lambda: "hush")
    server.tool(name="order_much", scopes=["buy"])(lambda: "bought")
    server.tool(name="help_me")(lambda: "how?")

    @server.tool
    async def order_as_told(ctx: Context) -> str:
        return (await ctx.sample("What?")).text

    return server


async def find(client: Client, query: str, limit: int = 20) -> list[str]:
    """Return the names of the tools that are found."""
    found = await client.call_tool("find_tools", {"query": query, "limit": limit})
    return [tool["name"] for tool in json.loads(found.text)["tools"]]


async def model(params: Any, origin: Any) -> str:
    """Answer what is asked."""
    return "a hat"


@pytest.mark.parametrize("revision", ERAS)
async def test_a_client_lists_two_tools_and_what_is_kept_and_reaches_all(revision: str):
    """A tool that was found is called through ``call_tool``, or by its name."""
    async with Client(shop(1_200), revision=revision) as client:
        assert [tool.name async for tool in client.tools()] == ["find_tools", "call_tool", "help_me"]
        first, *_ = await find(client, "order thing 777")
        assert first == "order_777"
        assert (await client.call_tool("call_tool", {"name": first, "arguments": {"pieces": 3}})).text == "3"
        assert (await client.call_tool(first, {"pieces": 4})).text == "4"


@pytest.mark.parametrize("revision", ERAS)
async def test_a_tool_inside_may_ask(revision: str):
    """The client is asked as by a direct call."""
    async with Client(shop(), revision=revision, sampling=model) as client:
        assert (await client.call_tool("call_tool", {"name": "order_as_told"})).text == "a hat"


async def test_a_call_lists_no_tools():
    """Neither through ``call_tool`` nor by the name: the cost does not grow with the number of tools."""
    server = shop()
    listed: list[str] = []

    @server.middleware
    async def count(request: Any, call_next: Any) -> Any:
        listed.append(request.method)
        return await call_next(request)

    async with raw_client(server) as client:
        await client.call("call_tool", {"name": "order_1"})
        await client.call("order_1")
        assert listed == ["tools/call", "tools/call"]
        await client.call("find_tools", {"query": "order"})
        assert listed[2:] == ["tools/list"]


async def find_as(client: RawClient, query: str) -> str:
    """Return the text of a search."""
    return text(await client.call("find_tools", {"query": query}))


async def test_what_is_hidden_is_neither_found_nor_called():
    """Each principal finds what is visible to it."""
    server = shop()
    async with raw_client(server, principal="bob") as client:
        assert "order_secretly" not in await find_as(client, "order secretly")
        refused = await client.call("call_tool", {"name": "order_secretly"})
        assert refused["isError"]
        assert text(refused) == "Unknown tool: order_secretly. Find tools with find_tools."
    async with raw_client(server, principal="ann") as client:
        assert "order_secretly" in await find_as(client, "order secretly")
        assert text(await client.call("call_tool", {"name": "order_secretly"})) == "hush"


@pytest.mark.parametrize("scopes", [frozenset[str](), frozenset({"buy"})])
async def test_scopes_are_those_of_the_tool_inside(scopes: frozenset[str]):
    """A call is refused by the scope that it lacks, as a direct one."""
    ours, theirs = memory_pair()
    serving = asyncio.create_task(shop().serve(theirs, caller=Caller("bob", scopes=scopes)))
    client = RawClient(ours)
    id = client.modern("tools/call", name="call_tool", arguments={"name": "order_much"})
    reply = await client.reply(id)
    assert ("bought" in str(reply.get("result"))) is bool(scopes)
    assert ("buy" in str(reply.get("error"))) is not bool(scopes)
    await ours.close()
    await serving


async def test_lists_are_as_private_as_they_were():
    """Hints for caches are those of the list without search; principals have lists of their own."""
    async with Client(shop(cache_ttl=60.0, cache_scope="public"), revision="2026-07-28") as client:
        page = await client.list_tools()
        assert (page.ttl_ms, page.cache_scope) == (60_000, "private")
    server = Server("open", cache_ttl=60.0, cache_scope="public")
    server.middleware(SearchTools())
    server.tool(name="sell")(lambda: "sold")
    async with Client(server, revision="2026-07-28") as client:
        page = await client.list_tools()
        assert (page.ttl_ms, page.cache_scope) == (60_000, "public")


async def test_a_tool_that_is_added_is_found_at_once():
    """The index is that of the present list; what is removed is gone."""
    server = shop()
    async with Client(server) as client:
        assert "No tool fits" in (await client.call_tool("find_tools", {"query": "umbrella"})).text
        server.tool(name="sell_umbrella")(lambda: "sold")
        assert await find(client, "umbrella") == ["sell_umbrella"]
        server.tools.remove("sell_umbrella")
        assert "No tool fits" in (await client.call_tool("find_tools", {"query": "umbrella"})).text


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("call_tool", {"name": "order"}, "Unknown tool: order. Find tools with find_tools."),
        ("call_tool", {"name": "call_tool", "arguments": {"name": "order_1"}}, "Unknown tool: call_tool"),
        ("call_tool", {"name": "order_0", "arguments": [1]}, "Expected `object` - at `$.arguments`"),
        ("call_tool", {}, "missing required field `name`"),
        ("find_tools", {"query": "x", "limit": 21}, "`$.limit`"),
        ("find_tools", {"query": "zzz"}, "No tool fits 'zzz'"),
    ],
)
async def test_a_mistake_is_told_so_that_a_model_can_mend_it(name: str, arguments: dict[str, Any], said: str):
    """As a result that it reads."""
    async with Client(shop()) as client:
        assert said in (await client.call_tool(name, arguments)).text


async def test_search_holds_on_a_mounted_server():
    """Its two tools get the prefix, and reach its tools alone."""
    front = Server("front")
    front.mount(shop(), "shop")
    async with Client(front) as client:
        names = [tool.name async for tool in client.tools()]
        assert names == ["shop__find_tools", "shop__call_tool", "shop__help_me"]
        assert (await client.call_tool("shop__call_tool", {"name": "order_1"})).text == "1"


async def test_a_tool_that_runs_once_does_so_through_call_tool():
    """Another process does not run it again, as it would not if it had been called by its name."""

    def make() -> Server:
        server = Server("bank", keys=[bytes(32)])
        server.middleware(SearchTools())

        @server.tool(once=True)
        async def pay(ctx: Context) -> str:
            return (await ctx.sample("How much?")).text

        return server

    async with raw_client(make()) as one, raw_client(make()) as other:
        round = await one.call("call_tool", {"name": "pay"})
        (key,) = round["inputRequests"]
        params = {"requestState": round["requestState"], "inputResponses": {key: said("ten")}}
        refused = await other.error("tools/call", name="call_tool", arguments={"name": "pay"}, **params)
        assert refused["message"] == outcome_unknown().message
        assert text(await one.call("call_tool", {"name": "pay"}, **params)) == "ten"


async def test_an_empty_cursor_is_none():
    """Clients in Go write it so."""
    async with Client(shop()) as client:
        assert [tool.name for tool in (await client.list_tools("")).tools] == ["find_tools", "call_tool", "help_me"]


async def test_a_cursor_of_another_list_is_refused():
    """The list has one page."""
    async with Client(shop()) as client:
        with pytest.raises(PeerError, match="Unknown cursor"):
            await client.list_tools("2")


def test_a_text_is_no_list_of_names():
    """Each letter would be a name."""
    with pytest.raises(ConfigError, match=r"keep=\) is a list of names, as in \['sell'\]"):
        SearchTools(keep="sell")


async def test_a_tool_for_an_interface_alone_is_not_for_the_model():
    """A host leaves it to interfaces; through ``call_tool`` it could not tell who calls."""
    server = shop()
    inner = Server("inner")
    for each in (server, inner):
        each.tool(name="order_by_button", ui="ui://shop/orders", visibility=["app"])(lambda: "ordered")
    server.mount(inner, prefix="inner")
    async with Client(server) as client:
        for name in ("order_by_button", "inner__order_by_button"):
            assert name not in await find(client, "order button")
            result = await client.call_tool("call_tool", {"name": name})
            assert result.is_error and result.text == f"Unknown tool: {name}. Find tools with find_tools."
            assert (await client.call_tool(name)).text == "ordered"
