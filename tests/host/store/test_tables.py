"""The tables of a store, made by the first process that opens it, and what a newer release may do to them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Connection, func, select, text

from antiphon.errors import ConfigError
from antiphon.host.store import tables
from antiphon.host.store.base import BlockRow, Change
from antiphon.host.store.chain import GENESIS
from antiphon.host.store.tables import audit_head, gathered, reviews_head
from antiphon.sql.runner import SqliteRunner
from tests.host.store.stores import DURABLE, Place, hold


@pytest.fixture(params=DURABLE)
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    """Give each test a place of its own, of each kind."""
    async with Place(request.param, tmp_path) as place:
        yield place


async def test_the_tables_are_made_once_with_the_rows_that_count(place: Place):
    """One row of each, also after a second process has opened the store."""
    runner = place.runner()
    await runner.run(tables.make_tables)
    await runner.run(tables.make_tables)
    heads = await runner.run(lambda connection: connection.execute(select(audit_head)).all())
    assert [tuple(row) for row in heads] == [(1, 0, GENESIS)]
    for table in (reviews_head, gathered):
        count = select(func.count()).select_from(table)
        assert await runner.run(lambda connection, count=count: connection.scalar(count)) == 1
    await runner.aclose()


async def test_a_file_without_tables_that_cannot_be_written_is_no_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The error says why nothing is made there."""
    async with Place("sqlite", tmp_path) as place:
        runner = place.runner()
        await runner.run(lambda connection: connection.execute(text("CREATE TABLE other (id INTEGER)")))
        await runner.aclose()
        monkeypatch.setattr(SqliteRunner, "read_only", True)
        async with place.open() as store:
            with pytest.raises(ConfigError, match="has no tables, and is read-only"):
                await store.head()


async def test_stores_of_one_process_are_opened_at_the_same_time(place: Place):
    """The first of them makes the tables, and the others wait."""
    async with AsyncExitStack() as stack:
        stores = [await stack.enter_async_context(place.open()) for _ in range(6)]
        assert [head.seq for head in await asyncio.gather(*(store.head() for store in stores))] == [0] * 6


def extended(connection: Connection, *, oldest: int) -> None:
    """Let a newer release have extended a store, which takes code of a revision at least."""
    tables.TABLES._replace(revision=9, oldest=oldest).make(connection)


async def test_a_newer_release_may_leave_an_older_one_its_store(place: Place, caplog: pytest.LogCaptureFixture):
    """It has added what the older one may pass over: that one starts, works, and heeds what has been decided."""
    async with place.open() as store:
        await store.block(BlockRow(identity="command:x", target="x", since=1.0))
    runner = place.runner()
    await runner.run(partial(extended, oldest=1))
    await runner.aclose()
    async with place.open() as store:
        assert await store.commit(Change(hold=hold())) == "block"
    assert "the tables host are of a newer release (9) than this one (1)" in caplog.text


async def test_a_newer_release_may_take_the_store_from_an_older_one(place: Place):
    """What it has added decides about requests: the older one says so, and what to do."""
    runner = place.runner()
    await runner.run(tables.make_tables)
    await runner.run(partial(extended, oldest=8))
    await runner.aclose()
    async with place.open() as store:
        with pytest.raises(ConfigError, match=r"revision 9.*8 or later.*this is 1.*Update"):
            await store.blocks("command:x")


async def test_a_process_that_runs_already_ends_its_work_on_a_store_that_was_taken(place: Place):
    """It notices at its next beat, and from then on everything that needs the store is refused."""
    async with place.open() as store:
        await store.recover()
        runner = place.runner()
        await runner.run(partial(extended, oldest=8))
        await runner.aclose()
        with pytest.raises(ConfigError, match="8 or later"):
            await store.recover()
        with pytest.raises(ConfigError, match="8 or later"):
            await store.commit(Change(hold=hold()))


async def test_a_file_keeps_numbered_tables_in_the_order_of_their_numbers(tmp_path: Path):
    """A record is written to one place then, not to a table and an index beside it."""
    async with Place("sqlite", tmp_path) as place:
        runner = place.runner()
        await runner.run(tables.make_tables)
        for table in ("audit", "asks"):
            keys = text(f"SELECT name FROM pragma_index_list('{table}') WHERE origin = 'pk'")
            assert await runner.run(lambda connection, keys=keys: connection.execute(keys).all()) == []
        await runner.aclose()
