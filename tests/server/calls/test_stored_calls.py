"""What processes know of a call together: its owner, its completed steps, its long journals."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from antiphon import Context
from antiphon.errors import InvalidParams
from antiphon.machine.state_store import CompareAndSetStore, MemoryStateStore, StateStore
from antiphon.server.calls.call import CallAbandoned
from antiphon.server.calls.replayed_call import StoredCalls
from antiphon.server.state.request_state import Seal, State
from tests.support.cluster import Tool, cluster
from tests.support.raw_client import said, text


class FourOperations:
    """A store of the kind that cannot compare and set."""

    def __init__(self) -> None:
        store = MemoryStateStore()
        self.get, self.put, self.add, self.delete = store.get, store.put, store.add, store.delete


class OneCall:
    """What a store has to know of a call."""

    id = b"i" * 16
    key = b"i" * 16
    bound_to = b"b"

    def __init__(self, run: bytes, generation: int = 1) -> None:
        self.run = run * 8
        self.generation = generation


def stored(store: StateStore | None = None) -> StoredCalls:
    """Make what is tested."""
    return StoredCalls(MemoryStateStore() if store is None else store, Seal([b"k" * 32]), 60)


def state(generation: int) -> State:
    """Make what a retry brings."""
    return State(OneCall.id, generation, 0.0)


def paying(done: list[str], stops: Callable[[], Awaitable[object]]) -> Tool:
    """Make a tool that asks, takes a step, and stops in some of its runs before the client hears of it."""

    async def tool(ctx: Context) -> str:
        async def pay(idempotency_key: str) -> str:
            done.append(idempotency_key)
            return f"receipt {len(done)}"

        answer = (await ctx.sample("pay?")).text
        receipt: str = await ctx.step("pay", pay)
        await stops()
        await ctx.step("note", list[int])
        return f"{answer} {receipt}"

    return tool


class Stops:
    """Lets the first run that comes wait for ever: its process died there. Later ones go on."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.over = asyncio.Event()
        """Set where a test has seen enough: nothing need wait for that run."""

    async def __call__(self) -> None:
        if not self.reached.is_set():
            self.reached.set()
            await self.over.wait()


async def dies_at(processes: Any, at: int, round: Any, stops: Stops) -> None:
    """Send a retry to a process that is stopped before its reply: what it does then reaches nobody."""
    answers = dict.fromkeys(round["inputRequests"], said("yes"))
    client = processes.clients[at]
    client.modern("tools/call", name="tool", arguments={}, requestState=round["requestState"], inputResponses=answers)
    async with asyncio.timeout(30):
        await stops.reached.wait()


@pytest.mark.parametrize("at", [0, 2], ids=["where it is parked", "in a third process"])
async def test_a_completed_step_is_not_taken_again(at: int) -> None:
    """The process that took it died before its next message: whoever goes on knows the result all the same."""
    done, stops = list[str](), Stops()
    async with cluster(paying(done, stops), 3, state_store=MemoryStateStore()) as processes:
        round = await processes.begin(0)
        await dies_at(processes, 1, round, stops)
        assert text(await processes.go_on(at, round, "yes")) == "yes receipt 1"
        stops.over.set()
    assert len(done) == 1


async def test_a_parked_copy_takes_its_call_back() -> None:
    """The process that took it over died: the retry that comes home goes on where the call is parked."""
    runs, stops = list[int](), Stops()

    async def tool(ctx: Context) -> str:
        runs.append(1)
        await ctx.sample("pay?")
        await stops()
        await ctx.step("pay", list[int])
        return "paid"

    async with cluster(tool, state_store=MemoryStateStore()) as processes:
        round = await processes.begin(0)
        await dies_at(processes, 1, round, stops)
        assert text(await processes.go_on(0, round, "yes")) == "paid"
        stops.over.set()
    assert len(runs) == 2


async def test_a_store_without_compare_and_set_abandons_that_copy() -> None:
    """As before: the run that took the call over last owns it."""
    done, stops = list[str](), Stops()
    async with cluster(paying(done, stops), state_store=FourOperations()) as processes:
        round = await processes.begin(0)
        await dies_at(processes, 1, round, stops)
        assert "result" not in (await _reply(processes, 0, round))
        stops.over.set()
    assert len(done) == 1


async def _reply(processes: Any, at: int, round: Any) -> Any:
    answers = dict.fromkeys(round["inputRequests"], said("yes"))
    client = processes.clients[at]
    params = {"requestState": round["requestState"], "inputResponses": answers}
    return await client.reply(client.modern("tools/call", name="tool", arguments={}, **params))


async def test_what_was_taken_back_is_lost_to_the_other() -> None:
    """Of two runs of a call one owns it, whoever wins."""
    calls, home, other = stored(), OneCall(b"a"), OneCall(b"b")
    await calls.take(state(1), other.run)
    assert await calls.take_back(home, 1)
    await calls.check_not_overtaken(home)
    with pytest.raises(CallAbandoned):
        await calls.check_not_overtaken(other)


async def test_a_call_that_nobody_took_need_not_be_taken_back() -> None:
    """Nor one that is this run's already."""
    calls, home = stored(), OneCall(b"a")
    assert not await calls.take_back(home, 1)
    await calls.take(state(1), home.run)
    assert not await calls.take_back(home, 1)


async def test_an_old_retry_takes_nothing_back() -> None:
    """The other process began from a later round: the call has gone on, and the late duplicate must not undo that."""
    calls, home, other = stored(), OneCall(b"a"), OneCall(b"b")
    await calls.take(state(2), other.run)
    assert not await calls.take_back(home, 1)
    with pytest.raises(CallAbandoned):
        await calls.check_not_overtaken(home)


async def test_whoever_always_comes_second_is_refused() -> None:
    """A copy does not contend for ever: that would hold its client's request."""

    class Contended(MemoryStateStore):
        async def replace(self, key: str, value: bytes, ttl: float, *, expected: bytes) -> bool:
            return False

    calls = stored(Contended())
    await calls.take(state(1), OneCall(b"b").run)
    with pytest.raises(InvalidParams):
        await calls.take_back(OneCall(b"a"), 1)


async def test_the_result_noted_first_stands() -> None:
    """Two runs that took a step at the same time go on with the same result."""
    calls = stored()
    assert await calls.note_step(OneCall(b"a"), "step", b"1") == b"1"
    assert await calls.note_step(OneCall(b"b"), "step", b"2") == b"1"
    assert await calls.find_noted_step(OneCall(b"b"), "step") == b"1"
    assert await calls.find_noted_step(OneCall(b"b"), "other") is None


async def test_a_result_too_long_for_a_store_is_not_noted(caplog: pytest.LogCaptureFixture) -> None:
    """The handler goes on, and the log says what that means."""
    calls = stored()
    value = b"x" * (1024 * 1024 + 1)
    assert await calls.note_step(OneCall(b"a"), "step", value) == value
    assert await calls.find_noted_step(OneCall(b"a"), "step") is None
    assert "may take it again" in caplog.text


async def test_results_cannot_be_read_in_the_store() -> None:
    """What is put there is sealed, and tells nothing."""
    store = MemoryStateStore()
    await stored(store).note_step(OneCall(b"a"), "step", b"the secret")
    assert all(b"secret" not in value for value, _ in store._values.values())


def test_which_stores_can_compare() -> None:
    """Seen by the operation they have."""
    assert isinstance(MemoryStateStore(), CompareAndSetStore)
    assert not isinstance(FourOperations(), CompareAndSetStore)


@pytest.mark.parametrize("store", [True, False], ids=["with a store", "without"])
async def test_a_first_request_that_is_sent_again_is_the_same_call(store: bool) -> None:
    """Its client names it: the idempotency key is the same, and with a store a completed step is not taken again."""
    done, stops = list[str](), Stops()

    async def tool(ctx: Context) -> str:
        async def pay(idempotency_key: str) -> str:
            done.append(idempotency_key)
            return f"receipt {len(done)}"

        receipt: str = await ctx.step("pay", pay)
        await stops()
        return receipt

    named = {"meta": {"antiphon/call": "n" * 32}}
    async with cluster(tool, state_store=MemoryStateStore() if store else None) as processes:
        client = processes.clients[0]
        client.modern("tools/call", name="tool", arguments={}, **named)
        async with asyncio.timeout(30):
            await stops.reached.wait()
        result = await processes.begin(1, **named)
        stops.over.set()
        other = await processes.begin(1, meta={"antiphon/call": "m" * 32})
    assert text(result) == ("receipt 1" if store else "receipt 2")
    assert len(set(done[:-1])) == 1
    assert done[-1] not in done[:-1]
    assert text(other) == f"receipt {len(done)}"
