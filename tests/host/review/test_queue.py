"""The queue: kept, listed, decided once, waited for across processes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from antiphon.errors import Rejected
from antiphon.host import Answer, Approve, Deny, Edit, Host, ReviewItem, Scripted, Terms, digest
from antiphon.host.review.queue import AlreadyDecided, Mismatch, Question, Queue
from antiphon.host.store.base import Change, ReviewRow
from antiphon.wire.elicitation import ElicitRequestParams, ElicitResult
from antiphon.wire.origin import Round
from tests.host.asks import Person, origin, request
from tests.host.store.stores import KINDS, Place

FORM = ElicitRequestParams.form("Who?", {"properties": {"name": {"type": "string"}}, "required": ["name"]})


@pytest.fixture(params=KINDS)
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    """Give each test a place of its own, of each kind."""
    async with Place(request.param, tmp_path) as place:
        yield place


async def first(queue: Queue, count: int = 1) -> list[Question]:
    """Wait until so many questions are there."""
    async for _ in queue.changes():
        questions = await queue.pending()
        if len(questions) >= count:
            return questions
    raise AssertionError


def approval(question: Question, **more) -> Approve:
    """Approve what a question shows."""
    return Approve(digest=digest(question.item.params), **more)


async def test_another_process_decides(place: Place):
    """The host waits, a reviewer with a store of its own finds the question and approves; its name is recorded."""
    async with place.open() as store:
        other = store if place.kind == "memory" else place.make()
        host = Host(Scripted(["ok"]), reviewer=Queue(store, clock=place.clock), store=store)
        task = asyncio.create_task(host(request(), origin()))
        queue = Queue(other, clock=place.clock)
        [question] = await first(queue)
        assert (question.kind, question.item.params, question.waited_for) == ("request", request(), True)
        await queue.decide(question.id, approval(question), by="ada")
        assert (await task).text == "ok"
        assert [(record.outcome, record.by) for record in host.audit.records() if record.step == "review"] == [
            ("approve", "ada")
        ]
        assert await queue.pending() == []
        [done] = await queue.history()
        assert (done.state, done.item, done.by) == ("done", None, "ada")
        if other is not store:
            await other.aclose()


async def test_the_second_is_told_who_was_first(place: Place):
    """Two people decide: one wins, the other learns it; the answer is the winner's."""
    async with place.open() as store:
        queue = Queue(store, clock=place.clock)
        task = asyncio.create_task(Host(Scripted([]), reviewer=queue, store=store)(request(), origin()))
        [question] = await first(queue)
        outcomes = await asyncio.gather(
            queue.decide(question.id, Answer(result="by ada"), by="ada"),
            queue.decide(question.id, Answer(result="by bob"), by="bob"),
            return_exceptions=True,
        )
        [late] = [outcome for outcome in outcomes if outcome is not None]
        assert isinstance(late, AlreadyDecided)
        winner = late.question.by or (await queue.get(question.id)).by
        assert (await task).text == f"by {winner}"


async def test_a_reviewer_that_disconnects_changes_nothing(place: Place):
    """The one who looks goes away in the middle; the ask waits on, and the next one who comes decides."""
    async with place.open() as store:
        task = asyncio.create_task(
            Host(Scripted(["ok"]), reviewer=Queue(store, clock=place.clock), store=store)(request(), origin())
        )
        looking = store if place.kind == "memory" else place.make()
        queue = Queue(looking, clock=place.clock)
        [seen] = await first(queue)
        watching = asyncio.create_task(anext(aiter(queue.changes())))
        watching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await watching
        if looking is not store:
            await looking.aclose()
        [question] = await Queue(store, clock=place.clock).pending()
        assert (question.id, question.waited_for, task.done()) == (seen.id, True, False)
        await Queue(store, clock=place.clock).decide(question.id, approval(question))
        assert (await task).text == "ok"


async def test_a_round_is_decided_together(place: Place):
    """Several asks of one round have one group; all decisions are kept, or none."""
    async with place.open() as store:
        queue = Queue(store, clock=place.clock)
        host = Host(Scripted(["1", "2"]), reviewer=queue, store=store)
        first_round = Round(n=1, max=64)
        tasks = [
            asyncio.create_task(host(request(text), origin(text, round=first_round))) for text in ("Hat?", "Coat?")
        ]
        one, two = await first(queue, 2)
        assert one.group == two.group
        with pytest.raises(Mismatch):
            await queue.decide_all({one.id: approval(one), two.id: Approve(digest="0")})
        assert len(await queue.pending()) == 2
        await queue.decide_all({one.id: approval(one), two.id: approval(two)})
        assert sorted(result.text for result in await asyncio.gather(*tasks)) == ["1", "2"]


async def test_what_was_not_shown_cannot_be_approved(place: Place):
    """Another digest, another kind of answer, or what is not to be chosen: refused, and the question stays."""
    async with place.open() as store:
        queue = Queue(store, clock=place.clock)
        task = asyncio.create_task(Host("manual", reviewer=queue, store=store)(request(), origin()))
        [question] = await first(queue)
        edited = request("Describe a hat")
        for decision in (
            approval(question),
            Edit(params=edited, digest=digest(request())),
            ElicitResult(action="decline"),
        ):
            with pytest.raises(Mismatch):
                await queue.decide(question.id, decision)
        with pytest.raises(LookupError):
            await queue.decide("other", Deny())
        await queue.decide(question.id, Deny(reason="no"))
        with pytest.raises(Rejected):
            await task


async def test_a_form_is_checked_before_it_is_kept(place: Place):
    """What does not fit stays with whoever typed it."""
    async with place.open() as store:
        queue = Queue(store, clock=place.clock)
        task = asyncio.create_task(Host(reviewer=queue, store=store).elicit(FORM, origin()))
        [question] = await first(queue)
        with pytest.raises(Mismatch, match="name"):
            await queue.decide(question.id, ElicitResult(action="accept", content={}))
        filled = ElicitResult(action="accept", content={"name": "Ada"})
        await queue.decide(question.id, filled)
        assert await task == filled
        assert [done.state for done in await queue.history()] == ["done"]


async def test_a_withdrawn_ask_takes_its_question_back(place: Place):
    """Nobody can decide it any more, and nothing of it is left."""
    async with place.open() as store:
        queue = Queue(store, clock=place.clock)
        task = asyncio.create_task(Host(Scripted([]), reviewer=queue, store=store)(request(), origin()))
        [question] = await first(queue)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await queue.pending() == []
        with pytest.raises(AlreadyDecided, match="withdrawn"):
            await queue.decide(question.id, approval(question))
        assert (await store.holds(), [balance.held.tokens for balance in await store.balances()]) == ([], [0] * 4)


async def test_a_question_expires(place: Place):
    """The ask is refused, and a decision comes too late."""
    async with place.open() as store:
        queue = Queue(store)
        host = Host(Scripted([]), reviewer=queue, store=store, review_timeout=0.2)
        with pytest.raises(Rejected) as caught:
            await host(request(), origin())
        assert caught.value.data == {"reason": "expired"}
        assert [done.state for done in await queue.history()] == ["expired"]


async def test_the_history_is_of_the_latest(place: Place):
    """Newest first, so many; one that is decided and not yet carried out belongs to it."""
    async with place.open() as store:
        queue = Queue(store, clock=place.clock)
        item, ids = await shown(), []
        for number in range(4):
            place.clock.now += 1
            row = await queue._put("request", item, origin(str(number)), [str(number)], None)
            ids.append(row.id)
            await queue.decide(row.id, approval(await queue.get(row.id)))
            if number < 3:
                assert await store.commit(Change(finish=row.id)) is None
        found = [(question.id, question.state) for question in await queue.history(3)]
        assert found == [(ids[3], "decided"), (ids[2], "done"), (ids[1], "done")]
        assert (await queue.pending(), len(await queue.history())) == ([], 4)


async def test_a_grant_that_is_given_in_the_queue(place: Place):
    """For two requests more: the third is asked about again."""
    async with place.open() as store:
        queue = Queue(store, clock=place.clock)
        host = Host(Scripted(["1", "2", "3", "4"]), reviewer=queue, store=store)
        task = asyncio.create_task(host(request(), origin("1")))
        [question] = await first(queue)
        await queue.decide(question.id, approval(question, scope="always", terms=Terms(uses=2)))
        assert [(await task).text, (await host(request(), origin("2"))).text] == ["1", "2"]
        assert (await host(request(), origin("3"))).text == "3"
        task = asyncio.create_task(host(request(), origin("4")))
        [question] = await first(queue)
        await queue.decide(question.id, Deny())
        with pytest.raises(Rejected):
            await task


async def test_a_question_of_a_killed_process_is_asked_once(place: Place):
    """It stays pending; asked again, it is the same one, and what was decided meanwhile holds."""
    if place.kind == "memory":
        return
    killed, alive = place.make(), place.make()
    item = await shown()
    # As far as it came before it was killed.
    await Queue(killed, clock=place.clock)._put("request", item, item.origin, [digest(item.params), ""], None)
    queue = Queue(alive, clock=place.clock)
    [question] = await queue.pending()
    await place.outlast(alive)
    [left] = await queue.pending()
    assert (left.id, left.waited_for) == (question.id, False)
    await queue.decide(left.id, approval(left))
    host = Host(Scripted(["ok"]), reviewer=queue, store=alive)
    assert (await host(request(), origin("after"))).text == "ok"
    assert [done.id for done in await queue.history()] == [question.id]
    await killed.aclose()
    await alive.aclose()


async def test_who_was_taken_for_dead_and_waits_says_so(place: Place):
    """It stood still, and goes on: the question is waited for again, and its decision counts."""
    if place.kind == "memory":
        return
    async with place.open() as slow, place.open() as other:
        host = Host(Scripted(["ok"]), reviewer=Queue(slow, clock=place.clock), store=slow)
        task = asyncio.create_task(host(request(), origin()))
        queue = Queue(other, clock=place.clock)
        await first(queue)
        await place.outlast(other)
        async for _ in queue.changes():
            [question] = await queue.pending()
            if question.waited_for:
                break
        await queue.decide(question.id, approval(question))
        assert (await task).text == "ok"


async def test_who_waits_goes_on_waiting_where_the_store_cannot_be_reached(
    place: Place, caplog: pytest.LogCaptureFixture
):
    """It says so once; the decision is found when the store is back."""
    async with place.open() as store:
        broken = asyncio.Event()
        look, looks = store.review, iter([ConnectionResetError(), OSError(), TimeoutError()])

        async def review(id: str) -> ReviewRow | None:
            for error in looks:
                raise error
            broken.set()
            return await look(id)

        store.review = review
        host = Host(Scripted(["ok"]), reviewer=Queue(store, clock=place.clock), store=store)
        task = asyncio.create_task(host(request(), origin()))
        await broken.wait()
        queue = Queue(store, clock=place.clock)
        [question] = await first(queue)
        await queue.decide(question.id, approval(question))
        assert (await task).text == "ok"
        assert caplog.text.count("reviews wait for the store") == 1


async def shown() -> ReviewItem:
    """Make what a host would show for the request of these tests."""
    person = Person(lambda item: Deny())
    with pytest.raises(Rejected):
        await Host(Scripted([]), reviewer=person)(request(), origin())
    return person.shown[0]
