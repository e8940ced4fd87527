"""Resources and prompts as tools, at a server and at a gateway: the same lists and reads, under the same rules."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from typing import Any

import pytest

from antiphon import Client, Context, Server
from antiphon.gateway import Gateway
from antiphon.middleware import PromptsAsTools, ResourcesAsTools
from antiphon.testing import connected
from tests.support.raw_client import raw_client

ERAS = ["2025-11-25", "2026-07-28"]


def shop() -> Server:
    """Make a server with resources and a prompt, one of each for Ann alone."""
    server = Server("shop")
    server.resource("shop://stock")(lambda: "ten hats")
    server.resource("shop://logo")(lambda: b"\x00\x01")
    server.resource("shop://{item}/price")(lambda item: f"{item}: 10")
    server.resource("shop://secret", visible=lambda principal: principal == "ann")(lambda: "hush")
    server.tool(name="sell")(lambda: "sold")

    @server.prompt
    def ask(topic: str) -> str:
        return f"about {topic}"

    @server.resource("shop://wish")
    async def wish(ctx: Context) -> str:
        return (await ctx.sample("What?")).text

    return server


def with_tools(server: Server) -> Server:
    """Add both kinds of tools."""
    server.middleware(ResourcesAsTools())
    server.middleware(PromptsAsTools())
    return server


async def model(params: Any, origin: Any) -> str:
    """Answer what is asked."""
    return "a hat"


@pytest.mark.parametrize("kind", ["server", "gateway"])
async def test_an_empty_cursor_is_none(kind: str) -> None:
    """Clients in Go write it so, and would not see the tools."""
    server = with_tools(shop())
    if kind == "gateway":
        server = Gateway({"shop": shop()}, None, asks="relay", as_tools=True).server
    async with connected(server) as client:
        names = [tool.name for tool in (await client.list_tools("")).tools]
    assert names[:4] == ["list_resources", "read_resource", "list_prompts", "get_prompt"]


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize("kind", ["server", "mounted", "gateway"])
async def test_resources_and_prompts_are_reached_by_tools(kind: str, revision: str) -> None:
    """Text as text, bytes as a resource, templates, prompts; a resource that asks may ask."""
    async with AsyncExitStack() as stack:
        if kind == "gateway":
            server = Gateway({"shop": shop()}, None, asks="relay", names="none", as_tools=True).server
        elif kind == "mounted":
            server = Server("front")
            server.mount(shop())
            server = with_tools(server)
        else:
            server = with_tools(shop())
        client = await stack.enter_async_context(connected(server, sampling=model, revision=revision))
        names = [tool.name async for tool in client.tools()]
        assert sorted(names) == ["get_prompt", "list_prompts", "list_resources", "read_resource", "sell"]
        listed = json.loads((await client.call_tool("list_resources")).text)
        assert {each["uri"] for each in listed["resources"]} == {"shop://stock", "shop://logo", "shop://wish"}
        assert [each["uriTemplate"] for each in listed["resourceTemplates"]] == ["shop://{item}/price"]
        for uri, text in (("stock", "ten hats"), ("tie/price", "tie: 10"), ("wish", "a hat")):
            assert (await client.call_tool("read_resource", {"uri": f"shop://{uri}"})).text == text
        [block] = (await client.call_tool("read_resource", {"uri": "shop://logo"})).content
        assert block.resource.blob == "AAE="
        assert "ask" in (await client.call_tool("list_prompts")).text
        filled = await client.call_tool("get_prompt", {"name": "ask", "arguments": {"topic": "hats"}})
        assert json.loads(filled.text)["messages"][0]["content"]["text"] == "about hats"
        assert (await client.call_tool("sell")).text == "sold"


async def test_rules_of_resources_hold_for_their_tools() -> None:
    """What is hidden is not listed, and not found; an error is a result that a model can act on."""
    server = with_tools(shop())
    for principal, is_error in (("ann", False), ("ben", True)):
        async with raw_client(server, principal=principal) as raw:
            listed = await raw.call("list_resources")
            assert ("secret" in listed["content"][0]["text"]) is not is_error
            result = await raw.call("read_resource", {"uri": "shop://secret"})
            assert result.get("isError", False) is is_error
    async with Client(server) as client:
        assert "Unknown prompt" in (await client.call_tool("get_prompt", {"name": "absent"})).text
        assert "uri" in (await client.call_tool("read_resource", {})).text
