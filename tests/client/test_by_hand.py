"""Going through the rounds of a call by hand: one step at a time, in one process or in two."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from antiphon import Client, Context, InvalidParams, LocalProtocolError, Rejected, RemoteProtocolError, Server
from antiphon.client.by_hand import BY_HAND
from antiphon.client.rounds.loop import PendingRound, RoundLimits
from antiphon.errors import ResultInvalid
from antiphon.testing import Recorder, Script
from antiphon.wire.elicitation import ElicitRequestParams, ElicitResult
from antiphon.wire.prompts import GetPromptResult
from antiphon.wire.resources import ReadResourceResult
from antiphon.wire.tools import CallToolResult
from tests.support.asgi import running
from tests.support.raw_server import RawServer

MODERN = "2026-07-28"


def shop() -> Server:
    """Make a server that asks in a tool, a prompt and a resource."""
    server = Server("shop")

    @server.tool
    async def describe(product: str, ctx: Context) -> str:
        first = await ctx.sample(f"Describe {product}", key="first")
        second = await ctx.sample("Shorter", key="second")
        return f"{first.text} {second.text}"

    @server.prompt
    async def greet(ctx: Context) -> str:
        return (await ctx.sample("A greeting")).text

    @server.resource("shop://today")
    async def today(ctx: Context) -> str:
        return (await ctx.sample("The weather")).text

    return server


async def pending_call(client: Client) -> PendingRound[CallToolResult]:
    """Begin the call that all of these go on with."""
    step = await client.rounds.call_tool("describe", {"product": "hat"})
    assert isinstance(step, PendingRound)
    return step


async def test_a_call_stops_at_each_round() -> None:
    """What is asked can be looked at; the answers are given by key."""
    async with Client(shop(), sampling=BY_HAND, revision=MODERN) as client:
        first = await pending_call(client)
        assert (first.method, first.number, first.asked) == ("tools/call", 1, 1)
        assert first.asks["first"].params.messages[0].text == "Describe hat"
        second = await client.rounds.resume(first, {"first": "A hat."})
        assert isinstance(second, PendingRound)
        assert (second.number, second.asked, second.call) == (2, 2, first.call)
        done = await client.rounds.resume(second, {"second": "Hat."})
    assert isinstance(done, CallToolResult)
    assert done.text == "A hat. Hat."


async def test_prompts_and_resources_have_rounds_too() -> None:
    """The result has the type of the method."""
    async with Client(shop(), sampling=BY_HAND, revision=MODERN) as client:
        prompt = await client.rounds.get_prompt("greet")
        assert isinstance(prompt, PendingRound)
        filled = await client.rounds.resume(prompt, dict.fromkeys(prompt.asks, "Hello!"))
        read = await client.rounds.read_resource("shop://today")
        assert isinstance(read, PendingRound)
        contents = await client.rounds.resume(read, dict.fromkeys(read.asks, "Rain."))
    assert isinstance(filled, GetPromptResult)
    assert isinstance(contents, ReadResourceResult)
    assert contents.contents[0].text == "Rain."


async def test_a_round_may_be_answered_by_the_clients_own_answerers() -> None:
    """The loop is then that of an automatic call, with a place to stand in between."""
    script = Script(["A hat.", "Hat."])
    async with Client(shop(), sampling=script, revision=MODERN) as client:
        step: Any = await pending_call(client)
        while isinstance(step, PendingRound):
            step = await client.rounds.resume(step, await client.rounds.answer(step))
    assert step.text == "A hat. Hat."
    assert [origin.round and origin.round.n for origin in script.origins] == [1, 2]
    assert len({origin.call.id for origin in script.origins if origin.call}) == 1


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25"])
async def test_before_rounds_the_result_comes_at_once(revision: str) -> None:
    """Asks come as requests there, and go to the answerers."""
    async with Client(shop(), sampling=Script(["A hat.", "Hat."]), revision=revision) as client:
        done = await client.rounds.call_tool("describe", {"product": "hat"})
        assert isinstance(done, CallToolResult)
        assert done.text == "A hat. Hat."


async def test_a_call_outlives_its_client(tmp_path: Path) -> None:
    """A round is written down; another client of the same server goes on with the call, its limits and its time."""
    kept = tmp_path / "round.json"
    async with running(shop().asgi()) as host:
        url = f"http://{host}/mcp"
        async with Client(url, sampling=BY_HAND, revision=MODERN, limits=RoundLimits(asks=2), timeout=30) as client:
            begun = await client.rounds.call_tool("describe", {"product": "hat"}, meta={"example.org/trace": "t"})
            kept.write_bytes(msgspec.json.encode(begun))
        back = msgspec.json.decode(kept.read_bytes(), type=PendingRound[CallToolResult])
        assert (back.limits.asks, back.meta) == (2, {"example.org/trace": "t"})
        assert back.remaining is not None
        assert 0 < back.remaining <= 30
        async with Client(url, sampling=BY_HAND, revision=MODERN) as another:
            second = await another.rounds.resume(back, {"first": "A hat."})
            assert isinstance(second, PendingRound)
            done = await another.rounds.resume(second, {"second": "Hat."})
    assert isinstance(done, CallToolResult)
    assert done.text == "A hat. Hat."


async def test_a_hook_may_keep_a_round_for_later() -> None:
    """It raises to give up the automatic call, and the call is gone on with by hand."""
    kept: list[PendingRound[Any]] = []

    class Later(Exception):
        pass

    async def keep(pending: PendingRound[Any]) -> None:
        kept.append(pending)
        raise Later

    script = Script(["Hat."])
    async with Client(shop(), sampling=script, revision=MODERN, on_round=keep) as client:
        with pytest.raises(Later):
            await client.call_tool("describe", {"product": "hat"})
        assert script.requests == []
        second = await client.rounds.resume(kept[0], {"first": "A hat."})
        assert isinstance(second, PendingRound)
        done = await client.rounds.resume(second, await client.rounds.answer(second))
    assert isinstance(done, CallToolResult)
    assert done.text == "A hat. Hat."


async def test_an_answer_that_is_left_out_is_asked_for_again() -> None:
    """2026-07-28 basic/patterns/mrtr, Error Handling."""
    server = Server("s")

    @server.tool
    async def both(ctx: Context) -> str:
        one, two = await asyncio.gather(ctx.sample("1", key="one"), ctx.sample("2", key="two"))
        return one.text + two.text

    async with Client(server, sampling=BY_HAND, revision=MODERN) as client:
        first = await client.rounds.call_tool("both")
        assert isinstance(first, PendingRound)
        second = await client.rounds.resume(first, {"one": "a"})
        assert isinstance(second, PendingRound)
        assert list(second.asks) == ["two"]
        done = await client.rounds.resume(second, {"two": "b"})
    assert isinstance(done, CallToolResult)
    assert done.text == "ab"


async def test_the_limits_go_along_with_the_call() -> None:
    """They count over all its rounds, in whichever client."""
    async with Client(shop(), sampling=BY_HAND, revision=MODERN, limits=RoundLimits(asks=1)) as client:
        first = await pending_call(client)
    async with Client(shop(), sampling=BY_HAND, revision=MODERN) as client:
        first = structs.replace(await pending_call(client), limits=first.limits)
        with pytest.raises(RemoteProtocolError, match="more than 1 answers"):
            await client.rounds.resume(first, {"first": "x"})


async def test_the_time_of_the_call_goes_along_too() -> None:
    """But for the time in which the round waited; another may be given."""
    async with Client(shop(), sampling=BY_HAND, revision=MODERN, timeout=None) as client:
        first = await pending_call(client)
        assert first.remaining is None
        spent = structs.replace(first, remaining=0.0)
        with pytest.raises(TimeoutError):
            await client.rounds.resume(spent, {"first": "x"})
        assert isinstance(await client.rounds.resume(spent, {"first": "x"}, timeout=5), PendingRound)


async def test_a_wrong_answer_is_refused_before_anything_is_sent() -> None:
    """One that fits no ask, or under a key that was not asked."""
    recorder = Recorder()
    async with Client(shop(), sampling=BY_HAND, revision=MODERN, wrap=recorder) as client:
        first = await pending_call(client)
        recorder.messages.clear()
        with pytest.raises(LocalProtocolError, match="no ask 'other': it has first"):
            await client.rounds.resume(first, {"other": "x"})
        with pytest.raises(LocalProtocolError, match="not with ElicitResult"):
            await client.rounds.resume(first, {"first": ElicitResult(action="accept")})
    assert recorder.messages == []


async def test_another_server_never_sees_the_state() -> None:
    """State and answers are for the server that asked (2026-07-28 basic/patterns/mrtr)."""
    async with Client(shop(), sampling=BY_HAND, revision=MODERN) as client:
        first = await pending_call(client)
    recorder = Recorder()
    async with Client(Server("other"), sampling=BY_HAND, revision=MODERN, wrap=recorder) as other:
        recorder.messages.clear()
        with pytest.raises(LocalProtocolError, match="made to another server"):
            await other.rounds.resume(first, {"first": "x"})
    assert recorder.messages == []


async def test_a_legacy_connection_cannot_go_on() -> None:
    """It has no way to send the answers."""
    async with Client(shop(), sampling=BY_HAND, revision=MODERN) as client:
        first = await pending_call(client)
    async with Client(shop(), sampling=BY_HAND, revision="2025-11-25") as legacy:
        with pytest.raises(LocalProtocolError, match="no rounds"):
            await legacy.rounds.resume(first, {"first": "x"})


async def test_a_state_that_the_server_no_longer_knows_is_its_to_refuse() -> None:
    """The client takes no view of it."""
    async with Client(shop(), sampling=BY_HAND, revision=MODERN) as client:
        first = await pending_call(client)
        with pytest.raises(InvalidParams):
            await client.rounds.resume(structs.replace(first, request_state="forged"), {"first": "x"})


async def test_what_is_answered_by_hand_is_offered() -> None:
    """Sampling with tools, forms and addresses; an automatic call is given up with a word on how to make it."""
    async with Client(shop(), sampling=BY_HAND, elicitation=BY_HAND, revision=MODERN) as client:
        with pytest.raises(Rejected, match="by hand"):
            await client.call_tool("describe", {"product": "hat"})
    server = RawServer(tools_call=lambda _: {"content": []})
    async with Client(server, sampling=BY_HAND, elicitation=BY_HAND, revision=MODERN) as client:
        await client.call_tool("t")
    meta = (await server.request("tools/call"))["params"]["_meta"]
    assert meta["io.modelcontextprotocol/clientCapabilities"] == {
        "sampling": {"tools": {}},
        "elicitation": {"form": {}, "url": {}},
    }


async def test_an_elicitation_may_be_answered_by_hand() -> None:
    """With a mapping, as an answerer would."""
    server = Server("s")

    @server.tool
    async def name(ctx: Context) -> str:
        given = await ctx.elicit("name?", str)
        return f"{given.action} {given.value}"

    async with Client(server, elicitation=BY_HAND, revision=MODERN) as client:
        step = await client.rounds.call_tool("name")
        assert isinstance(step, PendingRound)
        ((key, ask),) = step.asks.items()
        assert isinstance(ask.params, ElicitRequestParams)
        (field,) = (ask.params.requested_schema or {})["properties"]
        done = await client.rounds.resume(step, {key: {field: "Ann"}})
    assert isinstance(done, CallToolResult)
    assert done.text == "accept Ann"


async def test_structured_content_is_checked_here_too() -> None:
    """As it is by an automatic call."""
    tool = {"name": "t", "inputSchema": {"type": "object"}, "outputSchema": {"type": "object", "required": ["n"]}}
    server = RawServer(
        tools_call=lambda _: {"content": [], "structuredContent": {}},
        tools_list=lambda _: {"tools": [tool], "ttlMs": 0, "cacheScope": "private"},
    )
    async with Client(server, sampling=BY_HAND, revision=MODERN) as client:
        with pytest.raises(ResultInvalid, match="output schema"):
            await client.rounds.call_tool("t")
