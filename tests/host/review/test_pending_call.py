"""The same call of a tool, found again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec import structs

from antiphon.host import Approve, Host, MemoryStore, Scripted
from antiphon.host.review.question import PENDING, PendingCall, fingerprint_call
from antiphon.host.review.queue import Queue
from antiphon.host.store.base import ReviewRow, Store
from antiphon.wire.elicitation import CONFIRM_FORM, ElicitRequestParams
from antiphon.wire.origin import OriginCall
from antiphon.wire.tools import CallToolRequestParams, Tool
from tests.host.asks import approve, origin
from tests.host.review.test_queue import approval, first, shown
from tests.host.store.stores import DURABLE, Place
from tests.support.network import until

CALL = CallToolRequestParams.of("order", {"sku": "P-1"})


def test_the_same_call_is_one_of_the_same_principal() -> None:
    """Another principal, other arguments, another server or a changed definition make another call; an id does not."""
    asked = origin("1", call=None)
    one = fingerprint_call(CALL, asked)
    assert fingerprint_call(CALL, structs.replace(asked, id="2")) == one
    others = [
        fingerprint_call(CALL, structs.replace(asked, principal="ann")),
        fingerprint_call(CALL, structs.replace(asked, principal="bob")),
        fingerprint_call(CallToolRequestParams.of("order", {"sku": "P-2"}), asked),
        fingerprint_call(CALL, structs.replace(asked, identity="command:other")),
        fingerprint_call(CALL, structs.replace(asked, tool=Tool(name="order", input_schema={}))),
    ]
    assert len({one, *others}) == 6


def test_the_order_of_arguments_makes_no_other_call() -> None:
    """A model that asks again may write them in another order, at any depth."""
    prints: set[str] = set()
    for arguments in ({"sku": "P-1", "to": {"a": 1, "b": 2}}, {"to": {"b": 2, "a": 1}, "sku": "P-1"}):
        call = OriginCall(id="1", method="tools/call", name="order", arguments=arguments)
        asked = structs.replace(origin("1"), call=call)
        prints.add(fingerprint_call(CallToolRequestParams.of("order", arguments), asked))
    assert len(prints) == 1


async def test_a_call_is_known_within_its_block_only() -> None:
    """What another task asks meanwhile waits as long as it takes."""
    pending = PendingCall(50.0, 3600.0)
    with pending:
        assert PENDING.get() is pending
    assert PENDING.get() is None


async def test_an_approval_ends_with_its_call() -> None:
    """The reader of an older server keeps the context of the call that started it, and so meets later asks there."""
    tool = Tool(name="order", input_schema={}, meta={"antiphon/confirms": "Order {sku}?"})
    call = OriginCall(id="1", method="tools/call", name="order", arguments={"sku": "P-1"})
    asked, form = (
        structs.replace(origin("1", tool=tool), call=call),
        ElicitRequestParams.form("Order P-1?", CONFIRM_FORM),
    )
    pending = PendingCall(50.0, 3600.0)
    with pending:
        pending.approve(CALL, asked, "ann")
        assert pending.take_confirmation(form, asked)
        pending.approve(CALL, asked, "ann")
    assert not pending.take_confirmation(form, asked)


async def test_a_question_that_another_call_is_joining_is_not_taken_back(monkeypatch: pytest.MonkeyPatch):
    """Of two calls that are the same, one is given up while the other is still being stored, and goes on."""
    store = MemoryStore()
    queue, put = Queue(store), store.put_review
    host = Host(Scripted([]), reviewer=queue, store=store)

    async def call() -> object:
        with PendingCall(50.0, 3600.0):
            return await host.confirm(CallToolRequestParams.of("order", {"sku": "P-1"}), origin())

    async def join_and_cancel(row: ReviewRow) -> ReviewRow:
        joined = await put(row)
        gone.cancel()
        await asyncio.wait([gone])
        return joined

    gone = asyncio.create_task(call())
    async for _ in queue.changes():
        if await queue.pending():
            break
    (question,) = await queue.pending()
    monkeypatch.setattr(store, "put_review", join_and_cancel)
    other = asyncio.create_task(call())
    await asyncio.wait([gone])
    assert await queue.pending() == [question]
    await queue.decide(question.id, approve(question.item), hash=question.hash)
    assert await other is True


@pytest.mark.parametrize("kind", DURABLE)
async def test_a_question_of_a_killed_gateway_is_withdrawn_with_its_last_caller(tmp_path: Path, kind: str):
    """The same call had joined it at another gateway, which waits on alone until its caller gives up, too."""
    async with Place(kind, tmp_path) as place, place.open() as killed, place.open() as alive:

        async def call(store: Store) -> object:
            with PendingCall(50.0, 3600.0):
                return await Host(Scripted([]), reviewer=queues[store], store=store).confirm(CALL, origin())

        queues = {store: Queue(store, clock=place.clock, monotonic=place.clock) for store in (killed, alive)}
        one = asyncio.create_task(call(killed))
        [question] = await first(queues[killed])
        other = asyncio.create_task(call(alive))
        await until(lambda: question.id in queues[alive]._waiting._questions)
        # A killed process says nothing to the store any more.
        one.cancel()
        queues[killed]._store = queues[killed]._waiting._store = alive
        await asyncio.wait([one])
        assert [each.waited_for for each in await queues[alive].pending()] == [True]
        await place.outlast(alive)
        async for _ in queues[alive].changes(0.01):
            [row] = await alive.reviews(("pending",))
            if row.host == alive.host:
                break
        other.cancel()
        async for _ in queues[alive].changes(0.01):
            if not await alive.reviews(("pending",)):
                break
        assert [each.state for each in await queues[alive].history()] == ["withdrawn"]


@pytest.mark.parametrize("kind", DURABLE)
async def test_a_process_that_was_suspended_leaves_a_question_to_the_one_that_took_it_over(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
):
    """Its caller gives up before it has noticed that: the person's decision reaches the other caller."""
    async with Place(kind, tmp_path) as place, place.open() as suspended, place.open() as alive:
        before, after = (Queue(store, clock=place.clock, monotonic=place.clock) for store in (suspended, alive))

        async def follow_nothing(row: ReviewRow) -> ReviewRow:
            await asyncio.Event().wait()
            return row

        monkeypatch.setattr(before._waiting, "wait", follow_nothing)
        item = await shown()
        given_up = asyncio.create_task(before.review(item))
        [question] = await first(before)
        await place.outlast(alive)
        other = asyncio.create_task(after.review(item))
        await until(lambda: question.id in after._waiting._questions)
        given_up.cancel()
        await asyncio.wait([given_up])
        await after.decide(question.id, approval(question), hash=question.hash)
        assert isinstance(await other, Approve)
