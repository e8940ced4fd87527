"""Which code may work with the tables of servers, while releases change."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Column, Connection, Integer, MetaData, Table, inspect, text

from antiphon.errors import ConfigError
from antiphon.server.state import state_table
from antiphon.server.state.sql_state_store import SqlStateStore
from antiphon.server.tasks import task_table
from antiphon.server.tasks.sql_task_store import SqlTaskStore
from antiphon.sql.database_store import runner_at
from antiphon.sql.revision import TableSet
from tests.support.postgres import own_postgres

OPENER = """
import asyncio, sys
from antiphon.host import open_store
from antiphon.server import SqlStateStore, SqlTaskStore

async def main(place):
    async with SqlStateStore(place) as states:
        tasks, records = SqlTaskStore(place), open_store(place)
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        values = await asyncio.gather(states.get("key"), tasks.get("id"), records.head())
        print(*values[:2], values[2].seq, flush=True)
        await records.aclose()
        await tasks.aclose()

asyncio.run(main(sys.argv[1]))
"""
"""Opens all stores at a database when a line is sent to it."""


def newer(connection: Connection, tables: TableSet, oldest: int) -> None:
    """Let a newer release have extended some tables."""
    tables._replace(revision=9, oldest=oldest).make(connection)


async def test_a_release_makes_what_it_adds_and_an_older_one_leaves_it(tmp_path: Path) -> None:
    """The numbers of the newer one stay, also when the older one opens the tables again."""
    first, second = MetaData(), MetaData()
    Table("one", first, Column("id", Integer))
    Table("one", second, Column("id", Integer))
    Table("two", second, Column("id", Integer))
    old, new = TableSet("set", first), TableSet("set", second, revision=3)
    runner = runner_at(tmp_path / "file.db", extra="sql")
    made = [await runner.run(tables.make) for tables in (old, old, new, old, new)]
    assert made == [True, False, True, False, False]
    assert await runner.run(lambda connection: inspect(connection).get_table_names()) == [
        "one",
        "table_revisions",
        "two",
    ]
    assert await runner.run(old.check) == 3
    await runner.run(lambda connection: connection.execute(text("DROP TABLE two")))
    assert [await runner.run(tables.make) for tables in (old, new, new)] == [False, True, False]
    await runner.aclose()


async def test_tables_that_no_release_has_made_are_left_alone(tmp_path: Path) -> None:
    """An unreleased version made other columns; the first statement would fail with words of the database."""
    metadata = MetaData()
    Table("one", metadata, Column("id", Integer))
    runner = runner_at(tmp_path / "file.db", extra="sql")
    await runner.run(lambda connection: connection.execute(text("create table one (other integer)")))
    with pytest.raises(ConfigError, match=r"file\.db: the tables set have no revision"):
        await runner.run(TableSet("set", metadata).make)
    await runner.aclose()


async def test_tables_of_the_same_revision_that_lack_a_column_are_left_alone(tmp_path: Path) -> None:
    """Before the first release, tables change without a revision of their own."""
    before, now = MetaData(), MetaData()
    Table("one", before, Column("id", Integer))
    Table("one", now, Column("id", Integer), Column("new", Integer))
    runner = runner_at(tmp_path / "file.db", extra="sql")
    assert await runner.run(TableSet("set", before).make)
    with pytest.raises(ConfigError, match=r"file\.db: the tables set lack columns: an unreleased version"):
        await runner.run(TableSet("set", now).make)
    await runner.aclose()


async def test_a_newer_release_may_leave_an_older_one_the_tables(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It has added columns that have defaults; states are stored as before, and the log says once what is so."""
    path = tmp_path / "file.db"
    async with SqlStateStore(path) as store:
        await store.put("key", b"old", 60)
    runner = runner_at(path, extra="sql")
    await runner.run(partial(newer, tables=state_table.TABLES, oldest=1))
    added = text("ALTER TABLE server_states ADD COLUMN more INTEGER NOT NULL DEFAULT 0")
    await runner.run(lambda connection: connection.execute(added))
    await runner.aclose()
    async with SqlStateStore(path) as store:
        await store.put("key", b"new", 60)
        assert await store.get("key") == b"new"
    assert caplog.text.count("the tables server_states are of a newer release (9) than this one (1)") == 1


@pytest.mark.parametrize("tables", [state_table.TABLES, task_table.TABLES], ids=lambda tables: tables.name)
async def test_a_newer_release_may_take_the_tables_from_an_older_one(tables: TableSet, tmp_path: Path) -> None:
    """It says which revisions these are and what to do, and touches nothing."""
    runner = runner_at(tmp_path / "file.db", extra="sql")
    await runner.run(partial(newer, tables=tables, oldest=9))
    store = (SqlStateStore if tables is state_table.TABLES else SqlTaskStore)(tmp_path / "file.db")
    match = rf"{tables.name} .*revision 9.*code of 9 or later, and this is 1\. Update"
    with pytest.raises(ConfigError, match=match):
        await store.get("key")
    await store.aclose()
    await runner.aclose()


@pytest.mark.postgres
async def test_processes_that_start_together_make_the_tables_once() -> None:
    """Where there are none yet; each takes them up at the same moment, and all can use them."""
    async with AsyncExitStack() as stack:
        place = stack.enter_context(own_postgres()).address
        started = [
            await asyncio.create_subprocess_exec(
                sys.executable, "-c", OPENER, place, stdin=PIPE, stdout=PIPE, stderr=PIPE, start_new_session=True
            )
            for _ in range(6)
        ]
        for each in started:
            stack.push_async_callback(_killed, each)
        async with asyncio.timeout(100):
            for each in started:
                assert each.stdout is not None
                assert await each.stdout.readline() == b"ready\n"
            said = await asyncio.gather(*(each.communicate(b"go\n") for each in started))
        assert said == [(b"None None 0\n", b"")] * len(started)


async def _killed(process: asyncio.subprocess.Process) -> None:
    """End a process that has not ended by itself, and read what it has left in its pipes."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.communicate()
