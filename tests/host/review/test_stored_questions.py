"""Questions on their way into the store: their time ends before they are there, or nobody can be told of them."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.errors import Rejected
from antiphon.host import Host, Scripted
from antiphon.host.review.queue import Queue
from antiphon.host.store.base import ReviewRow
from tests.host.asks import origin, request
from tests.host.review.test_queue import approval, first, place
from tests.host.store.stores import Place
from tests.support.network import let_deadlines_pass, until

__all__ = ["place"]


async def test_a_question_whose_time_ends_while_it_is_stored_has_expired(place: Place, monkeypatch: pytest.MonkeyPatch):
    """The record says so, and not that somebody has withdrawn it."""
    monkeypatch.setattr("antiphon.sql.database_store.PATIENCE", 3600.0)
    async with place.open() as store:
        queue, put, ended = Queue(store, clock=place.clock), store.put_review, asyncio.Event()

        async def put_late(row: ReviewRow) -> ReviewRow:
            place.clock.now += 600
            let_deadlines_pass(600)
            await ended.wait()
            return await put(row)

        monkeypatch.setattr(store, "put_review", put_late)
        host = Host(Scripted([]), reviewer=queue, store=store, review_timeout=600)
        with pytest.raises(Rejected):
            await host(request(), origin())
        ended.set()
        await until(lambda: not queue._endings)
        assert [done.state for done in await queue.history()] == ["expired"]


async def test_a_question_that_cannot_be_announced_is_decided_all_the_same(place: Place):
    """A notice is an addition: the question waits, and whoever looks at the queue finds it."""

    def fail(id: str, item: object) -> None:
        raise OSError("nobody listens")

    async with place.open() as store:
        queue = Queue(store, clock=place.clock, notify=fail)
        host = Host(Scripted(["ok"]), reviewer=queue, store=store)
        asking = asyncio.create_task(host(request(), origin()))
        [question] = await first(queue)
        await queue.decide(question.id, approval(question), hash=question.hash)
        assert (await asking).text == "ok"
