"""A hostile client of a server that asks: what it forges, repeats, abandons or sends too much of gains it nothing.

The refusals and floods one by one; sequences of all of them at random are in ``test_hostile_sequences``.
"""

from __future__ import annotations

import asyncio
import gc
import os
import time
import tracemalloc
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import Counter
from typing import Any

import pytest

from antiphon import Context, Server
from antiphon.server.calls.parked_call import MAX_LEGS
from antiphon.server.state.request_state import MAX_STATE, make_refusal
from tests.support.cluster import KEY, cluster
from tests.support.raw_client import RawClient, raw_client, said, text

Json = dict[str, Any]
FROZEN = {"code": -32602, "message": make_refusal().message}
MIB = 1024 * 1024


def catalogue(**options: Any) -> tuple[Server, Counter[str]]:
    """Make a server whose tools ask, and the count of what their bodies came to."""
    server, done = Server("catalogue", **options), Counter[str]()

    async def ask(question: str, ctx: Context) -> str:
        done["began"] += 1
        try:
            return (await ctx.sample(question)).text
        finally:
            done["ended"] += 1

    server.tool(name="one")(ask)
    server.tool(name="other")(ask)
    return server, done


async def begin(client: RawClient, question: str = "q", name: str = "one") -> Json:
    """Begin a call; return the params of a good retry."""
    arguments = {"question": question}
    round = await client.call(name, arguments)
    (key,) = round["inputRequests"]
    answers = {key: said(f"re: {question}")}
    return {"name": name, "arguments": arguments, "requestState": round["requestState"], "inputResponses": answers}


async def errors(client: RawClient, *retries: Json) -> list[Json]:
    """Send retries all at once; return their errors."""
    ids = [client.modern("tools/call", **retry) for retry in retries]
    return [(await client.reply(id)).get("error") or {} for id in ids]


async def result(client: RawClient, retry: Json) -> str:
    """Send a retry that must succeed; return its text."""
    reply = await client.reply(client.modern("tools/call", **retry))
    assert "result" in reply, reply
    return text(reply["result"])


def flipped(data: bytes) -> list[bytes]:
    """Return every variant of some bytes that differs from them in one bit."""
    return [
        data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :]
        for place in range(len(data))
        for bit in range(8)
    ]


# --- states that are not what they were ---------------------------------------------------------------------------


@pytest.mark.parametrize("at", [0, 1], ids=["where it is parked", "where it would be replayed"])
async def test_every_flipped_bit_is_refused(at: int) -> None:
    """Of a state with a journal in it; no handler is run again, and the true state still works at both processes."""
    runs: list[int] = []

    async def tool(ctx: Context) -> str:
        runs.append(1)
        return (await ctx.sample("a?")).text + (await ctx.sample("b?")).text

    async with cluster(tool) as processes:
        round = await processes.go_on(0, await processes.begin(), "A")
        state, count = round["requestState"], len(runs)
        forged = [urlsafe_b64encode(each).decode() for each in flipped(urlsafe_b64decode(state))]
        forged += [each.decode("ascii") for each in flipped(state.encode()) if each.isascii()]
        retry = {"name": "tool", "arguments": {}, "inputResponses": dict.fromkeys(round["inputRequests"], said("B"))}
        for start in range(0, len(forged), 500):
            batch = [{**retry, "requestState": each} for each in forged[start : start + 500]]
            assert await errors(processes.clients[at], *batch) == [FROZEN] * len(batch)
        assert len(runs) == count
        assert text(await processes.go_on(at, round, "B")) == "AB"


@pytest.mark.parametrize("keys", [(), (KEY,)], ids=["alone", "shared"])
async def test_every_truncation_is_refused(keys: tuple[bytes, ...]) -> None:
    """From either end, with padding made up for it or not; and so is anything added."""
    server, done = catalogue(keys=keys)
    async with raw_client(server) as client:
        retry = await begin(client)
        state = retry["requestState"]
        cut = [state[:end] for end in range(len(state))] + [state[start:] for start in range(1, len(state))]
        padded = [each.rstrip("=") + "=" * (-len(each.rstrip("=")) % 4) for each in cut if each.rstrip("=")]
        added = [state + "A", state + "AAAA", state + "=", " " + state, state + "\n", state * 2, state.swapcase()]
        forged = [each for each in {*cut, *padded, *added} if each != state]
        assert await errors(client, *({**retry, "requestState": each} for each in forged)) == [FROZEN] * len(forged)
        assert await result(client, retry) == "re: q"
    assert done["began"] == 1


async def test_every_flipped_bit_is_refused_where_the_call_is_known_by_its_id() -> None:
    """A process alone finds a call without opening its state: only the very state that it sent will do."""
    server, done = catalogue()
    async with raw_client(server) as client:
        retry = await begin(client)
        state = retry["requestState"]
        forged = [urlsafe_b64encode(each).decode() for each in flipped(urlsafe_b64decode(state + "=="))]
        forged += [each.decode("ascii") for each in flipped(state.encode()) if each.isascii()]
        for start in range(0, len(forged), 500):
            batch = [{**retry, "requestState": each} for each in forged[start : start + 500]]
            assert await errors(client, *batch) == [FROZEN] * len(batch)
        assert await result(client, retry) == "re: q"
    assert done["began"] == 1


@pytest.mark.parametrize("keys", [(), (KEY,)], ids=["alone", "shared"])
async def test_a_retry_may_spell_its_arguments_otherwise(keys: tuple[bytes, ...]) -> None:
    """Clients decode and encode them again; the call goes on, and its end is told to who asks again."""
    server, done = catalogue(keys=keys)

    @server.tool
    async def deal(amount: float, to: str, ctx: Context) -> str:
        return f"{amount:g} to {to}: {(await ctx.sample('May I?')).text}"

    async with raw_client(server) as client:
        round = await client.call("deal", {"amount": 1.0, "to": "hat"})
        answers = dict.fromkeys(round["inputRequests"], said("yes"))
        retry = {"name": "deal", "requestState": round["requestState"], "inputResponses": answers}
        spelled = [{**retry, "arguments": each} for each in ({"to": "hat", "amount": 1}, {"amount": 1.0, "to": "hat"})]
        assert [await result(client, each) for each in spelled] == ["1 to hat: yes"] * 2
        assert await errors(client, {**retry, "arguments": {"to": "hat", "amount": 2}}) == [FROZEN]
    assert not done


@pytest.mark.parametrize("keys", [(), (KEY,)], ids=["alone", "shared"])
async def test_a_state_serves_nothing_but_its_own_call(keys: tuple[bytes, ...]) -> None:
    """Swapped between two live calls, two tools, or two sets of arguments: refused, and both calls go on."""
    server, done = catalogue(keys=keys)
    async with raw_client(server) as client:
        hat, cap = await begin(client, "hat"), await begin(client, "cap")
        other = await begin(client, "hat", "other")
        swapped = [
            {**hat, "requestState": cap["requestState"]},
            {**cap, "requestState": hat["requestState"]},
            {**hat, "requestState": other["requestState"]},
            {**hat, "name": "other"},
            {**hat, "arguments": {"question": "hat", "more": 1}},
            {**hat, "arguments": {"question": ["hat"]}},
        ]
        assert await errors(client, *swapped) == [FROZEN] * len(swapped)
        assert [await result(client, each) for each in (hat, cap, other)] == ["re: hat", "re: cap", "re: hat"]
    assert done == {"began": 3, "ended": 3}


@pytest.mark.parametrize("keys", [(), (KEY,)], ids=["alone", "shared"])
async def test_a_state_serves_nobody_but_its_principal(keys: tuple[bytes, ...]) -> None:
    """Not another user, not somebody unknown; and nobody's state serves no user."""
    server, done = catalogue(keys=keys)
    async with (
        raw_client(server, principal="alice") as alice,
        raw_client(server, principal="bob") as bob,
        raw_client(server) as nobody,
    ):
        hers, nobodys = await begin(alice), await begin(nobody)
        assert await errors(bob, hers, nobodys) == [FROZEN] * 2
        assert await errors(nobody, hers) == [FROZEN]
        assert await errors(alice, nobodys) == [FROZEN]
        assert await result(alice, hers) == await result(nobody, nobodys) == "re: q"
    assert done["began"] == 2


@pytest.mark.parametrize("options", [{"keys": [os.urandom(32)]}, {"name": "other"}, {"code_version": "2"}, {}])
async def test_a_state_serves_no_other_server(options: Json) -> None:
    """One with other keys, another name, or another version; nor one that is alone with a key of its own."""
    first, _ = catalogue(keys=[KEY])
    alone = {} if not options else {"keys": [KEY]}
    second = Server(**{"name": "catalogue", **alone, **options})
    began: list[int] = []

    async def ask(question: str, ctx: Context) -> str:
        began.append(1)
        return (await ctx.sample(question)).text

    second.tool(name="one")(ask)
    async with raw_client(first) as here, raw_client(second) as there:
        assert await errors(there, await begin(here)) == [FROZEN]
    assert began == []


@pytest.mark.parametrize("options", [{"parked_for": 600.0}, {"keys": [KEY], "state_for": 900.0}])
async def test_an_expired_state_is_refused(options: Json, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the wall clock, with 30 seconds for clocks that differ: also where the call is still parked."""
    server, _ = catalogue(**options)
    lasts = options.get("state_for") or options["parked_for"]
    async with raw_client(server) as client:
        retry, began = await begin(client), time.time()
        monkeypatch.setattr("time.time", lambda: began + lasts + 31)
        assert await errors(client, retry) == [FROZEN]
        monkeypatch.setattr("time.time", lambda: began + lasts + 29)
        assert await result(client, retry) == "re: q"


@pytest.mark.parametrize("keys", [(), (KEY,)], ids=["alone", "shared"])
@pytest.mark.parametrize("size", [MAX_STATE, MAX_STATE + 4, 1_000_000, 12 * MIB])
async def test_a_very_long_state_is_refused(keys: tuple[bytes, ...], size: int) -> None:
    """Like any other, whether it is base64 of something or not."""
    server, _ = catalogue(keys=keys)
    async with raw_client(server) as client:
        retry = await begin(client)
        like = urlsafe_b64encode(b"A2" + bytes(size // 4 * 3 - 2)).decode()
        long = [like, "x" * size, "\u2603" * (size // 4), retry["requestState"] + "A" * size]
        for each in long:
            assert await errors(client, {**retry, "requestState": each}) == [FROZEN]
        assert await result(client, retry) == "re: q"


# --- answers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", [(), (KEY,)], ids=["alone", "shared"])
async def test_answers_never_asked_for_are_nothing(keys: tuple[bytes, ...]) -> None:
    """Ten thousand of them, good and bad, beside the real one or alone; none is kept."""
    server, done = catalogue(keys=keys)
    junk = {f"sampling-{n}": said("forged") if n % 2 else n for n in range(10_000, 20_000)}
    async with raw_client(server) as client:
        retry = await begin(client)
        reply = await client.reply(client.modern("tools/call", **{**retry, "inputResponses": junk}))
        assert list(reply["result"]["inputRequests"]) == list(retry["inputResponses"])
        again = {**retry, "requestState": reply["result"]["requestState"]}
        assert len(again["requestState"]) < 600
        assert await result(client, {**again, "inputResponses": junk | retry["inputResponses"]}) == "re: q"
    assert done["began"] == 1


@pytest.mark.parametrize("keys", [(), (KEY,)], ids=["alone", "shared"])
async def test_an_answer_of_ten_megabytes_is_an_answer(keys: tuple[bytes, ...]) -> None:
    """It is the author's to bound; it is not sealed into states, and goes when its call has gone."""
    server, _ = catalogue(keys=keys)

    @server.tool
    async def measure(ctx: Context) -> str:
        size = len((await ctx.sample("long?")).text)
        return f"{size}, {(await ctx.sample('short?')).text}"

    async with raw_client(server) as client:
        round = await client.call("measure")
        round = await client.retry(round, "measure", dict.fromkeys(round["inputRequests"], said("x" * 10 * MIB)))
        assert len(round["requestState"]) < MAX_STATE
        answer = await client.retry(round, "measure", dict.fromkeys(round["inputRequests"], said("y")))
    assert text(answer) == f"{10 * MIB}, y"


# --- many ---------------------------------------------------------------------------------------------------------


async def settled() -> None:
    """Let those clean up that were told to end."""
    for _ in range(5):
        await asyncio.sleep(0)


async def abandon(client: RawClient, first: int, count: int) -> None:
    """Begin calls and never come back."""
    for start in range(first, first + count, 100):
        numbers = range(start, min(start + 100, first + count))
        ids = [client.modern("tools/call", name="one", arguments={"question": str(number)}) for number in numbers]
        for id in ids:
            assert "inputRequests" in (await client.reply(id))["result"]


@pytest.mark.parametrize(
    ("keys", "principal", "count", "kept"),
    [
        pytest.param((), None, 12_000, 10_000, id="nobody in particular", marks=pytest.mark.slow),
        pytest.param((KEY,), "greedy", 3_000, 2_500, id="one principal"),
    ],
)
async def test_abandoned_calls_are_bounded(
    keys: tuple[bytes, ...], principal: str | None, count: int, kept: int
) -> None:
    """With the defaults ten thousand are kept, of one principal a quarter; all clean up in the end."""
    server, done = catalogue(keys=keys)
    async with raw_client(server, principal=principal) as client:
        await abandon(client, 0, count)
        await settled()
        assert server._service.rounds.parked == kept
        assert done["ended"] == count - kept
        assert len(asyncio.all_tasks()) < kept + 20
    assert server._service.rounds.parked == 0
    assert done == {"began": count, "ended": count}


@pytest.mark.slow
async def test_abandoned_calls_leave_no_memory() -> None:
    """Twelve thousand through a table of fifty: what is held does not grow."""
    server, done = catalogue(max_parked=50, keys=[KEY])
    async with raw_client(server) as client:
        await abandon(client, 0, 10_800)
        gc.collect()
        tracemalloc.start(1)
        try:
            await abandon(client, 10_800, 200)
            gc.collect()
            before = tracemalloc.get_traced_memory()[0]
            await abandon(client, 11_000, 1_024)
            gc.collect()
            after = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
        await settled()
        assert server._service.rounds.parked == 50
        assert len(asyncio.all_tasks()) < 70
        assert after - before < 50_000, f"{after - before:,} bytes more"
    assert done == {"began": 12_024, "ended": 12_024}


@pytest.mark.parametrize("keys", [(), (KEY,)], ids=["alone", "shared"])
async def test_the_same_retry_a_hundred_times_at_once(keys: tuple[bytes, ...]) -> None:
    """A few may wait together and get one reply; the rest is refused; the handler goes on once."""
    server, woken, release = Server("catalogue", keys=keys), list[str](), asyncio.Event()

    @server.tool
    async def gate(ctx: Context) -> str:
        woken.append((await ctx.sample("?")).text)
        await release.wait()
        return woken[-1]

    async with raw_client(server) as client:
        round = await client.call("gate")
        (key,) = round["inputRequests"]
        retry = {"name": "gate", "arguments": {}, "requestState": round["requestState"]}
        ids = [client.modern("tools/call", **retry, inputResponses={key: said(str(n))}) for n in range(100)]
        for id in ids[MAX_LEGS:]:
            assert (await client.reply(id))["error"] == FROZEN
        release.set()
        replies = [text((await client.reply(id))["result"]) for id in ids[:MAX_LEGS]]
    assert replies == ["0"] * MAX_LEGS
    assert woken == ["0"]


@pytest.mark.parametrize("keys", [(), (KEY,)], ids=["alone", "shared"])
async def test_retries_and_cancellations_in_turn(keys: tuple[bytes, ...]) -> None:
    """While one retry waits the handler lives; with the last it ends, and its state is worth nothing where it ran."""
    server, gone = Server("catalogue", keys=keys), asyncio.Event()

    @server.tool
    async def gate(ctx: Context) -> str:
        await ctx.sample("?")
        try:
            await asyncio.Event().wait()
        finally:
            gone.set()
        return ""

    async with raw_client(server) as client:
        round = await client.call("gate")
        answers = dict.fromkeys(round["inputRequests"], said("x"))
        retry = {"name": "gate", "arguments": {}, "requestState": round["requestState"], "inputResponses": answers}
        waiting = client.modern("tools/call", **retry)
        for _ in range(50):
            following = client.modern("tools/call", **retry)
            client.send({"method": "notifications/cancelled", "params": {"requestId": waiting}})
            waiting = following
        await errors(client, {**retry, "requestState": "x"})
        assert not gone.is_set()
        client.send({"method": "notifications/cancelled", "params": {"requestId": waiting}})
        async with asyncio.timeout(30):
            await gone.wait()
        assert await errors(client, retry) == [FROZEN]


async def test_a_cleanup_is_interrupted_by_nobody() -> None:
    """A handler that was given up cleans up once: no retry, cancellation or eviction cuts it short."""
    server, _ = catalogue(max_parked=1)
    cleaning, release, clean = asyncio.Event(), asyncio.Event(), list[str]()

    @server.tool
    async def careful(ctx: Context) -> str:
        try:
            await ctx.sample("?")
            await asyncio.Event().wait()
        finally:
            cleaning.set()
            await release.wait()
            clean.append("done")
        return ""

    async with raw_client(server) as client:
        round = await client.call("careful")
        retry = {"name": "careful", "arguments": {}, "requestState": round["requestState"]}
        answers = dict.fromkeys(round["inputRequests"], said("x"))
        for _ in range(3):
            id = client.modern("tools/call", **retry, inputResponses=answers)
            await errors(client, {**retry, "requestState": "x"})
            client.send({"method": "notifications/cancelled", "params": {"requestId": id}})
            async with asyncio.timeout(30):
                await cleaning.wait()
        await begin(client)
        assert clean == []
        release.set()
        await begin(client)
        await errors(client, {**retry, "requestState": "x"})
    assert clean == ["done"]


async def _heavy(client: RawClient, how: str, number: int) -> None:
    """Abandon a call that holds a megabyte, put where it does not belong."""
    big, question = "x" * MIB, str(number)
    if how == "arguments":
        await client.call("one", {"question": big + question})
    elif how == "meta":
        await client.call("one", {"question": question}, meta={"example.org/junk": big})
    elif how == "answers with the call":
        await client.call("one", {"question": question}, inputResponses={"junk": said(big)})
    else:
        good = await begin(client, question)
        await client.call(**{**good, "inputResponses": {"junk": said(big)}})


@pytest.mark.parametrize("how", ["arguments", "meta", "answers with the call", "answers with a retry"])
async def test_parked_calls_are_bounded_in_bytes(how: str) -> None:
    """However few they are: what their requests hold is counted, and the oldest leave."""
    server, _ = catalogue(max_parked_bytes=8 * MIB)
    async with raw_client(server) as client:
        await begin(client)
        gc.collect()
        tracemalloc.start(1)
        try:
            for number in range(28):
                await _heavy(client, how, number)
            gc.collect()
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        # A handler holds its arguments a second time, decoded.
        assert held < 3 * 8 * MIB
        assert server._service.rounds.parked < 9


async def test_nothing_can_be_hidden_around_the_params() -> None:
    """Members that nobody reads are part of the frame that a parked call holds."""
    server, _ = catalogue()
    async with raw_client(server) as client:
        client.send({"id": 7, "method": "tools/list", "params": {}, "junk": "x" * MIB})
        reply = await client.reply(7)
    assert reply["error"]["code"] == -32600
    assert "beside the params" in reply["error"]["message"]
