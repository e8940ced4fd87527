"""The same trace over every transport, as what travels has it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from antiphon import Client, Context, Server
from tests.support.network import listening as served
from tests.support.telemetry import id_of, listening, parent_of, trace_of

PROGRAM = """
from antiphon import Context, Server

server = Server("child")


@server.tool
async def carried(ctx: Context) -> str:
    return ctx.request.meta["traceparent"]


server.run()
"""


def make_server() -> Server:
    """Make a server that asks."""
    server = Server("served", tool_rate=None)

    @server.tool
    async def asking(ctx: Context) -> str:
        return (await ctx.sample("?")).text

    return server


async def answer(_params, _origin) -> str:
    """Answer a sampling request."""
    return "!"


@pytest.mark.parametrize(
    ("transport", "revision"),
    [("http", "2026-07-28"), ("http", "2025-11-25"), ("sse", "2024-11-05"), ("websocket", "2025-06-18")],
)
async def test_a_call_over_a_network_is_one_trace(transport: str, revision: str):
    """With the server's span below the client's, and the address of the server."""
    paths = {"http": "http://{}/mcp", "sse": "http://{}/sse", "websocket": "ws://{}/ws"}
    with listening() as heard:
        async with (
            served(make_server(), transport) as network,
            Client(paths[transport].format(network.place), revision=revision, sampling=answer) as client,
        ):
            await client.call_tool("asking")
    call = heard.span("tools/call asking", "CLIENT")
    assert {trace_of(span) for span in heard.spans} == {trace_of(call)}
    attributes, host = dict(call.attributes or {}), network.place.partition(":")
    assert (attributes["server.address"], attributes["server.port"]) == (host[0], int(host[2]))
    assert attributes["network.protocol.name"] == ("websocket" if transport == "websocket" else "http")
    for span in heard.named("tools/call asking", "SERVER"):
        assert parent_of(span) == id_of(call)
        assert (span.attributes or {})["network.transport"] == "tcp"
        assert (span.attributes or {}).get("mcp.session.id") == attributes.get("mcp.session.id")
    assert ("mcp.session.id" in attributes) == (revision == "2025-11-25")


async def test_a_child_process_is_told_the_trace(tmp_path: Path):
    """It need not listen itself; over pipes."""
    program = tmp_path / "child.py"
    program.write_text(PROGRAM, encoding="utf-8")
    with listening() as heard:
        async with Client([sys.executable, str(program)]) as client:
            result = await client.call_tool("carried")
    call = heard.span("tools/call carried")
    assert f"{trace_of(call):032x}-{id_of(call):016x}" in result.content[0].text
    assert (call.attributes or {})["network.transport"] == "pipe"
