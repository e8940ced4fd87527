"""Log messages through a gateway: those of a request reach its client, as loud as that client wants them."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon import Client, Context, Server
from antiphon.gateway import Gateway
from tests.support.behind_gateway import CELLS, host
from tests.support.raw_server import RawServer


def noisy(revision: str) -> Server:
    """Make a server that logs at two levels."""
    server = Server("noisy", revisions=[revision])

    @server.tool
    async def speak(word: str, ctx: Context) -> str:
        """Say it twice."""
        await ctx.debug(f"{word}, quietly")
        await ctx.warning({"word": word})
        return "said"

    return server


@pytest.mark.parametrize(("client_era", "server_era"), CELLS)
async def test_messages_of_a_request_reach_its_client(client_era: str, server_era: str):
    """At the level that each client wants; one that wants debug does not make another hear it."""
    gateway = Gateway({"noisy": noisy(server_era)}, host())
    loud: list[Any] = []
    quiet: list[Any] = []
    async with (
        Client(gateway.server, revision=client_era, log_level="warning", on_log=lambda m: quiet.append(m.data)) as one,
        Client(gateway.server, revision=client_era, log_level="debug", on_log=lambda m: loud.append(m.data)) as other,
    ):
        await one.call_tool("noisy__speak", {"word": "a"})
        await other.call_tool("noisy__speak", {"word": "b"})
        await one.call_tool("noisy__speak", {"word": "c"})
    assert quiet == [{"word": "a"}, {"word": "c"}]
    assert loud == ["b, quietly", {"word": "b"}]


async def test_a_client_that_does_not_want_any_hears_none():
    """At 2026-07-28 a request without a level asks for silence."""
    heard: list[Any] = []
    gateway = Gateway({"noisy": noisy("2025-11-25")}, host())
    async with Client(gateway.server, revision="2026-07-28", on_log=heard.append) as client:
        await client.call_tool("noisy__speak", {"word": "a"})
    assert heard == []


async def test_a_server_that_refuses_a_level_costs_nobody_the_call():
    """It declares logging, and answers each level with an error of its own."""
    server = RawServer(
        tools_list=lambda _: {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]},
        tools_call=lambda _: {"content": [{"type": "text", "text": "done"}]},
    )

    def refuse(message: dict[str, Any]) -> None:
        server.send({"id": message["id"], "error": {"code": -32603, "message": "not now"}})

    server.replies |= {"server/discover": refuse, "logging/setLevel": refuse}
    async with Client(Gateway({"raw": server}, host(), names="none").server, log_level="debug") as client:
        assert (await client.call_tool("t")).text == "done"
    assert "logging/setLevel" in [message.get("method") for message in server.received]
