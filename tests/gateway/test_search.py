"""Search among the tools behind a gateway."""

from __future__ import annotations

import json
from typing import Any

import pytest

from antiphon import Client, Server, Tool
from antiphon.gateway import Gateway
from antiphon.gateway.offer import UpstreamOffer
from antiphon.gateway.search import index_catalogue
from antiphon.gateway.server_catalogue import Exposure, ServerCatalogue
from antiphon.host import Host, Policy, Rule, Scripted
from antiphon.server.tool_search import MAX_RESULT, MAX_RESULTS, ToolIndex
from tests.gateway.test_server_catalogue import tools

ALLOW = Policy(default="allow")
TOOLS = {
    "createIssue": "Open a new issue in a repository",
    "list_branches": "List all branches of a repository",
    "send_mail": "Send an e-mail to somebody",
    "天气": "查询某个城市的天气预报",
}


def index(**more: Tool) -> ToolIndex:
    """Make an index of some tools of two servers."""
    made = [Tool(name=name, description=said, input_schema={}) for name, said in TOOLS.items()]
    return index_catalogue(
        ServerCatalogue({"github": UpstreamOffer(tools=(*made, *more.values())), "files": tools("read")}, Exposure())
    )


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("create issue", "github__createIssue"),
        ("issues", "github__createIssue"),
        ("which branches are there?", "github__list_branches"),
        ("mail", "github__send_mail"),
        ("files", "files__read"),
        ("branch AND", "github__list_branches"),
        ('"mail" OR name:x NEAR(', "github__send_mail"),
    ],
)
def test_tools_are_found_by_words(query: str, first: str):
    """Of names, descriptions and servers; nothing of the index's own language is obeyed."""
    assert index().find(query, 3)[0].name == first


def test_words_of_scripts_without_spaces_are_found():
    """A part of a sentence is enough."""
    (found,) = index().find("天气预报", 3)
    assert found.description == TOOLS["天气"]


@pytest.mark.parametrize("query", ["", "  ", "???", "zzz"])
def test_nothing_is_found_by_nothing(query: str):
    """No words, or none that any tool has."""
    assert index().find(query, 3) == []


def served(name: str = "shop", *, count: int = 1, policy: Policy = ALLOW, **options: Any) -> Gateway:
    """Make a gateway with search, over one server with many tools."""
    server = Server(name)
    for number in range(count):
        server.tool(name=f"order_{number}", description=f"Order the thing number {number}")(lambda pieces=1: pieces)
    return Gateway({name: server}, Host(Scripted([]), policy=policy, reviewer=None), search=True, **options)


async def test_a_client_sees_two_tools_and_reaches_a_thousand():
    """What is found has a schema that the call can be made by."""
    async with Client(served(count=1_000).server) as client:
        assert [tool.name async for tool in client.tools()] == ["find_tools", "call_tool"]
        found = await client.call_tool("find_tools", {"query": "order thing 777", "limit": 2})
        first, second = json.loads(found.text)["tools"]
        assert first["name"] == "shop__order_777"
        assert first["inputSchema"]["properties"]["pieces"]
        assert second["name"] != first["name"]
        assert (await client.call_tool("call_tool", {"name": first["name"], "arguments": {"pieces": 3}})).text == "3"


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("call_tool", {"name": "shop__order"}, "There is no tool 'shop__order'. Did you mean shop__order_0?"),
        ("call_tool", {"name": "shop__order_0", "arguments": [1]}, "Expected `object` - at `$.arguments`"),
        ("call_tool", {}, "missing required field `name`"),
        ("find_tools", {"query": "x", "limit": MAX_RESULTS + 1}, "`$.limit`"),
        ("find_tools", {"query": "zzz"}, "No tool fits 'zzz'. Servers, with the number of their tools: shop (1)."),
        ("shop__order_0", {}, "There is no tool 'shop__order_0' here. Find tools with find_tools"),
    ],
)
async def test_a_mistake_is_told_so_that_a_model_can_mend_it(name: str, arguments: dict[str, Any], said: str):
    """As a result that it reads."""
    async with Client(served().server) as client:
        assert said in (await client.call_tool(name, arguments)).text


async def test_consent_is_to_the_tool_inside():
    """Rules, the record and the definition are those of the tool that is called, not of ``call_tool``."""
    rules = (Rule(effect="deny", kind="tool", name="order_1"), Rule(effect="allow", kind="tool", name="order_0"))
    gateway = served(count=2, policy=Policy(rules=rules, default="deny"))
    async with Client(gateway.server) as client:
        assert (await client.call_tool("call_tool", {"name": "shop__order_0"})).text == "1"
        refused = await client.call_tool("call_tool", {"name": "shop__order_1"})
        assert refused.is_error
        assert "the policy of this host refuses it" in refused.text


async def test_what_is_denied_is_not_found_either():
    """A filter holds for the tools that are searched."""
    async with Client(served(count=2, tools={"shop": ["!order_1"]}).server) as client:
        found = await client.call_tool("find_tools", {"query": "order"})
        assert [tool["name"] for tool in json.loads(found.text)["tools"]] == ["shop__order_0"]
        assert (await client.call_tool("call_tool", {"name": "shop__order_1"})).is_error


async def test_a_result_is_bounded():
    """Of definitions for which there is no room only the name is said."""
    server = Server("shop")
    for number in range(20):
        server.tool(name=f"order_{number}", description="order " * 2_000)(lambda: "")
    async with Client(Gateway({"shop": server}, Host(Scripted([]), policy=ALLOW), search=True).server) as client:
        found = await client.call_tool("find_tools", {"query": "order", "limit": 20})
        assert len(found.text) < MAX_RESULT + 5_000
        assert len(json.loads(found.text)["tools"]) == 20
        assert "leftOut" in json.loads(found.text)["tools"][-1]


async def test_a_tool_for_an_interface_alone_is_not_for_the_model():
    """Through ``call_tool`` no host could tell that the model calls it."""
    server = Server("shop")
    server.tool(name="press", ui="ui://shop/orders", visibility=["app"])(lambda: "pressed")
    gateway = Gateway({"shop": server}, Host(Scripted([]), policy=ALLOW, reviewer=None), search=True)
    async with Client(gateway.server) as client:
        result = await client.call_tool("call_tool", {"name": "shop__press"})
    assert result.is_error and "There is no tool 'shop__press'" in result.text
