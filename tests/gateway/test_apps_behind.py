"""Interfaces of tools through a gateway: nothing is lost, and models get no tool that is for an interface alone."""

from __future__ import annotations

import pytest

from antiphon import Client
from antiphon.gateway import Gateway
from tests.server.features.test_app_resources import HTML, URI, shop


@pytest.mark.parametrize("is_listed", [True, False])
async def test_tools_and_interfaces_pass_unchanged(is_listed):
    """Also an interface that its server does not list among its resources."""
    server = shop(connect=["https://api.example.com"])
    server.resources.get(URI).is_listed = is_listed
    async with Client(server) as client:
        direct = [tool.meta async for tool in client.tools()]
        read = await client.read_resource(URI)
    gateway = Gateway({"shop": server}, None, asks="relay")
    async with Client(gateway.server) as client:
        assert [tool.meta async for tool in client.tools()] == direct
        assert (await client.read_resource(URI)).contents == read.contents
        assert read.contents[0].text == HTML
        [shown] = gateway.upstreams
        origins = {each.tool.name: each.origins for each in shown.tools}
        assert origins == dict.fromkeys(["prices", "refresh"], ("https://api.example.com",) if is_listed else None)


async def test_a_search_finds_no_tool_for_the_interface_alone():
    """Hiding it from models is the host's duty."""
    gateway = Gateway({"shop": shop()}, None, asks="relay", search=True)
    async with Client(gateway.server) as client:
        found = await client.call_tool("find_tools", {"query": "prices list fetch again"})
        assert "shop__prices" in found.text
        assert "shop__refresh" not in found.text
