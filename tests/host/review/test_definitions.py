"""What is shown of the servers behind a gateway."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from antiphon.host import Host, MemoryStore, Policy, Rule
from antiphon.host.review import definitions as behind_gateway
from antiphon.host.review.definitions import (
    MAX_KEPT,
    Digests,
    ShownServer,
    ShownTool,
    changes_of,
    collect_servers_shown,
    row_of,
)
from antiphon.wire.tools import Tool
from tests.host.asks import origin
from tests.host.pipeline.test_tool_consent import POISONED, TOOL, call

ALLOW = Policy(rules=(Rule(effect="allow", kind="tool"),))


class Behind:
    """A server with these tools."""

    def __init__(self, *tools: Tool) -> None:
        self.tools = tools

    @property
    def upstreams(self) -> Sequence[ShownServer]:
        tools = tuple(ShownTool(tool=tool, called=f"shop__{tool.name}") for tool in self.tools)
        return [
            ShownServer(name="shop", identity=origin().identity, target="shop", state="running", since=0.0, tools=tools)
        ]

    async def switch_tool(self, identity: str, tool: str, *, on: bool, by: str | None) -> None:
        raise AssertionError


async def shown(store: MemoryStore, *tools: Tool):
    """Return what is shown of its tools."""
    await store.gather()
    (server,) = await collect_servers_shown(Behind(*tools), store, Digests(), 86_400.0)
    return server


async def test_a_definition_is_new_allowed_or_changed():
    """As the host would say at the next call."""
    store = MemoryStore()
    host = Host(reviewer=None, policy=ALLOW, store=store)
    assert [tool.definition for tool in (await shown(store, TOOL)).tools] == ["new"]
    await host.confirm(call(), structs.replace(origin("1"), tool=TOOL))
    server = await shown(store, TOOL)
    assert server.calls == 1
    assert [tool.definition for tool in server.tools] == ["allowed"]
    (tool,) = (await shown(store, POISONED)).tools
    assert (tool.definition, tool.is_marked) == ("changed", True)
    assert any(line.sign == "+" for line in tool.changes or ())


async def test_many_tools_are_cut(monkeypatch):
    """And it is said how many more there are."""
    monkeypatch.setattr(behind_gateway, "MAX_TOOLS", 1)
    server = await shown(MemoryStore(), TOOL, structs.replace(TOOL, name="other"))
    assert (len(server.tools), server.more) == (1, 1)


TOOL_DEFINITIONS = Tool(name="order", input_schema={"type": "object"}, description="Order something\nOf the shop")


async def hashed(tool: Tool) -> str | None:
    """Return the hash of a definition."""
    return await Digests().of(origin().identity, tool)


async def test_the_order_of_members_does_not_matter():
    """A server may encode the same schema differently each time."""
    one, two = ({"type": "object", "properties": {}}, {"properties": {}, "type": "object"})
    assert await hashed(structs.replace(TOOL_DEFINITIONS, input_schema=one)) == await hashed(
        structs.replace(TOOL_DEFINITIONS, input_schema=two)
    )


async def test_a_large_definition_is_hashed_the_same_aside():
    """In a side process, because it would hold the event loop; its text is not kept."""
    large = structs.replace(TOOL_DEFINITIONS, description="x" * MAX_KEPT)
    found = await hashed(large)
    assert found is not None
    assert found == await hashed(structs.replace(large, icons=()))
    row = row_of(structs.replace(origin(), tool=large), large, found)
    assert row.body == ""
    assert changes_of(row.body, TOOL_DEFINITIONS) is None


async def test_changes_are_shown_line_by_line():
    """Of a long description the lines that differ, and of schemas, too."""
    body = row_of(origin(), TOOL_DEFINITIONS, "").body
    lines = changes_of(body, structs.replace(TOOL_DEFINITIONS, description="Order something\nOf any shop"))
    assert lines is not None
    assert [(line.sign, line.text) for line in lines if line.sign != " "] == [
        ("-", "    Of the shop"),
        ("+", "    Of any shop"),
    ]
    gone = changes_of(body, None)
    assert gone is not None
    assert {line.sign for line in gone} == {"-"}
