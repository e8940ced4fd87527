"""The parts for other people's tests, as they use them."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon import CallTimeout, Context, Host, Rejected, SamplingUnavailable, Server
from antiphon.testing import Recorder, Script, Scripted, connected
from antiphon.wire.content import TextContent, ToolUseContent
from antiphon.wire.sampling import CreateMessageResult

ERAS = ["2025-11-25", "2026-07-28"]


def shop() -> Server:
    """Make a server that asks."""
    server = Server("shop")

    @server.tool
    async def describe(product: str, ctx: Context) -> str:
        return (await ctx.sample(f"Describe {product}")).text

    return server


@pytest.mark.parametrize("revision", ERAS)
async def test_a_connected_client_calls(revision: str) -> None:
    """Options are the client's."""
    async with connected(shop(), sampling=Script(["warm"]), revision=revision) as client:
        assert client.revision == revision
        assert (await client.call_tool("describe", {"product": "hat"})).text == "warm"


async def test_what_hangs_fails() -> None:
    """There is a deadline unless another is given."""
    async with connected(Server("s")) as client:
        assert client.timeout == 5
    server = Server("s")

    @server.tool
    async def hang(ctx: Context) -> str:
        return (await ctx.elicit("?", {"type": "object", "properties": {}})).action

    async def never(*_: Any) -> None:
        raise CallTimeout("nobody there")

    async with connected(server, elicitation=never, timeout=1) as client:
        assert client.timeout == 1
        with pytest.raises(CallTimeout, match="nobody there"):
            await client.call_tool("hang")


async def test_a_recorder_keeps_what_passes_in_order() -> None:
    """Decoded, both ways, replies with the method of their request."""
    recorder = Recorder()
    async with connected(shop(), sampling=Script(["warm"]), wrap=recorder, revision="2025-11-25") as client:
        await client.call_tool("describe", {"product": "hat"})
    passed = [(one.direction, one.kind, one.method) for one in recorder.messages]
    assert passed[-4:] == [
        ("sent", "request", "tools/call"),
        ("received", "request", "sampling/createMessage"),
        ("sent", "result", "sampling/createMessage"),
        ("received", "result", "tools/call"),
    ]
    assert recorder.sent("tools/call") == [{"name": "describe", "arguments": {"product": "hat"}}]
    assert recorder.received("tools/call")[0]["content"] == [{"type": "text", "text": "warm"}]
    assert len(recorder.sent()) + len(recorder.received()) == len(recorder.messages)


async def test_one_recorder_serves_several_clients() -> None:
    """What they send is told in one list."""
    recorder = Recorder()
    for _ in range(2):
        async with connected(shop(), wrap=recorder) as client:
            await client.list_tools()
    assert len(recorder.sent("tools/list")) == 2


async def test_a_script_answers_in_order_and_remembers() -> None:
    """Texts, results and refusals; what was asked and why."""
    answer = CreateMessageResult(role="assistant", content=TextContent(text="second"), model="m")
    script = Script(["first", answer, Rejected("no")])
    async with connected(shop(), sampling=script, revision="2025-11-25") as client:
        results = [await client.call_tool("describe", {"product": str(number)}) for number in range(4)]
    assert [result.text for result in results[:2]] == ["first", "second"]
    assert [result.is_error for result in results] == [False, False, True, True]
    assert [params.messages[0].text for params in script.requests] == [f"Describe {number}" for number in range(4)]
    assert script.origins[0].call is not None
    assert script.origins[0].call.name == "describe"


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_a_script_offers_tools_where_they_are_wanted(revision: str) -> None:
    """Handlers that sample with tools are tested without a host."""
    server = Server("shop")

    def stock(product: str) -> int:
        """Count what is left."""
        return len(product)

    @server.tool
    async def advise(ctx: Context) -> str:
        """Advise."""
        try:
            return (await ctx.sample("Are there hats?", tools=[stock])).text
        except SamplingUnavailable as error:
            return str(error)

    looks = CreateMessageResult(
        role="assistant",
        model="m",
        stop_reason="toolUse",
        content=[ToolUseContent(id="1", name="stock", input={"product": "hat"})],
    )
    script = Script([looks, "three"], offers_tools=True)
    async with connected(server, sampling=script, revision=revision) as client:
        assert (await client.call_tool("advise")).text == "three"
    assert len(script.requests) == 2
    async with connected(server, sampling=Script(["three"]), revision=revision) as client:
        assert "does not offer sampling.tools" in (await client.call_tool("advise")).text


async def test_a_scripted_provider_stands_behind_a_host() -> None:
    """Where the host's own decisions are under test."""
    provider = Scripted(["warm"])
    host = Host(provider, reviewer=None, review="never")
    async with connected(shop(), sampling=host) as client:
        assert (await client.call_tool("describe", {"product": "hat"})).text == "warm"
    assert len(provider.requests) == 1
