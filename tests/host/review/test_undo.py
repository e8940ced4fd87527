"""What lies between a decision and what becomes of it: undoing, drafts, and the reason of a refusal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from antiphon.errors import Rejected
from antiphon.host import Deny, Host, Scripted, digest
from antiphon.host.review.queue import AlreadyDecided, Mismatch, Queue
from antiphon.host.store.ask_rows import Sought
from antiphon.wire.elicitation import ElicitRequestParams, ElicitResult
from antiphon.wire.origin import Round
from tests.host.asks import origin, request
from tests.host.review.test_queue import approval, first, shown
from tests.host.store.stores import KINDS, Place


@pytest.fixture(params=KINDS)
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    """Give each test a place of its own, of each kind."""
    async with Place(request.param, tmp_path) as place:
        yield place


async def test_a_permission_can_be_undone_until_it_is_released(place: Place):
    """It is held, nobody else can decide meanwhile; undone by another, the question waits again."""
    async with place.open() as store:
        queue = Queue(store, clock=place.clock, monotonic=place.clock, undo=5.0)
        provider = Scripted(["ok"])
        task = asyncio.create_task(Host(provider, reviewer=queue, store=store)(request(), origin()))
        [question] = await first(queue)
        await queue.decide(question.id, approval(question), hash=question.hash, by="ada")
        held = await queue.get(question.id)
        assert (held.state, held.release, held.by) == ("held", place.clock.now + 5.0, "ada")
        assert (await queue.pending(), [each.id for each in await queue.open()]) == ([], [question.id])
        with pytest.raises(AlreadyDecided):
            await queue.decide(question.id, Deny(), hash=question.hash)
        await Queue(store, clock=place.clock).undo(question.id)
        [again] = await queue.pending()
        assert (again.id, again.by, again.decision, task.done()) == (question.id, None, None, False)
        with pytest.raises(AlreadyDecided):
            await queue.undo(question.id)
        await queue.decide(question.id, approval(question), hash=question.hash)
        place.clock.now += 5.0
        assert (await task).text == "ok"
        assert len(provider.requests) == 1


async def test_a_decision_that_somebody_made_since_then_stays(place: Place):
    """What is taken back is the decision that was meant, also where both were made before the store answered."""
    async with place.open() as store:
        queue = Queue(store, clock=place.clock, monotonic=place.clock, undo=5.0)
        task = asyncio.create_task(Host(Scripted(["ok"]), reviewer=queue, store=store)(request(), origin()))
        [question] = await first(queue)
        await queue.decide(question.id, approval(question), hash=question.hash, by="ada")
        meant = (await queue.get(question.id)).decided
        place.clock.now += 1
        await queue.undo(question.id, decided=meant)
        await queue.decide(question.id, approval(question), hash=question.hash, by="bob")
        with pytest.raises(AlreadyDecided):
            await queue.undo(question.id, decided=meant)
        assert not await store.undo(question.id, meant)
        assert (await queue.get(question.id)).by == "bob"
        place.clock.now += 5.0
        assert (await task).text == "ok"


async def test_what_was_taken_back_is_in_the_record(place: Place):
    """Which permission, when and by whom; of the same ask as everything else of it, in a chain that is whole."""
    async with place.open() as store:
        queue = Queue(store, clock=place.clock, monotonic=place.clock, undo=5.0)
        host = Host(Scripted(["ok"]), reviewer=queue, store=store)
        task = asyncio.create_task(host(request(), origin()))
        [question] = await first(queue)
        for undoer in (None, "bob"):
            await queue.decide(question.id, approval(question), hash=question.hash, by="ada")
            await queue.undo(question.id, by=undoer)
        with pytest.raises(AlreadyDecided):
            await queue.undo(question.id)
        await queue.decide(question.id, approval(question), hash=question.hash, by="ada")
        place.clock.now += 5.0
        await task
        told = [record async for entry in host.audit.entries() if (record := entry.record).step == "review"]
        assert [(each.outcome, each.by) for each in told] == [
            ("undone:approve", "ada"),
            ("undone:approve", "bob"),
            ("approve", "ada"),
        ]
        assert {(each.host, each.ask, each.method) for each in told} == {(store.host, "1", "sampling/createMessage")}
        assert (await host.audit.verify()).whole
        await store.gather()
        [row] = (await store.asks(Sought())).rows
        assert (row.decision, row.by, row.ending, len(row.trail)) == ("approve", "ada", "answered", 8)


async def test_what_was_taken_back_of_a_form_is_in_the_record(place: Place):
    """A form that was accepted, and is then declined."""
    async with place.open() as store:
        queue = Queue(store, clock=place.clock, monotonic=place.clock, undo=5.0)
        host = Host(reviewer=queue, store=store)
        task = asyncio.create_task(host.elicit(ElicitRequestParams.form("Sure?", {}), origin()))
        [question] = await first(queue)
        await queue.decide(question.id, ElicitResult(action="accept", content={}), hash=question.hash, by="ada")
        await queue.undo(question.id, by="ada")
        await queue.decide(question.id, ElicitResult(action="decline"), hash=question.hash, by="ada")
        await task
        told = [entry.record.outcome async for entry in host.audit.entries() if entry.record.by]
        assert told == ["undone:accept", "decline"]


async def test_nothing_is_recorded_of_an_undo_that_came_too_late(place: Place):
    """It was none."""
    async with place.open() as store:
        queue = Queue(store, clock=place.clock, monotonic=place.clock, undo=5.0)
        host = Host(Scripted(["ok"]), reviewer=queue, store=store)
        task = asyncio.create_task(host(request(), origin()))
        [question] = await first(queue)
        await queue.decide(question.id, approval(question), hash=question.hash)
        place.clock.now += 5.0
        await task
        with pytest.raises(AlreadyDecided):
            await queue.undo(question.id)
        assert not [entry async for entry in host.audit.entries() if entry.record.outcome.startswith("undone")]


async def test_a_refusal_counts_at_once(place: Place):
    """There is nothing to undo in it."""
    async with place.open() as store:
        queue = Queue(store, clock=place.clock, monotonic=place.clock, undo=5.0)
        task = asyncio.create_task(Host(Scripted([]), reviewer=queue, store=store)(request(), origin()))
        [question] = await first(queue)
        await queue.decide(question.id, Deny(), hash=question.hash)
        with pytest.raises(Rejected):
            await task


async def test_a_permission_is_held_for_a_quarter_of_what_is_left(place: Place):
    """So it always takes effect before the question expires."""
    async with place.open() as store:
        queue = Queue(store, clock=place.clock, monotonic=place.clock, undo=5.0)
        row = await queue._put("request", await shown(), ["x"], 8.0)
        question = await queue.get(row.id)
        await queue.decide(row.id, approval(question), hash=question.hash)
        assert (await queue.get(row.id)).release == place.clock.now + 2.0


async def test_a_permission_that_is_held_survives_the_host(place: Place):
    """The host is killed before it counts: when the same is asked again, it is carried out once its time has come."""
    if place.kind == "memory":
        return
    async with place.open() as killed:
        queue = Queue(killed, clock=place.clock, monotonic=place.clock, undo=5.0)
        item = await shown()
        row = await queue._put("request", item, [digest(item.params), ""], None)
        question = await queue.get(row.id)
        await queue.decide(row.id, approval(question), hash=question.hash, by="ada")
        async with place.open() as store:
            await place.outlast(store)
            assert (await Queue(store, clock=place.clock).get(row.id)).state == "held"
            provider = Scripted(["ok"])
            host = Host(provider, reviewer=Queue(store, clock=place.clock), store=store)
            assert (await host(request(), origin("9"))).text == "ok"
            assert [record.by for record in host.audit.records() if record.step == "review"] == ["ada"]


async def test_a_draft_is_kept_until_the_question_is_over(place: Place):
    """Another look finds it; it is forgotten on demand, and gone with the question."""
    async with place.open() as store:
        queue = Queue(store, clock=place.clock)
        row = await queue._put("request", await shown(), ["x"], None)
        fields = [("system", "Be long"), ("tool-1", "1")]
        version = await store.reviews_version()
        assert await queue.keep_draft(row.id, fields)
        assert await Queue(store, clock=place.clock).draft(row.id) == fields
        assert await store.reviews_version() == version
        await queue.keep_draft(row.id, None)
        assert await queue.draft(row.id) is None
        await queue.keep_draft(row.id, fields)
        await store.close_review(row.id, "withdrawn", keep_item=False)
        assert not await queue.keep_draft(row.id, fields)
        assert await queue.draft(row.id) is None
        with pytest.raises(Mismatch):
            await queue.keep_draft(row.id, [("text", "x" * 5 * 1024 * 1024)])


async def test_a_reason_is_told_only_if_the_person_says_so(place: Place):
    """Masked and cut; it is in the record in either case, and the record says whether it was told."""
    async with place.open() as store:
        queue = Queue(store, clock=place.clock)
        host = Host(Scripted([]), reviewer=queue, store=store)
        secret = "sk-ant-api03-" + "a" * 40
        told = []
        for number, (tell, this_round) in enumerate(((True, None), (False, None), (True, Round(n=1, max=2)))):
            asked = origin(str(number), call=str(number), round=this_round)
            task = asyncio.create_task(host(request(), asked))
            [question] = await first(queue)
            denial = Deny(reason=f"Not with {secret} " + "x" * 600, tell=tell)
            await queue.decide(question.id, denial, hash=question.hash)
            with pytest.raises(Rejected) as caught:
                await task
            told.append(caught.value.data.get("note"))
        assert told[0].startswith("Not with ")
        assert (len(told[0]), secret in told[0], told[1:]) == (500, False, [None, None])
        noted = [record for record in host.audit.records() if record.step == "review"]
        assert [record.told for record in noted] == [True, None, False]
        assert all(len(record.reason) > 600 and secret not in record.reason for record in noted)


async def test_a_reason_has_an_end(place: Place):
    """What is longer stays with whoever typed it."""
    async with place.open() as store:
        queue = Queue(store, clock=place.clock)
        row = await queue._put("request", await shown(), ["x"], None)
        question = await queue.get(row.id)
        with pytest.raises(Mismatch, match="2000"):
            await queue.decide(row.id, Deny(reason="x" * 2001), hash=question.hash)
