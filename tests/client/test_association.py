"""Over HTTP an ask comes on the stream of its call, so its origin is exact, and the limits are each call's own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from antiphon import Client, Context, RemoteProtocolError, Server
from antiphon.client.rounds.loop import RoundLimits
from antiphon.wire.origin import Origin
from tests.support.asgi import running


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"])
async def test_over_http_every_ask_knows_its_call(revision: str) -> None:
    """Many calls at once: each answerer is told the right one."""
    server = Server("s")

    @server.tool
    async def ask(text: str, ctx: Context) -> str:
        return " ".join([(await ctx.sample(text)).text for _ in range(3)])

    async def answer(params: Any, origin: Origin) -> str:
        await asyncio.sleep(0)
        assert origin.call is not None
        assert origin.call.arguments == {"text": params.messages[0].text}
        return origin.call.arguments["text"]

    async with (
        running(server.asgi()) as host,
        Client(f"http://{host}/mcp", sampling=answer, revision=revision) as client,
    ):
        calls = [client.call_tool("ask", {"text": str(n)}) for n in range(10)]
        results = await asyncio.gather(*calls)
    assert [result.text for result in results] == [" ".join([str(n)] * 3) for n in range(10)]


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_a_call_that_asks_too_much_is_given_up_alone(revision: str) -> None:
    """The one beside it goes on."""
    server = Server("s")
    gate = asyncio.Event()

    @server.tool
    async def ask(times: int, ctx: Context) -> str:
        for _ in range(times):
            await ctx.sample("?")
        await gate.wait()
        return "done"

    async def yes(_params: Any, _origin: Origin) -> str:
        return "yes"

    async with running(server.asgi()) as host:
        limits = RoundLimits(asks=5)
        async with Client(f"http://{host}/mcp", sampling=yes, revision=revision, limits=limits) as client:
            modest = asyncio.create_task(client.call_tool("ask", {"times": 5}))
            greedy = asyncio.create_task(client.call_tool("ask", {"times": 6}))
            with pytest.raises(RemoteProtocolError, match="more than 5 answers"):
                await greedy
            gate.set()
            assert (await modest).text == "done"


@pytest.mark.parametrize("passes", [1, 3, 10, 30])
async def test_calls_cancelled_at_once_take_no_other_with_them(passes: int) -> None:
    """Their asks are still on their way when the next call is made, which asks nothing."""
    server = Server("many")

    @server.tool
    async def ask(ctx: Context) -> str:
        return str(await asyncio.gather(*(ctx.sample(f"{n}?") for n in range(4))))

    @server.tool
    async def echo(text: str) -> str:
        return text

    async def never(_params: Any, _origin: Any) -> str:
        await asyncio.Event().wait()
        return ""

    async with Client(server, sampling=never, revision="2025-11-25") as client:
        for _ in range(3):
            calls = [asyncio.ensure_future(client.call_tool("ask")) for _ in range(60)]
            for _ in range(passes):
                await asyncio.sleep(0)
            for call in calls:
                call.cancel()
            assert (await client.call_tool("echo", {"text": "hi"})).text == "hi"
            await asyncio.gather(*calls, return_exceptions=True)
