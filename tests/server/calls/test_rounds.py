"""Which calls there are: what a state goes on with, for how long, and what is refused."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from antiphon import Context
from antiphon.server.calls.request_state import refusal
from tests.support.catalogue import answered, catalogue, only
from tests.support.raw_client import raw_client, said, text

Json = dict[str, Any]


async def test_the_result_is_kept_for_a_client_that_lost_it() -> None:
    """The same retry again gets the same result, and nothing runs twice."""
    server, done = catalogue()
    async with raw_client(server) as client:
        round = await client.call("one", {"question": "q"})
        first = await answered(client, "one", round, "x", arguments={"question": "q"})
        second = await answered(client, "one", round, "other", arguments={"question": "q"})
    assert text(first) == text(second) == "x"
    assert done == ["began", "ended"]


async def test_an_older_state_gets_the_round_that_is_out() -> None:
    """A client that lost the second round's reply is told the question again."""
    server, _ = catalogue()
    async with raw_client(server) as client:
        first = await client.call("twice")
        second = await answered(client, "twice", first, "one")
        again = await answered(client, "twice", first, "changed my mind")
        result = await answered(client, "twice", second, "two")
    assert again["inputRequests"] == second["inputRequests"]
    assert text(result) == "two"


@pytest.mark.parametrize(
    ("name", "arguments", "damage"),
    [
        ("one", {"question": "q"}, lambda state: state[:-4]),
        ("one", {"question": "q"}, lambda state: state + "x"),
        ("one", {"question": "q"}, lambda _: "made up"),
        ("one", {"question": "q"}, lambda _: ""),
        ("one", {"question": "other"}, lambda state: state),
        ("both", {}, lambda state: state),
    ],
)
async def test_a_state_that_is_not_ours_is_refused_in_one_way(name: str, arguments: Json, damage: Any) -> None:
    """Tampered with, made up, or used for another call: one frozen message, and the real call is untouched."""
    server, _ = catalogue()
    async with raw_client(server) as client:
        round = await client.call("one", {"question": "q"})
        key, _ = only(round)
        params = {"requestState": damage(round["requestState"]), "inputResponses": {key: said("x")}}
        error = await client.error("tools/call", name=name, arguments=arguments, **params)
        result = await answered(client, "one", round, "fine", arguments={"question": "q"})
    assert (error["code"], error["message"]) == (-32602, refusal().message)
    assert text(result) == "fine"


async def test_states_of_two_live_calls_cannot_be_swapped() -> None:
    """Two calls of one tool with different arguments keep apart."""
    server, _ = catalogue()
    async with raw_client(server) as client:
        hat = await client.call("one", {"question": "hat"})
        cap = await client.call("one", {"question": "cap"})
        params = {"name": "one", "arguments": {"question": "hat"}, "inputResponses": {}}
        error = await client.error("tools/call", **params, requestState=cap["requestState"])
        result = await answered(client, "one", hat, "a hat", arguments={"question": "hat"})
    assert error["message"] == refusal().message
    assert text(result) == "a hat"


async def test_a_parked_call_ends_with_its_time_to_live() -> None:
    """Without a retry the handler is cancelled, its cleanup runs, and its state is worth nothing."""
    ended = asyncio.Event()
    server, _ = catalogue(parked_for=0.01)

    @server.tool
    async def tidy(ctx: Context) -> str:
        try:
            return (await ctx.sample("?")).text
        finally:
            ended.set()

    async with raw_client(server) as client:
        round = await client.call("tidy")
        async with asyncio.timeout(30):
            await ended.wait()
        error = await client.error("tools/call", name="tidy", arguments={}, requestState=round["requestState"])
    assert error["message"] == refusal().message


async def test_the_table_of_parked_calls_is_bounded() -> None:
    """The oldest call makes room; the others are untouched."""
    server, _ = catalogue(max_parked=2)
    async with raw_client(server) as client:
        rounds = [await client.call("one", {"question": str(n)}) for n in range(3)]
        params = {"name": "one", "arguments": {"question": "0"}, "requestState": rounds[0]["requestState"]}
        error = await client.error("tools/call", **params)
        result = await answered(client, "one", rounds[2], "still here", arguments={"question": "2"})
    assert error["message"] == refusal().message
    assert text(result) == "still here"


async def test_an_undeclared_capability_is_named() -> None:
    """Nothing is asked of a client that cannot answer: -32021 with what is missing."""
    server, _ = catalogue()
    async with raw_client(server) as client:
        error = await client.error("tools/call", name="one", arguments={"question": "q"}, capabilities={"roots": {}})
    assert error["code"] == -32021
    assert error["data"] == {"requiredCapabilities": {"sampling": {}}}


@pytest.mark.parametrize(
    ("method", "params", "read"),
    [
        ("prompts/get", {"name": "brief"}, lambda r: r["messages"][0]["content"]["text"]),
        ("resources/read", {"uri": "catalogue://hat"}, lambda r: r["contents"][0]["text"]),
    ],
)
async def test_prompts_and_resources_ask_as_well(method: str, params: Json, read: Any) -> None:
    """Rounds work in all three methods that may have them."""
    server, _ = catalogue()
    async with raw_client(server) as client:
        round = (await client.reply(client.modern(method, **params)))["result"]
        answers = {only(round)[0]: said("words")}
        retry = client.modern(method, **params, requestState=round["requestState"], inputResponses=answers)
        result = (await client.reply(retry))["result"]
    assert round["resultType"] == "input_required"
    assert read(result) == "words"


async def test_a_server_that_closes_ends_its_parked_calls() -> None:
    """Their cleanup runs before the lifespan ends; an ask in it fails instead of waiting for nobody."""
    server, done = catalogue()

    @server.tool
    async def stubborn(ctx: Context) -> str:
        try:
            return (await ctx.sample("?")).text
        finally:
            try:
                await ctx.sample("one more?")
            except Exception as error:
                done.append(str(error))

    async with raw_client(server) as client:
        await client.call("stubborn")
    assert done == ["The call has ended: nobody can answer any more; await every ask in it"]


async def test_calls_without_asks_leave_no_trace() -> None:
    """Only a call that has sent a round is kept."""
    server, _ = catalogue()

    @server.tool
    async def plain(ctx: Context) -> str:
        return ctx.request.revision

    async with raw_client(server) as client:
        for _ in range(3):
            await client.call("plain")
        assert server._service.rounds.parked == 0
        await client.call("both")
        assert server._service.rounds.parked == 1
