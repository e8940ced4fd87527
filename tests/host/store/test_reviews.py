"""What ends by itself, such as links and who was let in, and partial answers, kept by every kind of store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from antiphon.host.store.base import PartialRow, Store
from tests.host.store.stores import DURABLE, KINDS, Place


@pytest.fixture(params=KINDS)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """Open a store of each kind."""
    async with Place(request.param, tmp_path) as place, place.open() as store:
        yield store


async def test_a_link_is_taken_once_and_before_it_ends(store: Store):
    """Of several that take it at the same moment, one gets it."""
    for digest, until in (("one", 4e9), ("ended", 1.0)):
        await store.keep_timed_row("link", digest, "12ab", until, most=5)
    taken = await asyncio.gather(*(store.take_timed_row("link", "one") for _ in range(5)))
    assert [review for review in taken if review is not None] == ["12ab"]
    assert [await store.take_timed_row("link", digest) for digest in ("one", "ended", "other")] == [None] * 3


async def test_the_links_that_end_first_go_first(store: Store):
    """As many are kept as were asked for."""
    for number in (3, 1, 2):
        await store.keep_timed_row("link", str(number), "12ab", 4e9 + number, most=2)
    assert [await store.take_timed_row("link", digest) is not None for digest in ("1", "2", "3")] == [False, True, True]


async def test_what_ends_by_itself_is_listed_until_then(store: Store):
    """In the order of its end, each kind by itself; what is kept already stays as it is."""
    for id, until in (("two", 4e9 + 2), ("one", 4e9 + 1), ("ended", 1.0), ("two", 4e9)):
        await store.keep_timed_row("device", id, f"{id} {until:g}", until, most=5)
    await store.keep_timed_row("key", "two", "other", float("inf"), most=1)
    assert list((await store.timed_rows("device")).items()) == [("one", "one 4e+09"), ("two", "two 4e+09")]
    assert await store.timed_rows("key") == {"two": "other"}
    for until in (1.0, 4e9, 5e9):
        await store.keep_timed_row("page", "one", f"until {until:g}", until, most=5)
    assert await store.timed_rows("page") == {"one": "until 4e+09"}


@pytest.fixture(params=KINDS)
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    """Give each test a place of its own, of each kind."""
    async with Place(request.param, tmp_path) as place:
        yield place


def row(store: Store, body: str = "{}", *, id: str = "r", began: float = 1.0) -> PartialRow:
    """Make what has come of an answer."""
    return PartialRow(id=id, host=store.host, began=began, body=body)


async def test_what_comes_later_takes_the_place_of_what_came_before(place: Place):
    """One row an answer, in the order in which they began; none once it is whole."""
    async with place.open() as store:
        for partial in (row(store, "1"), row(store, "2", id="s", began=2.0), row(store, "3")):
            await store.keep_partial(partial)
        assert [(each.id, each.body) for each in await store.partials()] == [("r", "3"), ("s", "2")]
        await store.drop_partial("r")
        assert [each.id for each in await store.partials()] == ["s"]


async def test_those_who_wait_are_told_of_the_first_piece_only(place: Place):
    """More of it changes nothing but itself: a page would draw its queue anew each time."""
    async with place.open() as store:
        before = await store.reviews_version()
        await store.keep_partial(row(store, "1"))
        begun = await store.reviews_version()
        await store.keep_partial(row(store, "2"))
        await store.drop_partial("r")
        assert before < begun == await store.reviews_version()


async def test_somebody_looks_until_a_moment(place: Place):
    """Whoever stops looking need not say so."""
    async with place.open() as store:
        assert not await store.watched()
        await store.watch(place.clock.now + 10)
        assert await store.watched()
        place.clock.now += 11
        assert not await store.watched()


@pytest.mark.parametrize("kind", DURABLE)
async def test_another_process_sees_who_looks_and_what_comes(kind, tmp_path):
    """The page need not be in the process of the host."""
    async with Place(kind, tmp_path) as place, place.open() as host, place.open() as page:
        await page.watch(place.clock.now + 10)
        assert await host.watched()
        await host.keep_partial(row(host, "1"))
        assert [each.body for each in await page.partials()] == ["1"]


@pytest.mark.parametrize("kind", DURABLE)
async def test_nothing_is_left_of_a_process_that_is_gone(kind, tmp_path):
    """Closed, or silent for a lease: what had come of its answers is removed, and it looks at nothing."""
    async with Place(kind, tmp_path) as place, place.open() as here:
        async with place.open() as closed:
            await closed.watch(place.clock.now + 1_000)
            await closed.keep_partial(row(closed))
        assert (await here.partials(), await here.watched()) == ([], False)
        silent = place.make()
        silent.host = "elsewhere"
        await silent.keep_partial(row(silent))
        # It is first seen by the first look, and silent from then on.
        await here.recover()
        await place.outlast(here)
        assert await here.partials() == []
        await silent.aclose()
