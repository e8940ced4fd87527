"""The servers of one kind of client: what is nobody's is said to be so, once all have been asked."""

from __future__ import annotations

import asyncio

import pytest

from antiphon import Server
from antiphon.errors import InvalidParams, ResourceNotFound
from antiphon.gateway.group import PrincipalGroup
from antiphon.gateway.offer import Kind
from antiphon.gateway.relayed_asks import by_host
from antiphon.gateway.server_catalogue import Exposure, ServerItem
from antiphon.gateway.terms import GatewayTerms, Processes
from antiphon.host import Host, Policy, Scripted


async def test_names_are_looked_up_once_all_have_started():
    """And every change of one is told."""
    host = Host(Scripted([]), policy=Policy(default="allow"))
    one, two, told = Server("one"), Server("two"), asyncio.Queue[Kind]()
    one.tool(name="x")(lambda: "x")
    two.prompt(name="p")(lambda: "p")
    group = PrincipalGroup(
        {"one": one, "two": two},
        GatewayTerms(host=host, processes=Processes(8, 30.0), timeout=30, start_timeout=30, idle_timeout=None),
        lambda: by_host(host),
        exposure=Exposure(),
        changed=told.put_nowait,
    )
    group.start()
    assert await group.owned("tool", "one__x") == ServerItem("one", "x")
    assert await group.owned("prompt", "two__p") == ServerItem("two", "p")
    for unknown in (group.owned("tool", "two__x"), group.template("x://{y}")):
        with pytest.raises(InvalidParams, match="Unknown"):
            await unknown
    with pytest.raises(ResourceNotFound):
        await group.reader("x://y")
    one.tool(name="y")(lambda: "y")
    async with asyncio.timeout(30):
        assert await told.get() == "tools"
    assert await group.owned("tool", "one__y") == ServerItem("one", "y")
    await group.close()
