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
from sqlalchemy import Connection, select, text

from antiphon.errors import ConfigError
from antiphon.server.calls.sql_state_store import SqlStateStore
from antiphon.server.calls.task.sql_task_store import SqlTaskStore
from antiphon.sql.location import runner_at
from antiphon.sql.revision import check_revision, revisions
from tests.support.postgres import own_postgres

OPENER = """
import asyncio, sys
from antiphon.server import SqlStateStore, SqlTaskStore

async def main(place):
    async with SqlStateStore(place) as states:
        tasks = SqlTaskStore(place)
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        print(*await asyncio.gather(states.get("key"), tasks.get("id")), flush=True)
        await tasks.aclose()

asyncio.run(main(sys.argv[1]))
"""
"""Opens both stores at a database when a line is sent to it."""


def told(connection: Connection) -> list[tuple[object, ...]]:
    """Return what is known of all tables."""
    return [tuple(row) for row in connection.execute(select(revisions).order_by(revisions.c.tables))]


def newer(connection: Connection, tables: str, oldest: int) -> None:
    """Let a newer release have extended some tables."""
    check_revision(connection, tables, 9, oldest)


async def test_a_release_raises_what_it_extends_and_nothing_else(tmp_path: Path) -> None:
    """The older one leaves the numbers of a newer one as they are."""
    runner = runner_at(tmp_path / "file.db", extra="sql")
    for tables, revision, oldest in (("a", 1, 1), ("b", 1, 1), ("a", 3, 1), ("a", 2, 2)):
        await runner.run(partial(check_revision, tables=tables, revision=revision, oldest=oldest))
    assert await runner.run(told) == [("a", 3, 1), ("b", 1, 1)]
    await runner.aclose()


async def test_a_newer_release_may_leave_an_older_one_the_tables(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It has added columns that have defaults; states are stored as before, and the log says once what is so."""
    path = tmp_path / "file.db"
    async with SqlStateStore(path) as store:
        await store.put("key", b"old", 60)
    runner = runner_at(path, extra="sql")
    await runner.run(partial(newer, tables="server_states", oldest=1))
    added = text("ALTER TABLE server_states ADD COLUMN more INTEGER NOT NULL DEFAULT 0")
    await runner.run(lambda connection: connection.execute(added))
    await runner.aclose()
    async with SqlStateStore(path) as store:
        await store.put("key", b"new", 60)
        assert await store.get("key") == b"new"
    assert caplog.text.count("the tables server_states are of a newer release (9) than this one (1)") == 1


@pytest.mark.parametrize("tables", ["server_states", "server_tasks"])
async def test_a_newer_release_may_take_the_tables_from_an_older_one(tables: str, tmp_path: Path) -> None:
    """It says which revisions these are and what to do, and touches nothing."""
    runner = runner_at(tmp_path / "file.db", extra="sql")
    await runner.run(partial(newer, tables=tables, oldest=9))
    store = (SqlStateStore if tables == "server_states" else SqlTaskStore)(tmp_path / "file.db")
    with pytest.raises(ConfigError, match=rf"{tables} .*revision 9.*code of 9 or later, and this is 1\. Update"):
        await store.get("key")
    await store.aclose()
    names = await runner.run(
        lambda connection: connection.execute(text("SELECT name FROM sqlite_master")).scalars().all()
    )
    assert "server_revisions" in names
    assert tables not in names
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
        assert said == [(b"None None\n", b"")] * len(started)


async def _killed(process: asyncio.subprocess.Process) -> None:
    """End a process that has not ended by itself, and read what it has left in its pipes."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.communicate()
