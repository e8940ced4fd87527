"""From nothing to the tables of today."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, func, select, text, update

from antiphon.errors import ConfigError
from antiphon.host.store import migrations
from antiphon.host.store import reviews as questions
from antiphon.host.store.base import BlockRow, Change
from antiphon.host.store.chain import GENESIS
from antiphon.host.store.tables import OLDEST, REVISION, audit_head, compatible, metadata, reviews_head
from tests.host.store.stores import DURABLE, Place, hold


@pytest.fixture(params=DURABLE)
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    """Give each test a place of its own, of each kind."""
    async with Place(request.param, tmp_path) as place:
        yield place


async def test_migrations_make_what_the_schema_says(place: Place):
    """Table by table, column by column, index by index."""
    runner = place.runner()
    await runner.run(migrations.upgrade)

    def differences(connection: Connection) -> list[object]:
        return compare_metadata(MigrationContext.configure(connection, opts={"compare_type": True}), metadata)

    assert await runner.run(differences) == []
    await runner.aclose()


async def test_a_store_is_current_after_them(place: Place):
    """And is left alone then."""
    runner = place.runner()
    assert not await runner.run(migrations.is_current)
    await runner.run(migrations.upgrade)
    assert await runner.run(migrations.is_current)
    await runner.run(migrations.upgrade)
    await runner.aclose()


@pytest.mark.postgres
async def test_who_finds_another_process_at_them_looks_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A transaction that waited for it would be given up after seconds, although opening a store may take a minute."""
    upgrade, tried = migrations.upgrade, asyncio.Queue[bool]()

    def noted(connection: Connection) -> bool:
        done = upgrade(connection)
        tried.put_nowait(done)
        return done

    monkeypatch.setattr(migrations, "upgrade", noted)
    async with Place("postgres", tmp_path) as place, place.open() as store:
        other = place.runner()
        try:
            lock = select(func.pg_advisory_lock(migrations._LOCK))
            await other.run(lambda connection: connection.execute(lock))
            opening = asyncio.create_task(store.head())
            async with asyncio.timeout(60):
                assert [await tried.get(), await tried.get()] == [False, False]
                await other.aclose()
                assert (await opening).seq == 0
        finally:
            await other.aclose()


async def test_stores_of_one_process_are_brought_up_to_date_at_the_same_time(tmp_path: Path):
    """Alembic keeps the database that it works on in a variable of the process."""
    async with AsyncExitStack() as stack:
        places = [await stack.enter_async_context(Place("sqlite", tmp_path / str(number))) for number in range(6)]
        stores = [await stack.enter_async_context(place.open()) for place in places]
        assert [head.seq for head in await asyncio.gather(*(store.head() for store in stores))] == [0] * 6


def upgraded(connection: Connection, *, oldest: str) -> None:
    """Let a newer release have brought a store up to date, which takes code of a revision at least."""
    connection.execute(text("UPDATE alembic_version SET version_num = 'v9999'"))
    connection.execute(update(compatible).values(oldest=oldest))


async def test_a_newer_release_may_leave_an_older_one_its_store(place: Place, caplog: pytest.LogCaptureFixture):
    """It has added what the older one may pass over: that one starts, works, and heeds what has been decided."""
    async with place.open() as store:
        await store.block(BlockRow(identity="command:x", target="x", since=1.0))
    runner = place.runner()
    await runner.run(partial(upgraded, oldest=REVISION))
    await runner.aclose()
    async with place.open() as store:
        assert await store.commit(Change(hold=hold())) == "block"
    assert f"newer release (v9999) than this one ({REVISION})" in caplog.text


async def test_a_newer_release_may_take_the_store_from_an_older_one(place: Place):
    """What it has added decides about requests: the older one says so, and what to do."""
    runner = place.runner()
    await runner.run(migrations.upgrade)
    await runner.run(partial(upgraded, oldest="v9998"))
    await runner.aclose()
    async with place.open() as store:
        with pytest.raises(ConfigError, match=rf"revision v9999.*v9998 or later.*this is {REVISION}.*Update"):
            await store.blocks("command:x")


async def test_a_process_that_runs_already_ends_its_work_on_a_store_that_was_taken(place: Place):
    """It notices at its next beat, and from then on everything that needs the store is refused."""
    async with place.open() as store:
        await store.recover()
        runner = place.runner()
        await runner.run(partial(upgraded, oldest="v9998"))
        await runner.aclose()
        with pytest.raises(ConfigError, match="v9998 or later"):
            await store.recover()
        with pytest.raises(ConfigError, match="v9998 or later"):
            await store.commit(Change(hold=hold()))


async def test_each_upgrade_says_which_code_it_takes(place: Place):
    """Else a release that raises the bound would leave the one of the release before."""
    runner = place.runner()
    await runner.run(migrations.upgrade)
    assert await runner.run(lambda connection: connection.scalar(select(compatible.c.oldest))) == OLDEST
    await runner.aclose()


async def test_the_rows_that_count_begin_at_nothing(place: Place):
    """One of each."""
    runner = place.runner()
    await runner.run(migrations.upgrade)
    rows = await runner.run(lambda connection: connection.execute(select(audit_head)).all())
    assert [tuple(row) for row in rows] == [(1, 0, GENESIS)]
    assert await runner.run(lambda connection: connection.scalar(select(func.count()).select_from(reviews_head))) == 1
    await runner.aclose()


def test_the_newest_is_the_one_the_schema_names():
    """So that a store that is up to date is known without Alembic."""
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    assert ScriptDirectory.from_config(config).get_heads() == [REVISION]


async def test_what_was_kept_before_is_kept(place: Place):
    """A question of the first tables is there after the newest migration, with nothing in the new columns."""
    from alembic import command
    from alembic.config import Config

    def first(connection: Connection) -> None:
        config = Config()
        config.set_main_option("script_location", str(Path(migrations.__file__).parent))
        config.attributes["connection"] = connection
        command.upgrade(config, "v0001")
        old = {"id": "old", "kind": "request", "fingerprint": "f", "g": "g", "identity": "command:x", "created": 1.0}
        names = 'id, kind, fingerprint, "group", identity, created, state, item'
        values = ":id, :kind, :fingerprint, :g, :identity, :created, 'pending', NULL"
        connection.execute(text(f"INSERT INTO reviews ({names}) VALUES ({values})"), old)

    runner = place.runner()
    await runner.run(first)
    await runner.run(migrations.upgrade)
    [row] = await runner.run(lambda connection: questions.in_states(connection, ("pending",), 10))
    assert (row.id, row.hash, row.release, row.outcome, row.held) == ("old", None, None, None, False)
    await runner.aclose()
