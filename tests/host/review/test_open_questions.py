"""The open questions, read again and again: each decoded once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from antiphon.host import MemoryStore
from antiphon.host.review.queue import OpenQuestions
from antiphon.host.review.review import ReviewItem, hash_of
from antiphon.host.store.base import Decided, ReviewRow, Store
from antiphon.wire.envelope import encode_value
from tests.host.asks import CHOICES, origin, request
from tests.host.store.stores import KINDS, Place


@pytest.fixture(params=KINDS)
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    """Give each test a place of its own, of each kind."""
    async with Place(request.param, tmp_path) as place:
        yield place


async def put(store: Store, at: int, **more: object) -> ReviewRow:
    """Let something wait."""
    item = ReviewItem(
        origin=origin(str(at)), params=request(f"Ask {at}"), received=request(), provider="echo", choices=CHOICES
    )
    row = ReviewRow(
        id=f"r{at:02}",
        kind="request",
        fingerprint=str(at),
        group="g",
        identity=item.origin.identity,
        created=float(at),
        expires=None,
        host=store.host,
        item=encode_value(item).decode(),
        hash=hash_of(item),
    )
    return await store.put_review(msgspec.structs.replace(row, **more))


async def test_what_has_not_changed_is_the_same_object(place: Place):
    """Whatever else comes and goes, few at once or many; and each has its content."""
    async with place.open() as store:
        reading = OpenQuestions(store)
        for at in range(12):
            await put(store, at)
        before = await reading.read()
        await put(store, 12)
        await store.close_review("r00", "withdrawn", keep_item=False)
        after = await reading.read()
        assert all(one is other for one, other in zip(before[1:], after, strict=False))
        assert [question.item.params for question in after] == [request(f"Ask {at}") for at in range(1, 13)]


async def test_what_was_decided_has_its_content_still(place: Place):
    """While it can be undone it is open; what it asks is not read again."""
    async with place.open() as store:
        reading = OpenQuestions(store)
        row = await put(store, 1)
        [before] = await reading.read()
        await store.decide([Decided(id=row.id, decision='{"type":"deny"}', hash=row.hash, release=9e9)])
        [after] = await reading.read()
        assert (before.state, after.state) == ("pending", "held")
        assert after.item is before.item


async def test_without_a_hash_nothing_is_taken_for_known(place: Place):
    """An older process has asked: what it asks may be another when it asks again."""
    async with place.open() as store:
        reading = OpenQuestions(store)
        await put(store, 1, hash=None)
        [before] = await reading.read()
        [after] = await reading.read()
        assert before == after
        assert before.item is not after.item


async def test_a_shorter_list_that_is_read_meanwhile_hides_nothing_of_a_longer_one():
    """A page lists all that wait, while something else looks at the oldest one."""
    is_read, may_read = asyncio.Event(), asyncio.Event()

    class Slow(MemoryStore):
        async def review(self, id: str) -> ReviewRow | None:
            is_read.set()
            await may_read.wait()
            return await super().review(id)

    store = Slow()
    reading = OpenQuestions(store)
    for at in range(12):
        await put(store, at)
    await reading.read()
    await put(store, 12)
    longer = asyncio.create_task(reading.read())
    await is_read.wait()
    assert len(await reading.read(1)) == 1
    may_read.set()
    assert len(await longer) == 13


async def test_a_question_that_cannot_be_read_hides_no_other(place: Place):
    """A newer release that shares the store may have written it; it is there, without its content."""
    async with place.open() as store:
        await put(store, 1, item='{"from": "a newer release"}')
        await put(store, 2)
        unread, read = await OpenQuestions(store).read()
        assert (unread.id, unread.state, unread.item) == ("r01", "pending", None)
        assert read.item.params == request("Ask 2")
