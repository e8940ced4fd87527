"""What a gateway does with a request: it arrives as it was sent, and so does what comes back."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon import Client, Context, Server
from antiphon.errors import InvalidParams, ResourceNotFound
from antiphon.gateway import Gateway
from antiphon.host import Host, Policy, Scripted
from antiphon.testing import Recorder
from tests.support.behind_gateway import CELLS, ERAS, host, shop


@pytest.mark.parametrize(("client_era", "server_era"), CELLS)
async def test_errors_arrive_as_they_were(client_era: str, server_era: str) -> None:
    """With their code, message and data."""
    gateway = Gateway({"shop": shop(server_era)}, host())
    async with Client(gateway.server, revision=client_era) as client:
        with pytest.raises(InvalidParams, match="Unknown tool: shop__nothing"):
            await client.call_tool("shop__nothing")
        with pytest.raises(ResourceNotFound) as caught:
            await client.read_resource("shop://hat/colour/x")
        assert caught.value.data == {"uri": "shop://hat/colour/x"}
        with pytest.raises(InvalidParams, match="topic"):
            await client.get_prompt("shop__ask", {"nothing": "x"})


async def test_a_refusal_is_a_result_for_the_model() -> None:
    """What the host does not let be called is no error of the protocol."""
    refusing = Host(Scripted([]), policy=Policy(default="deny"))
    async with Client(Gateway({"shop": shop(ERAS[0])}, refusing).server) as client:
        result = await client.call_tool("shop__count")
    assert result.is_error
    assert "refused" in result.text


async def test_what_belongs_to_one_connection_is_not_passed_on() -> None:
    """Members of anybody's in ``_meta`` arrive; the protocol's own are those of the connection behind."""
    behind = Server("inside")
    seen: list[dict[str, Any]] = []

    @behind.tool
    async def look(ctx: Context) -> str:
        seen.append(ctx.request.meta)
        return "seen"

    recorder = Recorder()
    async with Client(Gateway({"in": behind}, host()).server, revision="2026-07-28", wrap=recorder) as client:
        await client.call_tool("in__look", meta={"example.com/trace": "1", "io.modelcontextprotocol/odd": "2"})
    assert "io.modelcontextprotocol/odd" in recorder.sent("tools/call")[0]["_meta"]
    assert seen[0]["example.com/trace"] == "1"
    assert "io.modelcontextprotocol/odd" not in seen[0]
    assert "progressToken" not in seen[0]
