"""What a server offers: fetched whole, or only what has changed; compared kind by kind."""

from __future__ import annotations

import pytest

from antiphon import Client, Server
from antiphon.gateway import Gateway
from antiphon.gateway.offer import Offer, changes, fetch
from tests.support.behind_gateway import ERAS, host
from tests.support.raw_server import CAPABILITIES, RawServer

TOOLS = {"tools": [{"name": "x", "inputSchema": {"type": "object"}}]}
DONE = {"content": [{"type": "text", "text": "done"}]}
MODERN = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


async def test_only_what_has_changed_is_fetched():
    """The rest stays as it was."""
    server = Server("one")
    server.tool(name="x")(lambda: "x")
    server.prompt(name="p")(lambda: "p")
    server.add_resource("one://r", "r")
    async with Client(server) as client:
        whole = await fetch(client, Offer())
        assert changes(Offer(), whole) == ["tools", "prompts", "resources"]
        server.tool(name="y")(lambda: "y")
        server.prompt(name="q")(lambda: "q")
        part = await fetch(client, whole, ["tools"])
        assert [tool.name for tool in part.tools] == ["x", "y"]
        assert changes(whole, part) == ["tools"]
        assert changes(part, await fetch(client, part)) == ["prompts"]


@pytest.mark.parametrize("revision", ERAS)
async def test_a_server_keeps_what_it_lists_if_it_does_not_know_another_list(revision: str):
    """It declares everything, and knows tools alone: lists, calls, log levels and completion work through a gateway."""
    extra = MODERN if revision == ERAS[1] else {}
    server = RawServer(
        tools_list=lambda _: TOOLS | extra,
        tools_call=lambda _: DONE | extra,
        **({"server_discover": _discover} if extra else {}),
    )
    gateway = Gateway({"raw": server}, host())
    async with Client(gateway.server, revision=ERAS[0], log_level="debug") as client:
        assert [tool.name async for tool in client.tools()] == ["raw__x"]
        assert [one async for one in client.prompts()] == [one async for one in client.resources()] == []
        assert (await client.call_tool("raw__x")).text == "done"


def _discover(_message: object) -> dict[str, object]:
    return MODERN | {
        "supportedVersions": [ERAS[1]],
        "capabilities": CAPABILITIES,
        "serverInfo": {"name": "raw", "version": "1"},
    }


async def test_a_server_that_does_not_know_completion_suggests_nothing():
    """The gateway declares completion for all servers."""
    template = {"resourceTemplates": [{"uriTemplate": "raw://{x}", "name": "x"}]}
    server = RawServer(
        resources_templates_list=lambda _: template,
        initialize=lambda message: {
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": CAPABILITIES | {"completions": {}},
            "serverInfo": {"name": "raw", "version": "1"},
        },
    )
    async with Client(Gateway({"raw": server}, host()).server) as client:
        completion = await client.complete("raw://{x}", "x", "a")
    assert list(completion.completion.values) == []


async def test_a_client_connects_to_a_server_that_declares_logging_only():
    """Its log level cannot be set."""
    async with Client(RawServer(), log_level="debug") as client:
        assert [tool async for tool in client.tools()] == []
