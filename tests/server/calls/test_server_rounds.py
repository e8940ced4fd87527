"""Which calls there are: what a state goes on with, for how long, and what is refused."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import Raw

from antiphon import Context
from antiphon.server.calls.parked_call import RoundCall
from antiphon.server.calls.server_rounds import EndedCall, KeptCalls
from antiphon.server.state.request_state import make_refusal
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
    assert (error["code"], error["message"]) == (-32602, make_refusal().message)
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
    assert error["message"] == make_refusal().message
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
    assert error["message"] == make_refusal().message


async def test_the_table_of_parked_calls_is_bounded() -> None:
    """The oldest call makes room; the others are untouched."""
    server, _ = catalogue(max_parked=2)
    async with raw_client(server) as client:
        rounds = [await client.call("one", {"question": str(n)}) for n in range(3)]
        params = {"name": "one", "arguments": {"question": "0"}, "requestState": rounds[0]["requestState"]}
        error = await client.error("tools/call", **params)
        result = await answered(client, "one", rounds[2], "still here", arguments={"question": "2"})
    assert error["message"] == make_refusal().message
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


def ended(owner: str | None = None) -> EndedCall:
    """Make what is left of a call."""
    return EndedCall(run=b"", replayed_from=b"", generation=1, owner=owner, reply=Raw(b"{}"), is_error=False)


@pytest.fixture
def left() -> list[str]:
    """Why parked calls had to go."""
    return []


def parked(owner: str | None = None, weight: int = 1) -> Any:
    """Make a call that is parked: for the table, one with an owner and a weight."""
    call = RoundCall.__new__(RoundCall)
    call.owner = owner
    call._held = weight
    call.generation = 1
    call._pending = {}
    return call


def table(left: list[str], ttl: float = 60.0, limit: int = 8, room: int = 1_000) -> KeptCalls:
    """Make a table that notes who leaves."""
    return KeptCalls(ttl, limit, room, lambda call, reason: left.append(reason))


async def test_the_oldest_leaves_when_it_is_full(left: list[str]) -> None:
    """Touched again, a call is young again."""
    kept = table(left, limit=2)
    for id in (b"a", b"b", b"a", b"c"):
        kept.keep(id, parked())
    assert [kept.get(id) is not None for id in (b"a", b"b", b"c")] == [True, False, True]
    assert left == ["too many calls wait"]
    kept.clear()


async def test_a_known_client_has_a_quarter(left: list[str]) -> None:
    """Beyond it its own oldest leaves, and nobody else's."""
    kept = table(left, limit=8)
    kept.keep(b"other", parked("other"))
    for number in range(5):
        kept.keep(bytes([number]), parked("greedy"))
    assert len(kept) == 3
    assert kept.get(b"other") is not None
    assert left == ["too many calls of this client wait"] * 3
    kept.clear()


async def test_a_kept_reply_leaves_without_a_word(left: list[str]) -> None:
    """There is no handler that could be told."""
    kept = table(left, limit=1)
    kept.keep(b"a", ended())
    kept.keep(b"b", ended())
    assert left == []
    assert kept.get(b"a") is None
    kept.clear()


async def test_a_call_may_become_its_result(left: list[str]) -> None:
    """The same place, no room needed."""
    kept = table(left, limit=1)
    kept.keep(b"a", parked("ann"))
    kept.keep(b"a", ended("ann"))
    assert isinstance(kept.get(b"a"), EndedCall)
    assert left == []
    kept.forget(b"a")
    kept.forget(b"a")
    assert len(kept) == 0


async def test_time_clears_it(left: list[str]) -> None:
    """Each entry leaves after its own time; the timer rests when nothing is kept."""
    gone = asyncio.Event()

    def leave(call: RoundCall, reason: str) -> None:
        left.append(f"{call.owner}: {reason}")
        if len(left) == 2:
            gone.set()

    kept = KeptCalls(0.03, 8, 1_000, leave)
    kept.keep(b"a", parked("ann"))
    kept.keep(b"b", parked("bob"))
    kept.keep(b"a", parked("ann"))
    async with asyncio.timeout(30):
        await gone.wait()
    assert left == ["bob: no retry came in time", "ann: no retry came in time"]
    assert len(kept) == 0


async def test_one_timer_serves_all(monkeypatch: pytest.MonkeyPatch, left: list[str]) -> None:
    """Ten thousand parked calls must not be ten thousand timers."""
    loop, timers = asyncio.get_running_loop(), SimpleNamespace(made=0)
    call_later = loop.call_later

    def counted(*arguments: Any, **options: Any) -> asyncio.TimerHandle:
        timers.made += 1
        return call_later(*arguments, **options)

    monkeypatch.setattr(loop, "call_later", counted)
    kept = table(left, limit=1_000, room=1_000_000)
    for number in range(500):
        kept.keep(number.to_bytes(2, "big"), ended())
    assert (timers.made, len(kept)) == (1, 500)
    kept.clear()


async def test_bytes_are_bounded_as_well(left: list[str]) -> None:
    """A few calls with much in them push out the oldest; the last one stays, whatever it weighs."""
    kept = table(left, room=1_000)
    for number, weight in enumerate((400, 400, 400)):
        kept.keep(bytes([number]), parked(weight=weight))
    assert (len(kept), len(left)) == (2, 1)
    kept.keep(b"heavy", parked(weight=5_000))
    assert (len(kept), len(left)) == (1, 3)
    kept.keep(b"heavy", parked(weight=1))
    kept.keep(b"light", parked(weight=1))
    assert len(kept) == 2
    kept.clear()


async def test_a_known_client_has_a_quarter_of_the_bytes(left: list[str]) -> None:
    """Its own oldest leave, and nobody else's."""
    kept = table(left, room=1_000, limit=100)
    kept.keep(b"other", parked("other", 200))
    for number in range(5):
        kept.keep(bytes([number]), parked("greedy", 100))
    assert len(kept) == 3
    assert left == ["too many calls of this client wait"] * 3
    kept.clear()
