"""The connection of a long call is cut after each of its messages."""

from __future__ import annotations

import json

import pytest

from antiphon import Context, Server
from antiphon.channel import Frame
from antiphon.transports.http_client.channel import HttpClientChannel
from antiphon.transports.http_client.failures import BROKEN
from tests.support.asgi import running
from tests.support.cutting import cutting
from tests.support.web import ask, tell

server = Server("long", version="1")


@server.tool
async def describe(ctx: Context) -> str:
    """Say something, ask something, say something."""
    for step in range(1, 4):
        await ctx.progress(step)
    reply = await ctx.sample("?", max_tokens=10)
    await ctx.progress(4)
    return reply.text


CALL = {"name": "describe", "arguments": {}}
ANSWER = {"role": "assistant", "content": {"type": "text", "text": "done"}, "model": "m"}


async def conversation(channel, id):
    """Call the tool, answer what it asks; return all that arrived up to the reply."""
    arrived = []
    while not arrived or arrived[-1].get("id") != id or "method" in arrived[-1]:
        frames = await channel.receive()
        assert frames, channel.closed_error()
        for message in map(json.loads, frames):
            arrived.append(message)
            if message.get("method") == "sampling/createMessage":
                channel.send(Frame(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": ANSWER}).encode()))
    return arrived


# The priming event, three reports, the ask, a report: the reply is last, and after it nothing is left to lose.
@pytest.mark.parametrize("after", [1, 2, 4, 5, 6])
async def test_a_legacy_call_loses_and_repeats_nothing(after):
    """2025-11-25: it is resumed where it was cut."""
    async with running(server.asgi()) as host, cutting(host, after) as (cut, through):
        channel = await HttpClientChannel.open(f"http://{through}/mcp")
        client = {"capabilities": {"sampling": {}}, "clientInfo": {"name": "c", "version": "1"}}
        channel.send(ask(1, "initialize", protocolVersion="2025-11-25", **client))
        await conversation(channel, 1)
        await channel.send(tell("notifications/initialized"))
        channel.send(ask(2, "tools/call", **CALL, _meta={"progressToken": 2}))
        arrived = await conversation(channel, 2)
        await channel.close()
    assert cut.done
    told = [each["params"]["progress"] for each in arrived if each.get("method") == "notifications/progress"]
    assert told == [1, 2, 3, 4]
    assert sum(each.get("method") == "sampling/createMessage" for each in arrived) == 1
    assert arrived[-1]["result"]["content"][0]["text"] == "done"


@pytest.mark.parametrize("after", [1, 3])
async def test_a_modern_call_is_reported_as_broken(after):
    """2026-07-28: it cannot be resumed, and nobody knows what was done."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"sampling": {}},
        "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
        "progressToken": 1,
    }
    async with running(server.asgi()) as host, cutting(host, after) as (cut, through):
        channel = await HttpClientChannel.open(f"http://{through}/mcp")
        channel.send(ask(1, "tools/call", **CALL, _meta=meta))
        arrived = await conversation(channel, 1)
        await channel.close()
    assert cut.done
    assert [each["params"]["progress"] for each in arrived[:-1]] == [1, 2, 3][:after]
    assert arrived[-1]["error"]["code"] == BROKEN
