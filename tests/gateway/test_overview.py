"""The servers behind a gateway as the review page shows them, and its switches."""

from __future__ import annotations

import asyncio
import sys

import pytest

from antiphon import Client, Server
from antiphon.errors import PeerError
from antiphon.gateway import Gateway
from antiphon.host import Host, MemoryStore, Policy, Scripted
from antiphon.host.audit import Audit

ALLOW = Policy(default="allow")


def shop() -> Server:
    """Make a server with three tools."""
    server = Server("shop")
    for name in ("order", "stock", "delete"):
        server.tool(name=name)(lambda: "done")
    return server


def gateway(store: MemoryStore | None = None) -> Gateway:
    """Make a gateway in front of it that denies one of them."""
    host = Host(Scripted([]), policy=ALLOW, reviewer=None, store=store)
    return Gateway({"shop": shop()}, host, tools={"shop": ["!delete"]})


async def test_what_is_known_of_a_server_is_shown():
    """Its state, and its tools with the names that clients see; a denied one has none."""
    made = gateway()
    async with Client(made.server) as client:
        assert [tool.name async for tool in client.tools()] == ["shop__order", "shop__stock"]
        (server,) = made.upstreams
        assert (server.name, server.state, server.error) == ("shop", "running", None)
        assert {each.tool.name: each.called for each in server.tools} == {
            "order": "shop__order",
            "stock": "shop__stock",
            "delete": None,
        }


async def test_a_server_that_failed_is_shown_with_what_it_wrote():
    """The end of its standard error is where the reason is."""
    program = "import sys; sys.stderr.write('no key was given\\n'); sys.exit(3)"
    made = Gateway({"bad": [sys.executable, "-c", program]}, Host(Scripted([]), policy=ALLOW, reviewer=None))
    async with Client(made.server) as client:
        assert [tool async for tool in client.tools()] == []
        (server,) = made.upstreams
        assert server.state == "failed"
        assert "exit code 3" in (server.error or "")
        assert "no key was given" in server.heard


async def test_a_tool_is_switched_off_and_on():
    """Clients are told, and neither see nor reach it; the next gateway with the store does not show it either."""
    store = MemoryStore()
    made = gateway(store)
    async with Client(made.server) as client, client.listen(tools=True) as changes:
        assert len([tool async for tool in client.tools()]) == 2
        (server,) = made.upstreams
        await made.switch_tool(server.identity, "order", on=False, by="me")
        async with asyncio.timeout(30):
            assert (await anext(aiter(changes))).kind == "tools"
        assert [tool.name async for tool in client.tools()] == ["shop__stock"]
        with pytest.raises(PeerError, match="Unknown tool"):
            await client.call_tool("shop__order", {})
        (off,) = [each for each in made.upstreams[0].tools if each.is_off]
        assert (off.tool.name, off.called) == ("order", None)
    again = gateway(store)
    await again._shown.recall()
    async with Client(again.server) as client:
        assert [tool.name async for tool in client.tools()] == ["shop__stock"]
        await again.switch_tool(server.identity, "order", on=True, by="me")
        assert (await client.call_tool("shop__order", {})).text == "done"
    switched = [entry.record async for entry in Audit(store).entries() if entry.record.step == "changed"]
    assert [(each.by, each.outcome, each.tool) for each in switched] == [("me", "off", "order"), ("me", "on", "order")]
