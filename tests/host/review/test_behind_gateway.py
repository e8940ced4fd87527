"""What is shown of the servers behind a gateway."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from antiphon.host import Host, MemoryStore, Policy, Rule
from antiphon.host.review import behind_gateway
from antiphon.host.review.behind_gateway import ShownServer, ShownTool, shown_servers
from antiphon.host.review.definitions import Digests
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
    (server,) = await shown_servers(Behind(*tools), store, Digests(), 86_400.0)
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
