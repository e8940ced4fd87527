"""The queue: kept, listed, decided once, waited for across processes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from antiphon.errors import InternalError, Rejected
from antiphon.host import Answer, Approve, Deny, Edit, Host, MemoryStore, ReviewItem, Scripted, Terms, digest
from antiphon.host.review.question import Question
from antiphon.host.review.queue import AlreadyDecided, Mismatch, NotShown, Queue
from antiphon.host.review.review import hash_of
from antiphon.host.store.base import Change, Decided, ReviewRow, Store
from antiphon.sql.database_store import StoreStalled
from antiphon.wire.elicitation import ElicitRequestParams, ElicitResult
from antiphon.wire.origin import Round
from antiphon.wire.tools import CallToolRequestParams
from tests.host.asks import Person, origin, request
from tests.host.store.stores import KINDS, Place, ticket
from tests.support.network import let_deadlines_pass, until

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


async def emptied(store: Store) -> None:
    """Wait until no question is open: an ask does not wait for a slow store to save its end."""
    async for _ in Queue(store).changes():
        if not await store.reviews(("pending",)):
            return


def hashes(*questions: Question) -> dict[str, str]:
    """Name what was shown of each."""
    return {question.id: question.hash for question in questions}


async def ended(asking: asyncio.Task[object]) -> None:
    """Give up what is asked, and wait until that is recorded."""
    asking.cancel()
    with suppress(asyncio.CancelledError):
        await asking


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
        await queue.decide(question.id, approval(question), by="ada", hash=question.hash)
        assert (await task).text == "ok"
        assert [(record.outcome, record.by) for record in host.audit.records() if record.step == "review"] == [
            ("approve", "ada")
        ]
        assert await queue.pending() == []
        [done] = await queue.history()
        assert (done.state, done.item, done.by) == ("done", None, "ada")
        if other is not store:
            await other.aclose()


async def test_nobody_needs_to_look_where_changes_are_heard_of(place: Place, monkeypatch: pytest.MonkeyPatch):
    """Asked here, decided by another process, carried out here, and off the list there: by notices alone."""
    async with asyncio.timeout(60), place.open() as store:
        other = store if place.kind == "memory" else place.make()
        here, there = Queue(store, clock=place.clock), Queue(other, clock=place.clock)
        for each in (store, other):
            # Until the first notice has come, whoever waits looks at the store.
            with each.news.listening() as listening:
                while not each.news.are_heard:
                    await listening.wait(60)
        for module in ("queue", "decision_watch"):
            monkeypatch.setattr(f"antiphon.host.review.{module}.CHECK", 600.0)
        task = asyncio.create_task(Host(Scripted(["ok"]), reviewer=here, store=store)(request(), origin()))
        [question] = await first(there)
        await there.decide(question.id, approval(question), hash=question.hash)
        assert (await task).text == "ok"
        async for _ in there.changes():
            if (await there.history()) != []:
                break
        if other is not store:
            await other.aclose()


async def test_a_notice_that_is_lost_costs_a_second(monkeypatch: pytest.MonkeyPatch):
    """Whoever waits looks at the store by themselves now and then, whatever they have heard."""
    store = MemoryStore()
    monkeypatch.setattr(store.news, "tell", lambda *_: None)
    for module in ("queue", "decision_watch"):
        monkeypatch.setattr(f"antiphon.host.review.{module}.CHECK", 0.01)
    queue = Queue(store)
    async with asyncio.timeout(60):
        task = asyncio.create_task(Host(Scripted(["ok"]), reviewer=queue, store=store)(request(), origin()))
        [question] = await first(queue)
        await queue.decide(question.id, approval(question), hash=question.hash)
        assert (await task).text == "ok"


async def test_what_was_read_is_not_read_again_until_it_changes(place: Place):
    """The same object as before; once it is decided it is gone, and what is new is read beside what is known."""
    async with place.open() as store:
        host = Host(Scripted(["ok"] * 20), reviewer=Queue(store, clock=place.clock), store=store)
        queue = Queue(store, clock=place.clock, monotonic=place.clock, undo=5.0)
        tasks = [asyncio.create_task(host(request(f"Ask {at}"), origin(str(at)))) for at in range(10)]
        before = {question.id: question for question in await first(queue, 10)}
        tasks.append(asyncio.create_task(host(request("Ask 10"), origin("10"))))
        after = {question.id: question for question in await first(queue, 11)}
        assert all(after[id] is question for id, question in before.items())
        [new] = [question for id, question in after.items() if id not in before]
        assert new.item.params == request("Ask 10")
        await queue.decide(new.id, approval(new), hash=new.hash)
        held = {question.id: question for question in await queue.open()}
        assert (held[new.id].state, held[new.id].item) == ("held", new.item)
        assert held | {new.id: new} == after
        for task in tasks:
            await ended(task)


async def test_the_second_is_told_who_was_first(place: Place):
    """Two people decide: one wins, the other learns it; the answer is the winner's."""
    async with place.open() as store:
        queue = Queue(store, clock=place.clock)
        task = asyncio.create_task(Host(Scripted([]), reviewer=queue, store=store)(request(), origin()))
        [question] = await first(queue)
        outcomes = await asyncio.gather(
            queue.decide(question.id, Answer(result="by ada"), by="ada", hash=question.hash),
            queue.decide(question.id, Answer(result="by bob"), by="bob", hash=question.hash),
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
        await Queue(store, clock=place.clock).decide(question.id, approval(question), hash=question.hash)
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
            await queue.decide_all({one.id: approval(one), two.id: Approve(digest="0")}, hashes(one, two))
        assert len(await queue.pending()) == 2
        await queue.decide_all({one.id: approval(one), two.id: approval(two)}, hashes(one, two))
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
                await queue.decide(question.id, decision, hash=question.hash)
        with pytest.raises(LookupError):
            await queue.decide("other", Deny(), hash=question.hash)
        await queue.decide(question.id, Deny(reason="no"), hash=question.hash)
        with pytest.raises(Rejected):
            await task


async def test_a_form_is_checked_before_it_is_kept(place: Place):
    """What does not fit stays with whoever typed it."""
    async with place.open() as store:
        queue = Queue(store, clock=place.clock)
        task = asyncio.create_task(Host(reviewer=queue, store=store).elicit(FORM, origin()))
        [question] = await first(queue)
        with pytest.raises(Mismatch, match="name"):
            await queue.decide(question.id, ElicitResult(action="accept", content={}), hash=question.hash)
        filled = ElicitResult(action="accept", content={"name": "Ada"})
        await queue.decide(question.id, filled, hash=question.hash)
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
        await emptied(store)
        with pytest.raises(AlreadyDecided, match="withdrawn"):
            await queue.decide(question.id, approval(question), hash=question.hash)
        assert (await store.holds(), [balance.held.tokens for balance in await store.balances()]) == ([], [0] * 4)


async def test_an_ask_that_ends_while_its_question_is_stored_takes_it_back(place: Place, monkeypatch):
    """Other processes see a question before the one that asks knows that it is stored; nobody can decide it then."""
    async with place.open() as store:
        queue, put = Queue(store, clock=place.clock), store.put_review

        async def put_and_cancel(row: ReviewRow) -> ReviewRow:
            stored = await put(row)
            task.cancel()
            return stored

        monkeypatch.setattr(store, "put_review", put_and_cancel)
        task = asyncio.create_task(Host(Scripted([]), reviewer=queue, store=store)(request(), origin()))
        with pytest.raises(asyncio.CancelledError):
            await task
        await emptied(store)
        assert [done.state for done in await queue.history()] == ["withdrawn"]


async def test_a_question_that_was_stored_too_late_is_taken_back(place: Place, monkeypatch: pytest.MonkeyPatch):
    """The ask has failed with its store, so nobody waits for what the store keeps of it."""
    async with place.open() as store:
        queue, put = Queue(store, clock=place.clock), store.put_review

        async def put_late(row: ReviewRow) -> ReviewRow:
            await put(row)
            raise StoreStalled("the store did not respond")

        monkeypatch.setattr(store, "put_review", put_late)
        with pytest.raises(InternalError):
            await Host(Scripted([]), reviewer=queue, store=store)(request(), origin())
        await emptied(store)
        assert [done.state for done in await queue.history()] == ["withdrawn"]


async def test_a_question_expires(place: Place, monkeypatch: pytest.MonkeyPatch):
    """The ask is refused, and a decision comes too late."""
    # Longer than the leap of the clock below, which a read of the store that is under way must not notice.
    monkeypatch.setattr("antiphon.sql.database_store.PATIENCE", 3600.0)
    async with place.open() as store:
        queue = Queue(store, clock=place.clock)
        host = Host(Scripted([]), reviewer=queue, store=store, review_timeout=600)
        task = asyncio.create_task(host(request(), origin()))
        await first(queue)
        [row] = await store.reviews(("pending",))
        # The store has it before the ask knows that, and waits for a decision.
        await until(lambda: queue._waiting.is_awaited(row))
        place.clock.now += 600
        let_deadlines_pass(600)
        with pytest.raises(Rejected) as caught:
            await task
        assert caught.value.data == {"reason": "expired"}
        await emptied(store)
        assert [done.state for done in await queue.history()] == ["expired"]


async def test_the_history_is_of_the_latest(place: Place):
    """Newest first, so many; one that is decided and not yet carried out belongs to it."""
    async with place.open() as store:
        queue = Queue(store, clock=place.clock)
        item, ids = await shown(), []
        for number in range(4):
            place.clock.now += 1
            row = await queue._put("request", item, [str(number)], None)
            ids.append(row.id)
            question = await queue.get(row.id)
            await queue.decide(row.id, approval(question), hash=question.hash)
            if number < 3:
                assert await store.commit(Change(finish=await ticket(store, row.id))) is None
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
        await queue.decide(question.id, approval(question, scope="always", terms=Terms(uses=2)), hash=question.hash)
        assert [(await task).text, (await host(request(), origin("2"))).text] == ["1", "2"]
        assert (await host(request(), origin("3"))).text == "3"
        task = asyncio.create_task(host(request(), origin("4")))
        [question] = await first(queue)
        await queue.decide(question.id, Deny(), hash=question.hash)
        with pytest.raises(Rejected):
            await task


async def test_a_question_of_a_killed_process_is_asked_once(place: Place):
    """It stays pending; asked again, it is the same one, and what was decided meanwhile holds."""
    if place.kind == "memory":
        return
    killed, alive = place.make(), place.make()
    item = await shown()
    # As far as it came before it was killed.
    await Queue(killed, clock=place.clock)._put("request", item, [digest(item.params), ""], None)
    queue = Queue(alive, clock=place.clock)
    [question] = await queue.pending()
    await place.outlast(alive)
    [left] = await queue.pending()
    assert (left.id, left.waited_for) == (question.id, False)
    await queue.decide(left.id, approval(left), hash=left.hash)
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
        await queue.decide(question.id, approval(question), hash=question.hash)
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
        await queue.decide(question.id, approval(question), hash=question.hash)
        assert (await task).text == "ok"
        assert caplog.text.count("reviews wait for the store") == 1


async def shown() -> ReviewItem:
    """Make what a host would show for the request of these tests."""
    person = Person(lambda item: Deny())
    with pytest.raises(Rejected):
        await Host(Scripted([]), reviewer=person)(request(), origin())
    return person.shown[0]


async def test_a_decision_names_what_was_shown(place: Place):
    """Another hash is refused, whatever the decision is, and nothing is decided; the right one is taken."""
    async with place.open() as store:
        queue = Queue(store, clock=place.clock)
        task = asyncio.create_task(Host(Scripted(["ok"]), reviewer=queue, store=store)(request(), origin()))
        other = asyncio.create_task(Host(Scripted([]), reviewer=queue, store=store).elicit(FORM, origin("2")))
        one, two = sorted(await first(queue, 2), key=lambda question: question.kind, reverse=True)
        with pytest.raises(NotShown):
            await queue.decide(one.id, approval(one), hash=two.hash)
        with pytest.raises(NotShown):
            await queue.decide_all({one.id: approval(one), two.id: Deny()}, {one.id: one.hash, two.id: one.hash})
        with pytest.raises(NotShown):
            await queue.decide(two.id, ElicitResult(action="decline"), hash="")
        assert len(await queue.pending()) == 2
        await queue.decide(one.id, approval(one), hash=one.hash)
        assert (await task).text == "ok"
        await ended(other)


async def test_a_question_that_changes_between_look_and_decision_is_not_decided(place: Place):
    """Asked again after a crash, for another model: who has seen the old one decides nothing about the new one."""
    if place.kind == "memory":
        return
    async with place.open() as killed:
        queue = Queue(killed, clock=place.clock)
        item = await shown()
        row = await queue._put("request", item, [digest(item.params), ""], None)
        seen = await queue.get(row.id)
        async with place.open() as store:
            await place.outlast(store)
            await Queue(store, clock=place.clock).decide(row.id, Answer(result="early"), hash=seen.hash)
            changed = msgspec.structs.replace(item, model="dearer", origin=origin("7"))
            again = await Queue(store, clock=place.clock)._put("request", changed, [digest(item.params), ""], None)
            assert (again.id, again.hash, again.decision) == (row.id, hash_of(changed), None)
        with pytest.raises(NotShown):
            await queue.decide(row.id, Answer(result="yes"), hash=seen.hash)
        late = await killed.decide([Decided(id=row.id, decision="1", hash=seen.hash)])
        assert late is not None


async def test_the_hash_is_of_all_that_is_shown():
    """Model, risks, server and request are in it; the time that is left and the number of the ask are not."""
    item = await shown()
    same = msgspec.structs.replace(item, expires_in=3.0, origin=origin("99", call="another"))
    assert hash_of(same) == hash_of(item)
    for other in (
        msgspec.structs.replace(item, model="dearer"),
        msgspec.structs.replace(item, params=request("Describe a hat")),
        msgspec.structs.replace(item, origin=msgspec.structs.replace(item.origin, target="evil")),
        msgspec.structs.replace(item, choices=item.choices - {"edit"}),
    ):
        assert hash_of(other) != hash_of(item)


async def test_a_block_withdraws_all_that_waits_from_the_server(place: Place):
    """Requests, forms and calls of tools in two processes end at once; what another server asks waits on."""
    async with place.open() as store:
        elsewhere = store if place.kind == "memory" else place.make()
        queue = Queue(store, clock=place.clock)
        here = Host(Scripted([]), reviewer=queue, store=store)
        there = Host(Scripted([]), reviewer=Queue(elsewhere, clock=place.clock), store=elsewhere)
        call = CallToolRequestParams.of("describe", {})
        asked = [
            asyncio.create_task(here(request("One"), origin("1", call="a"))),
            asyncio.create_task(there(request("Two"), origin("2", call="b"))),
            asyncio.create_task(there.elicit(FORM, origin("3", call="c"))),
            asyncio.create_task(there.confirm(call, origin("4", call="d"))),
        ]
        innocent = asyncio.create_task(here(request(), origin("5", command=["other"])))
        waiting = await first(queue, 5)
        chosen = next(question for question in waiting if question.item.params == request("One"))
        await queue.decide(chosen.id, Deny(reach="server", reason="spam"), hash=chosen.hash, by="ada")
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
        reasons = [getattr(outcome, "data", outcome) for outcome in outcomes]
        refused = {"reason": "policy"}
        assert reasons == [{"reason": "user"}, refused, ElicitResult(action="decline"), refused]
        [left] = await queue.pending()
        assert left.item.origin.target == "other"
        over = {question.id: question for question in await queue.history()}
        assert [over[each.id].state for each in waiting if each.id not in (left.id, chosen.id)] == ["withdrawn"] * 3
        blocked = {each.outcome.became for each in over.values() if each.outcome is not None}
        assert blocked == {"blocked"}
        assert [block.by for block in await store.blocks()] == ["ada"]
        await ended(innocent)
        if elsewhere is not store:
            await elsewhere.aclose()


async def test_a_block_holds_for_servers_alike(place: Place):
    """What the same server asks from another folder ends too, and it asks no more; who quotes its hash waits on."""
    async with place.open() as store:
        queue = Queue(store, clock=place.clock)
        host = Host(Scripted([]), reviewer=queue, store=store)
        moved = origin("2", command=["moved"], coarser=("coarse:1", "command:1"))
        asked = [
            asyncio.create_task(host(request("One"), origin("1", coarser=("coarse:1", "command:1")))),
            asyncio.create_task(host(request("Two"), moved)),
        ]
        quoting = asyncio.create_task(host(request("coarse:1"), origin("3", command=["other"], coarser=("coarse:2",))))
        waiting = await first(queue, 3)
        chosen = next(question for question in waiting if question.item.params == request("One"))
        await queue.decide(chosen.id, Deny(reach="server"), hash=chosen.hash)
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
        assert [getattr(outcome, "data", outcome)["reason"] for outcome in outcomes] == ["user", "policy"]
        with pytest.raises(Rejected, match="blocked"):
            await host(request("Three"), moved)
        [left] = await queue.pending()
        assert left.item.params == request("coarse:1")
        await ended(quoting)


async def test_a_decision_names_what_was_shown_even_where_another_is_undone(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    """A stale page decides nothing in the moment in which a held decision is taken back."""
    async with place.open() as store:
        queue = Queue(store, clock=place.clock, monotonic=place.clock, undo=5.0)
        row = await queue._put("request", await shown(), ["x"], 100.0)
        question = await queue.get(row.id)
        await queue.decide(row.id, approval(question), hash=question.hash)
        keeps = store.decide

        async def undone(decisions: list[Decided]) -> ReviewRow | None:
            assert await store.undo(row.id, (await queue.get(row.id)).decided)
            return await keeps(decisions)

        monkeypatch.setattr(store, "decide", undone)
        with pytest.raises(NotShown):
            await queue.decide(row.id, approval(question), hash="of something else")
        assert (await queue.get(row.id)).decision is None


async def test_blocking_counts_even_where_nobody_waits_any_more(place: Place):
    """The process that asked was killed: the block is in force all the same, at once."""
    async with place.open() as store:
        queue = Queue(store, clock=place.clock)
        row = await queue._put("request", await shown(), ["x"], None)
        question = await queue.get(row.id)
        await queue.decide(row.id, Deny(reach="server"), hash=question.hash)
        assert [block.identity for block in await store.blocks()] == [question.identity]


async def test_a_form_can_be_denied_as_far_as_any_question(place: Place):
    """To stop its call: the server hears a decline, and what else waits of the call ends."""
    async with place.open() as store:
        queue = Queue(store, clock=place.clock)
        host = Host(Scripted([]), reviewer=queue, store=store)
        form = asyncio.create_task(host.elicit(FORM, origin("1")))
        beside = asyncio.create_task(host(request(), origin("2")))
        waiting = await first(queue, 2)
        asked = next(question for question in waiting if question.kind == "elicitation")
        await queue.decide(asked.id, Deny(reach="call", reason="enough"), hash=asked.hash, by="ada")
        assert await form == ElicitResult(action="decline")
        with pytest.raises(Rejected) as caught:
            await beside
        assert caught.value.data == {"reason": "user"}
        noted = [record for record in host.audit.records() if record.step == "review"]
        assert [(record.outcome, record.reason, record.by) for record in noted] == [("deny:call", "enough", "ada")]
