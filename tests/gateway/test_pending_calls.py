"""Calls of tools that wait for a person longer than their caller does: asked for again, run once, told again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from antiphon import Client, Server
from antiphon.errors import PeerError
from antiphon.gateway import Gateway
from antiphon.host import Answer, Deny, EditCall, Host, Policy, Queue, Rule, Scripted, ToolItem, digest
from antiphon.host.review.question import Outcome, Question
from antiphon.host.store import Change, MemoryStore, Store, open_store
from antiphon.host.store.base import ReviewRow
from antiphon.wire.tools import CallToolRequestParams, CallToolResult
from tests.gateway.test_lives import Caller
from tests.host.asks import approve
from tests.host.store.stores import Clock

SOON = 0.05
"""Seconds that a caller waits in these tests."""
PATIENT = 60.0
OLDER = "2025-11-25"
"""A revision in which a client has no tasks, and so has to ask again."""


class Desk:
    """A gateway with a person's queue, in front of a server that notes each of its calls."""

    def __init__(
        self,
        store: Store,
        *,
        within: float = SOON,
        policy: Policy | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.store = store
        self.queue = Queue(store, clock=clock)
        self.ran: list[str] = []
        behind = Server("shop")

        @behind.tool
        async def order(sku: str) -> str:
            self.ran.append(sku)
            return f"ordered {sku}"

        @behind.tool
        async def count(sku: str) -> dict[str, int]:
            self.ran.append(sku)
            return {sku: 1}

        self.host = Host(Scripted([]), reviewer=self.queue, store=store, policy=policy)
        self.gateway = Gateway({"shop": behind}, self.host, answer_within=within, pending_for=3600.0)
        self.server = self.gateway.server

    async def wait_for(self, number: int) -> list[Question]:
        """Wait until so many questions are there, and return them, the oldest first."""
        async with asyncio.timeout(PATIENT):
            async for _ in self.queue.changes(0.01):
                if len(waiting := await self.queue.pending()) >= number:
                    return waiting
        raise AssertionError

    async def decide(self, decision: Any = approve, *, at: int = 0) -> str:
        """Wait for the oldest question, or one after it, and decide it."""
        question = (await self.wait_for(at + 1))[at]
        said = decision(question.item) if callable(decision) else decision
        await self.queue.decide(question.id, said, hash=question.hash, by="ann")
        return question.id


def edit(item: ToolItem) -> EditCall:
    """Order something else."""
    params = structs.replace(item.params, arguments=CallToolRequestParams.of("", {"sku": "P-2"}).arguments)
    return EditCall(params=params, digest=digest(params))


@pytest.fixture
def desk() -> Desk:
    """Make one with a store in memory."""
    return Desk(MemoryStore())


async def test_a_call_that_waits_too_long_says_so_and_runs_when_asked_again(desk: Desk) -> None:
    """The model gets an id and is told to ask again; the call runs once, and not before it is asked for again."""
    async with Client(desk.server, revision=OLDER) as client:
        left = await client.call_tool("shop__order", {"sku": "P-1"})
        assert not left.is_error
        id = left.meta["antiphon/pendingCall"]
        assert f"waits for approval by a person (id {id})" in left.text
        assert desk.ran == []
        assert await desk.decide() == id
        assert desk.ran == []
        assert (await client.call_tool("shop__order", {"sku": "P-1"})).text == "ordered P-1"
        assert desk.ran == ["P-1"]


async def test_the_outcome_is_told_again_and_nothing_runs_twice(desk: Desk) -> None:
    """By the same call and by its id; structured content stays, and a note says that it is told again."""
    async with Client(desk.server, revision=OLDER) as client:
        left = await client.call_tool("shop__count", {"sku": "P-1"})
        assert left.is_error, "the tool declares an output schema"
        id = left.meta["antiphon/pendingCall"]
        await desk.decide()
        first = await client.call_tool("shop__count", {"sku": "P-1"})
        again = await client.call_tool("shop__count", {"sku": "P-1"})
        by_id = await client.call_tool("shop__count", {"sku": "anything"}, meta={"antiphon/pendingCall": id})
        assert again.structured_content == by_id.structured_content == first.structured_content
        assert "did not run a second time" in again.content[-1].text
        assert desk.ran == ["P-1"]
        assert not await desk.queue.pending()


async def test_an_id_asks_for_a_call_that_waits(desk: Desk) -> None:
    """The arguments are those that the person saw, whatever comes with the id."""
    async with Client(desk.server, revision=OLDER) as client:
        left = await client.call_tool("shop__order", {"sku": "P-1"})
        meta = {"antiphon/pendingCall": left.meta["antiphon/pendingCall"]}
        await desk.decide()
        assert (await client.call_tool("shop__order", {"sku": "P-2"}, meta=meta)).text == "ordered P-1"
        unknown = await client.call_tool("shop__order", {"sku": "P-2"}, meta={"antiphon/pendingCall": "0" * 16})
        assert unknown.is_error
        assert desk.ran == ["P-1"]


async def test_an_id_names_no_call_of_another_server() -> None:
    """Neither what waits there, nor its arguments, nor its outcome."""
    store, ran = MemoryStore(), list[str]()
    servers = {name: Server(name) for name in ("shop", "other")}
    for name, each in servers.items():

        @each.tool
        async def order(sku: str, name: str = name) -> str:
            ran.append(name)
            return sku

    desk = Desk(store)
    gateway = Gateway(servers, desk.host, answer_within=SOON, pending_for=3600.0)
    async with Client(gateway.server, revision=OLDER) as client:
        left = await client.call_tool("shop__order", {"sku": "secret"})
        meta = {"antiphon/pendingCall": left.meta["antiphon/pendingCall"]}
        assert "No call of this tool" in (await client.call_tool("other__order", {"sku": "P-2"}, meta=meta)).text
        assert len(await desk.queue.pending()) == 1
        await desk.decide()
        assert (await client.call_tool("shop__order", {"sku": "secret"})).text == "secret"
        assert "No call of this tool" in (await client.call_tool("other__order", {"sku": "P-2"}, meta=meta)).text
    assert ran == ["shop"]


async def test_a_call_that_runs_is_not_said_to_wait() -> None:
    """A model that reads that its call has not run makes another one in its place."""
    store, begun, go_on = MemoryStore(), asyncio.Event(), asyncio.Event()
    desk, behind = Desk(store), Server("shop")

    @behind.tool
    async def order(sku: str) -> str:
        begun.set()
        await go_on.wait()
        return f"ordered {sku}"

    gateway = Gateway({"shop": behind}, desk.host, answer_within=SOON, pending_for=3600.0)
    async with Client(gateway.server, revision=OLDER) as client:
        await client.call_tool("shop__order", {"sku": "P-1"})
        await desk.decide()
        running = asyncio.create_task(client.call_tool("shop__order", {"sku": "P-1"}))
        await begun.wait()
        told = await client.call_tool("shop__order", {"sku": "P-1"})
        assert "was approved and runs" in told.text
        assert "has not run" not in told.text
        go_on.set()
        assert (await running).text == "ordered P-1"


async def test_a_call_that_is_given_up_before_it_is_sent_is_asked_about_anew() -> None:
    """Its decision was being carried out: nothing was sent, and it is not said to run for ever."""
    begun, go_on = asyncio.Event(), asyncio.Event()

    class Slow(MemoryStore):
        async def commit(self, change: Change) -> str | None:
            done = await super().commit(change)
            if change.begin is not None and not go_on.is_set():
                begun.set()
                await go_on.wait()
            return done

    desk = Desk(Slow())
    async with Client(desk.server, revision=OLDER) as client:
        left = await client.call_tool("shop__order", {"sku": "P-1"})
        await desk.decide()
        given_up = asyncio.create_task(client.call_tool("shop__order", {"sku": "P-1"}))
        await begun.wait()
        given_up.cancel()
        await asyncio.wait([given_up])
        await client.list_tools()
        go_on.set()
        again = await client.call_tool("shop__order", {"sku": "P-1"})
        assert again.meta["antiphon/pendingCall"] != left.meta["antiphon/pendingCall"]
        assert desk.ran == []
        await desk.decide()
        assert (await client.call_tool("shop__order", {"sku": "P-1"})).text == "ordered P-1"
    assert desk.ran == ["P-1"]


async def test_the_same_call_joins_one_that_waits(desk: Desk) -> None:
    """Two at once are one question; one of them runs, and both get its result."""
    patient = Desk(desk.store, within=PATIENT)
    async with Client(patient.server, revision=OLDER) as client:
        calls = [asyncio.create_task(client.call_tool("shop__order", {"sku": "P-1"})) for _ in range(3)]
        await patient.decide()
        results = await asyncio.gather(*calls)
    assert patient.ran == ["P-1"]
    assert {result.content[0].text for result in results} == {"ordered P-1"}
    assert len(await desk.queue.history()) == 1


async def test_the_same_call_with_another_token_of_progress_is_the_same_call(desk: Desk) -> None:
    """Claude Code gives each request a token of its own: its call joins, runs as edited, and is told again."""
    async with Client(desk.server, revision=OLDER) as client:

        async def call() -> CallToolResult:
            return await client.call_tool("shop__order", {"sku": "P-1"}, progress=lambda *_: None)

        left, again = await call(), await call()
        assert left.meta["antiphon/pendingCall"] == again.meta["antiphon/pendingCall"]
        await desk.decide(edit)
        assert "ordered P-2" in (await call()).text
        assert "told again" in (await call()).text
        assert desk.ran == ["P-2"]


async def test_a_denial_after_the_caller_has_gone_is_told_and_told_again(desk: Desk) -> None:
    """With the reason; the same call does not ask the person a second time at once."""
    async with Client(desk.server, revision=OLDER) as client:
        await client.call_tool("shop__order", {"sku": "P-1"})
        began = time.time()
        id = await desk.decide(Deny(reason="Not today", tell=True))
        for _ in range(2):
            told = await client.call_tool("shop__order", {"sku": "P-1"})
            assert told.is_error
            assert "Not today" in told.text
    assert (await desk.store.pending_call(id=id)).at >= began, "it says when"
    assert desk.ran == []
    assert not await desk.queue.pending()


async def test_an_edit_and_an_answer_after_the_caller_has_gone_count(desk: Desk) -> None:
    """What was asked for stays what the call is known by."""
    async with Client(desk.server, revision=OLDER) as client:
        await client.call_tool("shop__order", {"sku": "P-1"})
        await desk.decide(edit)
        assert "ordered P-2" in (await client.call_tool("shop__order", {"sku": "P-1"})).text
        assert "ordered P-2" in (await client.call_tool("shop__order", {"sku": "P-1"})).text
        await client.call_tool("shop__order", {"sku": "P-3"})
        await desk.decide(Answer(result="Out of stock"))
        assert (await client.call_tool("shop__order", {"sku": "P-3"})).text == "Out of stock"
    assert desk.ran == ["P-2"]


async def test_the_policy_is_checked_again_when_the_call_runs() -> None:
    """A rule that denies meanwhile has the last word over an approval."""
    desk = Desk(MemoryStore())
    async with Client(desk.server, revision=OLDER) as client:
        await client.call_tool("shop__order", {"sku": "P-1"})
        await desk.decide()
    strict = Desk(desk.store, policy=Policy(rules=(Rule(effect="deny", kind="tool", name="order"),)))
    async with Client(strict.server, revision=OLDER) as client:
        assert "refused" in (await client.call_tool("shop__order", {"sku": "P-1"})).text
    assert desk.ran == strict.ran == []


@asynccontextmanager
async def two_gateways(path: Path, **options: Any):
    """Yield two desks with a store of their own each, in one file."""
    async with AsyncExitStack() as stack:
        stores = [open_store(path) for _ in range(2)]
        for store in stores:
            stack.push_async_callback(store.aclose)
        yield [Desk(store, **options) for store in stores]


@asynccontextmanager
async def asked_twice(one: Store, other: Store):
    """Yield two desks that show different things of a call, by their rules, and that call, made at each of them."""
    exact = Policy(rules=(Rule(effect="ask", name="order", when="true"),))
    desks = [Desk(one, within=PATIENT), Desk(other, within=PATIENT, policy=exact)]
    try:
        async with Client(desks[0].server, revision=OLDER) as first, Client(desks[1].server, revision=OLDER) as second:
            yield (
                desks,
                [asyncio.create_task(each.call_tool("shop__order", {"sku": "P-1"})) for each in (first, second)],
            )
    finally:
        await one.aclose()
        await other.aclose()


async def test_another_gateway_with_the_store_goes_on_with_the_call(tmp_path: Path) -> None:
    """Left at one, decided at either, asked again at the other; a server in memory has one identity in both."""
    async with two_gateways(tmp_path / "host.db") as (one, other):
        async with Client(one.server, revision=OLDER) as client:
            await client.call_tool("shop__order", {"sku": "P-1"})
        await other.decide()
        async with Client(other.server, revision=OLDER) as client:
            first = await client.call_tool("shop__order", {"sku": "P-1"})
        async with Client(one.server, revision=OLDER) as client:
            again = await client.call_tool("shop__order", {"sku": "P-1"})
    assert first.text == "ordered P-1"
    assert "did not run a second time" in again.text
    assert one.ran + other.ran == ["P-1"]


async def test_a_decision_counts_where_the_server_was_slow_to_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other gateway has given up its probe and speaks an older revision with the server; the call is the same."""
    async with two_gateways(tmp_path / "host.db") as (one, other):
        async with Client(one.server, revision=OLDER) as client:
            await client.call_tool("shop__order", {"sku": "P-1"})
        [asked] = await one.wait_for(1)
        await one.decide()
        monkeypatch.setattr("antiphon.client.link.PROBE_TIMEOUT", 0.0)
        async with Client(other.server, revision=OLDER) as client:
            made = await client.call_tool("shop__order", {"sku": "P-1"})
            await client.call_tool("shop__order", {"sku": "P-2"})
        [asked_there] = await other.wait_for(1)
    assert made.text == "ordered P-1"
    assert (asked.item.origin.revision, asked_there.item.origin.revision) == ("2026-07-28", "2025-11-25")


async def test_the_same_call_at_two_gateways_at_once_runs_once(tmp_path: Path) -> None:
    """One of them wins the decision, and the other waits for its outcome."""
    async with (
        two_gateways(tmp_path / "host.db", within=PATIENT) as (one, other),
        Client(one.server, revision=OLDER) as first,
        Client(other.server, revision=OLDER) as second,
    ):
        calls = [asyncio.create_task(each.call_tool("shop__order", {"sku": "P-1"})) for each in (first, second)]
        await one.decide()
        results = await asyncio.gather(*calls)
    assert one.ran + other.ran == ["P-1"]
    assert {result.content[0].text for result in results} == {"ordered P-1"}


async def test_a_call_that_two_questions_ask_about_runs_once(tmp_path: Path) -> None:
    """Two gateways show different things of it, by their rules, so they do not share a question; both are approved."""
    async with asked_twice(open_store(tmp_path / "host.db"), open_store(tmp_path / "host.db")) as (desks, calls):
        questions = await desks[0].wait_for(2)
        hashes = {each.id: each.hash for each in questions}
        await desks[0].queue.decide_all({each.id: approve(each.item) for each in questions}, hashes)
        results = await asyncio.gather(*calls)
        assert desks[0].ran + desks[1].ran == ["P-1"]
        assert {result.content[0].text for result in results} == {"ordered P-1"}


@pytest.mark.parametrize("kind", ["memory", "file"])
async def test_the_other_question_about_a_call_goes_when_it_is_sent(tmp_path: Path, kind: str) -> None:
    """One approval is enough: the other caller is told the outcome, and nobody is asked once more."""
    one = MemoryStore() if kind == "memory" else open_store(tmp_path / "host.db")
    async with asked_twice(one, one if kind == "memory" else open_store(tmp_path / "host.db")) as (desks, calls):
        first, second = await desks[0].wait_for(2)
        await desks[0].queue.decide(second.id, approve(second.item), hash=second.hash, by="ann")
        results = await asyncio.gather(*calls)
        assert desks[0].ran + desks[1].ran == ["P-1"]
        assert {result.content[0].text for result in results} == {"ordered P-1"}
        assert not await desks[0].queue.pending()
        gone = await desks[0].queue.get(first.id)
        assert (gone.state, gone.outcome, gone.decision) == ("withdrawn", Outcome(became="taken"), None)


async def test_nobody_is_asked_about_a_call_that_was_sent_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was decided elsewhere while this one was about to ask."""
    asking, decided = asyncio.Event(), asyncio.Event()
    async with two_gateways(tmp_path / "host.db", within=PATIENT) as (one, other):
        put = other.store.put_review

        async def put_late(row: ReviewRow) -> ReviewRow:
            asking.set()
            await decided.wait()
            return await put(row)

        monkeypatch.setattr(other.store, "put_review", put_late)
        async with Client(one.server, revision=OLDER) as first, Client(other.server, revision=OLDER) as second:
            told = asyncio.create_task(second.call_tool("shop__order", {"sku": "P-1"}))
            await asking.wait()
            ran = asyncio.create_task(first.call_tool("shop__order", {"sku": "P-1"}))
            await one.decide()
            assert (await ran).text == "ordered P-1"
            decided.set()
            assert "did not run a second time" in (await told).text
        assert not await one.queue.pending()
    assert one.ran + other.ran == ["P-1"]


async def test_an_id_of_a_call_that_another_question_allowed_tells_its_outcome(tmp_path: Path) -> None:
    """Its caller has left before, and asks again by the id that it got."""
    exact = Policy(rules=(Rule(effect="ask", name="order", when="true"),))
    async with two_gateways(tmp_path / "host.db") as (one, shared):
        other = Desk(shared.store, within=PATIENT, policy=exact)
        async with Client(one.server, revision=OLDER) as first, Client(other.server, revision=OLDER) as second:
            waits = asyncio.create_task(second.call_tool("shop__order", {"sku": "P-1"}))
            await one.wait_for(1)
            id = (await first.call_tool("shop__order", {"sku": "P-1"})).meta["antiphon/pendingCall"]
            [decided] = [each for each in await one.wait_for(2) if each.id != id]
            await one.queue.decide(decided.id, approve(decided.item), hash=decided.hash, by="ann")
            assert (await waits).text == "ordered P-1"
            again = await first.call_tool("shop__order", {"sku": "anything"}, meta={"antiphon/pendingCall": id})
    assert "did not run a second time" in again.text
    assert one.ran + other.ran == ["P-1"]


async def test_a_caller_that_cancels_withdraws_only_its_own_wait(desk: Desk) -> None:
    """While another waits for the same call, the question stays; with the last one it goes."""
    patient = Desk(desk.store, within=PATIENT)
    async with Client(patient.server, revision=OLDER) as client:
        calls = [asyncio.create_task(client.call_tool("shop__order", {"sku": "P-1"})) for _ in range(2)]
        async with asyncio.timeout(PATIENT):
            async for _ in patient.queue.changes(0.01):
                if await patient.queue.pending():
                    break
        calls[0].cancel()
        await asyncio.wait([calls[0]])
        await patient.decide()
        assert (await calls[1]).text == "ordered P-1"
        alone = asyncio.create_task(client.call_tool("shop__order", {"sku": "P-2"}))
        async with asyncio.timeout(PATIENT):
            async for _ in patient.queue.changes(0.01):
                if await patient.queue.pending():
                    break
            alone.cancel()
            async for _ in patient.queue.changes(0.01):
                if not await patient.queue.pending():
                    break
    assert patient.ran == ["P-1"]


async def test_a_call_that_expired_is_asked_about_anew() -> None:
    """An approval that nobody has asked for in time does not count later."""
    clock = Clock()
    desk = Desk(MemoryStore(clock=clock), clock=clock)
    async with Client(desk.server, revision=OLDER) as client:
        left = await client.call_tool("shop__order", {"sku": "P-1"})
        await desk.decide()
        clock.now += 3601
        again = await client.call_tool("shop__order", {"sku": "P-1"})
        assert again.meta["antiphon/pendingCall"] != left.meta["antiphon/pendingCall"]
    assert desk.ran == []


async def test_one_principal_can_leave_only_so_many_calls(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one is refused as a limit, and withdrawn from the queue."""
    monkeypatch.setattr("antiphon.host.review.queue.MAX_LEFT", 2)
    async with Client(desk.server, revision=OLDER) as client:
        for at in range(2):
            assert "waits for approval" in (await client.call_tool("shop__order", {"sku": f"P-{at}"})).text
        assert "limit" in (await client.call_tool("shop__order", {"sku": "P-9"})).text
    assert len(await desk.queue.pending()) == 2


async def test_nobody_knows_whether_a_call_ran_whose_gateway_ended(tmp_path: Path) -> None:
    """Killed between sending and recording: the same call says so, and is not sent again."""
    async with two_gateways(tmp_path / "host.db") as (one, other):
        async with Client(one.server, revision=OLDER) as client:
            left = await client.call_tool("shop__order", {"sku": "P-1"})
            id = left.meta["antiphon/pendingCall"]
            await one.decide()
            await client.call_tool("shop__order", {"sku": "P-1"})
        row = await one.store.pending_call(id=id)
        await one.store.settle_call(structs.replace(row, host="abcdef012345", body=None))
        await other.store.recover()
        async with Client(other.server, revision=OLDER) as client:
            told = await client.call_tool("shop__order", {"sku": "P-1"})
    assert told.is_error
    assert "Nobody knows whether this call ran" in told.text
    assert one.ran + other.ran == ["P-1"]


async def test_a_client_with_tasks_gets_a_task_that_runs_at_the_decision(desk: Desk) -> None:
    """Nobody asks again: the call runs when it is allowed, once, and the task has its result."""
    async with Client(desk.server) as client:
        handle = await client.start_task("shop__order", {"sku": "P-1"})
        assert (await client.task(handle.id).refresh()).status == "working"
        assert desk.ran == []
        await desk.decide()
        assert (await handle.result(timeout=PATIENT)).text == "ordered P-1"
    assert desk.ran == ["P-1"]


async def test_a_task_that_is_denied_or_cancelled_has_not_run(desk: Desk) -> None:
    """A denial is its result; one that its client cancels leaves the queue."""
    async with Client(desk.server) as client:
        denied = await client.start_task("shop__order", {"sku": "P-1"})
        await desk.decide(Deny(reason="Not today", tell=True))
        assert "Not today" in (await denied.result(timeout=PATIENT)).text
        handle = await client.start_task("shop__order", {"sku": "P-2"})
        assert len(await desk.queue.pending()) == 1
        await client.task(handle.id).cancel()
        assert not await desk.queue.pending()
        assert (await client.task(handle.id).refresh()).status == "cancelled"
    assert desk.ran == []


async def test_a_waiting_task_is_not_given_up_for_another_principal(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group whose call waits for a person is in use, so that the decision is carried out."""
    monkeypatch.setattr("antiphon.gateway.gateway.MAX_GROUPS", 1)
    async with Client(Caller(desk.gateway, "ann")) as ann, Client(Caller(desk.gateway, "ben")) as ben:
        handle = await ann.start_task("shop__order", {"sku": "P-1"})
        with pytest.raises(PeerError, match="try again later"):
            await ben.list_tools()
        await desk.decide()
        assert (await handle.result(timeout=PATIENT)).text == "ordered P-1"
        assert len((await ben.list_tools()).tools) == 2


async def test_a_waiting_task_whose_server_is_taken_out_says_so(desk: Desk) -> None:
    """A person may decide about it long after, and nothing can run then."""
    async with Client(desk.server) as client:
        handle = await client.start_task("shop__order", {"sku": "P-1"})
        await desk.gateway.configure({"other": Server("other")})
        await desk.decide()
        assert "'shop' is no longer configured" in (await handle.result(timeout=PATIENT)).text
    assert desk.ran == []


async def test_a_task_runs_although_its_request_wanted_progress(desk: Desk) -> None:
    """Its request has ended, so what the tool reports later reaches nobody."""
    async with Client(desk.server) as client:
        handle = await client.start_task("shop__order", {"sku": "P-1"}, meta={"progressToken": "p"})
        await desk.decide()
        assert (await handle.result(timeout=PATIENT)).text == "ordered P-1"


async def test_the_same_call_made_again_is_the_same_task(desk: Desk) -> None:
    """A client that repeats a call while it waits makes no further work."""
    async with Client(desk.server) as client:
        first = await client.start_task("shop__order", {"sku": "P-1"})
        tasks = len(asyncio.all_tasks())
        again = [await client.start_task("shop__order", {"sku": "P-1"}) for _ in range(5)]
        assert len(asyncio.all_tasks()) == tasks
        await desk.decide()
        for handle in (first, *again):
            assert (await handle.result(timeout=PATIENT)).text == "ordered P-1"
    assert desk.ran == ["P-1"]


async def test_tasks_that_have_ended_leave_room(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their results are kept for a while, but they count no longer."""
    monkeypatch.setattr("antiphon.gateway.tasks_behind.MAX_FOLLOWED", 2)
    async with Client(desk.server) as client:
        handles = [await client.start_task("shop__order", {"sku": f"P-{at}"}) for at in range(2)]
        for handle in handles:
            await desk.decide()
            await handle.result(timeout=PATIENT)
        third = await client.start_task("shop__order", {"sku": "P-9"})
        assert (await third.refresh()).status == "working"
