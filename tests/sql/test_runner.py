"""Transactions in the thread of a SQLite store."""

from __future__ import annotations

import asyncio
import math
import multiprocessing
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError, OperationalError

from antiphon.errors import ConfigError, LocalProtocolError
from antiphon.sql import runner as module
from antiphon.sql.runner import SqliteRunner
from tests.host.store.stores import Place


@pytest.fixture
async def runner(tmp_path: Path) -> AsyncIterator[SqliteRunner]:
    """Open a file with one table."""
    runner = SqliteRunner(tmp_path / "host.db")
    await runner.run(lambda connection: connection.execute(text("CREATE TABLE t (n INTEGER)")))
    yield runner
    await runner.aclose()


def adding(number: int):
    """Add a number, by way of SQLAlchemy."""
    return lambda connection: connection.execute(text(f"INSERT INTO t VALUES ({number})"))


def numbers(connection: Connection) -> list[int]:
    """Return all numbers."""
    return list(connection.scalars(text("SELECT n FROM t ORDER BY n")))


async def test_what_returns_is_committed(runner: SqliteRunner, tmp_path: Path):
    """Others see it at once, whoever ran the statement."""

    def by_driver(connection: Connection) -> None:
        connection.connection.dbapi_connection.execute("INSERT INTO t VALUES (2)")

    await runner.run(adding(1))
    await runner.run(by_driver)
    with sqlite3.connect(tmp_path / "host.db") as other:
        assert other.execute("SELECT n FROM t ORDER BY n").fetchall() == [(1,), (2,)]
    other.close()


OTHER = """
import sqlite3, sys
other = sqlite3.connect(sys.argv[1])
print([n for n, in other.execute("SELECT n FROM t ORDER BY n")])
other.close()
"""


async def test_a_second_store_on_the_file_leaves_the_first_its_locks(runner: SqliteRunner, tmp_path: Path):
    """Else another process that comes and goes would think itself alone, and take away the log that is written to."""
    await runner.run(adding(1))
    second = SqliteRunner(tmp_path / "host.db")
    assert await second.run(numbers, write=False) == [1]
    await second.aclose()

    def seen_by_another() -> str:
        command = [sys.executable, "-c", OTHER, str(tmp_path / "host.db")]
        return subprocess.run(command, capture_output=True, check=True, text=True, timeout=60).stdout

    assert await asyncio.to_thread(seen_by_another) == "[1]\n"
    await runner.run(adding(2))
    assert await asyncio.to_thread(seen_by_another) == "[1, 2]\n"


async def test_what_raises_is_undone(runner: SqliteRunner):
    """All of it; the next transaction is whole again."""

    def fails(connection: Connection) -> None:
        adding(1)(connection)
        raise LookupError("no")

    with pytest.raises(LookupError, match="no"):
        await runner.run(fails)
    await runner.run(adding(2))
    assert await runner.run(numbers, write=False) == [2]


async def test_what_is_begun_is_finished(runner: SqliteRunner):
    """Whoever waits for it no more changes nothing."""
    begun = runner.run(adding(1))
    begun.cancel()
    with pytest.raises(asyncio.CancelledError):
        await begun
    assert await runner.run(numbers, write=False) == [1]


async def test_an_error_of_the_driver_is_one_of_the_database(runner: SqliteRunner):
    """Whoever catches those of SQLAlchemy misses none."""

    def wrong(connection: Connection) -> None:
        connection.connection.dbapi_connection.execute("SELECT * FROM nowhere")

    for work in (wrong, lambda connection: connection.execute(text("SELECT * FROM nowhere"))):
        with pytest.raises(OperationalError, match="nowhere") as caught:
            await runner.run(work)
        assert isinstance(caught.value.orig, sqlite3.OperationalError)
    assert await runner.run(numbers) == []


def test_a_loop_that_is_gone_hears_nothing(tmp_path: Path):
    """What was begun is finished all the same."""
    runner = SqliteRunner(tmp_path / "host.db")

    async def begin() -> None:
        await runner.run(lambda connection: connection.execute(text("CREATE TABLE t (n INTEGER)")))
        runner.run(adding(1))

    asyncio.run(begin())

    async def look() -> list[int]:
        found = await runner.run(numbers)
        await runner.aclose()
        return found

    assert asyncio.run(look()) == [1]


@pytest.mark.postgres
async def test_what_is_begun_at_a_server_is_finished_before_it_is_closed(tmp_path: Path):
    """As with a file; and no connection is left open."""
    place = Place("postgres", tmp_path)
    async with place:
        runner = place.runner()
        await runner.run(lambda connection: connection.execute(text("CREATE TABLE t (n INTEGER)")))
        begun = asyncio.ensure_future(runner.run(adding(1)))
        await asyncio.sleep(0)
        begun.cancel()
        await runner.aclose()
        again = place.runner()
        assert await again.run(numbers, write=False) == [1]
        await again.aclose()
        assert begun.cancelled()


def rights(path: Path) -> int:
    """Return who may do what with a file."""
    return path.stat().st_mode & 0o777


async def test_a_file_that_others_could_read_is_kept_from_them(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """With those that SQLite keeps beside it; and it is said."""
    path = tmp_path / "host.db"
    first = SqliteRunner(path)
    await first.run(lambda connection: connection.execute(text("CREATE TABLE t (n INTEGER)")))
    files = [path, tmp_path / "host.db-wal", tmp_path / "host.db-shm"]
    for file in files:
        file.chmod(0o666)
    second = SqliteRunner(path)
    assert await second.run(numbers, write=False) == []
    assert [rights(file) for file in files] == [0o600] * 3
    assert "others could read or write it" in caplog.text
    await first.aclose()
    await second.aclose()


async def test_what_is_no_database_keeps_its_rights(tmp_path: Path):
    """A path was mistyped: what is there belongs to somebody else."""
    foreign = tmp_path / "notes.txt"
    foreign.write_bytes(b"no database" * 100)
    foreign.chmod(0o644)
    runner = SqliteRunner(foreign)
    for _ in range(2):
        with pytest.raises(DBAPIError, match="not a database"):
            await runner.run(numbers)
    await runner.aclose()
    assert rights(foreign) == 0o644
    assert foreign.read_bytes() == b"no database" * 100


async def test_a_folder_is_no_store_and_can_still_be_entered(tmp_path: Path):
    """The message names it, and what to write instead."""
    folder = tmp_path / "state"
    folder.mkdir()
    folder.chmod(0o755)
    runner = SqliteRunner(folder)
    with pytest.raises(ConfigError, match=r"state: is a folder; name a file in it, as in .*state/host\.db$"):
        await runner.run(numbers)
    await runner.aclose()
    assert rights(folder) == 0o755


async def test_a_file_made_at_the_end_of_a_link_is_nobody_elses(tmp_path: Path):
    """Also where nothing was there, and others may usually read what is made."""
    before = os.umask(0)
    try:
        (tmp_path / "link.db").symlink_to(tmp_path / "elsewhere" / "host.db")
        runner = SqliteRunner(tmp_path / "link.db")
        await runner.run(lambda connection: connection.execute(text("CREATE TABLE t (n INTEGER)")))
        made = tmp_path / "elsewhere"
        assert {file.name: rights(file) for file in made.iterdir()} == {
            "host.db": 0o600,
            "host.db-wal": 0o600,
            "host.db-shm": 0o600,
        }
        await runner.aclose()
    finally:
        os.umask(before)


READER = """
import asyncio, os, sys
from pathlib import Path
from sqlalchemy import text
from antiphon.errors import ConfigError
from antiphon.sql import runner as module
from antiphon.sql.runner import SqliteRunner

async def main(path):
    runner = SqliteRunner(Path(path))
    numbers = await runner.run(lambda connection: list(connection.scalars(text("SELECT n FROM t"))), write=False)
    print(numbers, runner.read_only)
    await runner.aclose()

asyncio.run(main(sys.argv[1]))
if os.geteuid() == 0:
    os.setuid(65534)
asyncio.run(main(sys.argv[2]))
"""
WRITER = """
import os, sqlite3, sys
made = sqlite3.connect(sys.argv[1], isolation_level=None)
made.execute("PRAGMA journal_mode=WAL")
made.execute("CREATE TABLE t (n INTEGER)")
made.execute("INSERT INTO t VALUES (1)")
if sys.argv[2] == "merged":
    made.close()
os._exit(0)
"""


@pytest.mark.parametrize("how", ["merged", "killed"])
def test_a_file_that_cannot_be_written_is_read(how: str, tmp_path: Path):
    """Also what a process that was killed had written and not merged; everything stays as it was."""
    with TemporaryDirectory() as folder:
        there = Path(folder, "host.db")
        for path in (tmp_path / "host.db", there):
            subprocess.run([sys.executable, "-c", WRITER, str(path), how], check=True, timeout=60)
        Path(folder, "host.db-shm").unlink(missing_ok=True)
        before = {file.name: file.read_bytes() for file in Path(folder).iterdir()}
        for file in (*Path(folder).iterdir(), Path(folder)):
            file.chmod(0o500 if file.is_dir() else 0o400)
            if os.geteuid() == 0:
                # Root may write everything: the reader becomes somebody else.
                os.chown(file, 65534, 65534)
        command = [sys.executable, "-c", READER, str(tmp_path / "host.db"), str(there)]
        done = subprocess.run(command, capture_output=True, check=False, text=True, timeout=60)
        if os.geteuid() != 0:
            Path(folder).chmod(0o700)
        assert done.stdout == "[1] False\n[1] True\n", done.stderr
        assert {file.name: file.read_bytes() for file in Path(folder).iterdir()} == before


def on_thread(connection: Connection) -> str:
    """Add a number, and return the name of the thread."""
    adding(7)(connection)
    return threading.current_thread().name


async def test_a_brief_transaction_runs_on_the_event_loop(runner: SqliteRunner, monkeypatch: pytest.MonkeyPatch):
    """It does while the thread has nothing to do; otherwise it waits for its turn in the thread."""
    monkeypatch.setattr(module, "_BRIEF", math.inf)
    here = threading.current_thread().name
    assert await runner.run(on_thread) != here
    first = runner.run(on_thread, brief=True)
    assert first.done()
    assert first.result() == here
    turns = [runner.run(on_thread), runner.run(on_thread, brief=True)]
    assert here not in await asyncio.gather(*turns)
    assert await runner.run(on_thread, brief=True) == here
    assert await runner.run(numbers) == [7] * 5


async def test_a_brief_transaction_that_fails_changes_nothing(runner: SqliteRunner):
    """Errors are those of any transaction, and the next one works."""

    def fails(connection: Connection) -> None:
        adding(1)(connection)
        connection.connection.dbapi_connection.execute("SELECT elsewhere.n FROM t")

    with pytest.raises(DBAPIError, match="no such column"):
        await runner.run(fails, brief=True)
    await runner.run(adding(2), brief=True)
    assert await runner.run(numbers) == [2]


async def test_a_brief_transaction_waits_for_another_process_in_the_thread(runner: SqliteRunner, tmp_path: Path):
    """The event loop waits for no lock."""
    other = sqlite3.connect(tmp_path / "host.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    waiting = runner.run(on_thread, brief=True)
    assert not waiting.done()
    other.execute("COMMIT")
    other.close()
    assert await waiting != threading.current_thread().name


async def test_brief_transactions_are_merged_by_the_thread(
    runner: SqliteRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The log does not grow with each transaction on the event loop."""
    monkeypatch.setattr(module, "_BRIEF", math.inf)
    log = tmp_path / "host.db-wal"
    for _ in range(3):
        for _ in range(200):
            await runner.run(adding(1), brief=True)
        size = log.stat().st_size
        await runner.run(numbers)
    assert size < 300 * 4096


async def test_transactions_go_on_during_every_other_merge(runner: SqliteRunner, monkeypatch: pytest.MonkeyPatch):
    """A merge waits for the disk. The next one has the log to itself: a log begins anew only once all is merged."""
    monkeypatch.setattr(module, "_BRIEF", math.inf)
    monkeypatch.setattr(module, "_UNMERGED", 4)
    here = threading.current_thread().name
    await runner.run(numbers)
    ran = [runner.run(on_thread, brief=True) for _ in range(9)]
    assert [turn.done() for turn in ran] == [True] * 8 + [False]
    assert [turn.result() for turn in ran[:8]] == [here] * 8
    assert await ran[8] != here
    assert await runner.run(numbers) == [7] * 9


async def test_a_slow_disk_keeps_transactions_off_the_event_loop(runner: SqliteRunner, monkeypatch: pytest.MonkeyPatch):
    """After a transaction that took too long there, the next ones run in the thread for ten times as long."""
    now = 1_000.0
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now))
    here = threading.current_thread().name

    def take_long(connection: Connection) -> str:
        nonlocal now
        now += 0.1
        return on_thread(connection)

    assert await runner.run(take_long, brief=True) == here
    now += 0.99
    assert await runner.run(on_thread, brief=True) != here
    now += 0.02
    assert await runner.run(on_thread, brief=True) == here


async def test_a_durable_store_waits_for_the_disk_in_the_thread(tmp_path: Path):
    """A commit that survives a power cut takes milliseconds."""
    runner = SqliteRunner(tmp_path / "host.db", durable=True)
    await runner.run(lambda connection: connection.execute(text("CREATE TABLE t (n INTEGER)")))
    assert await runner.run(on_thread, brief=True) != threading.current_thread().name
    await runner.aclose()


async def test_a_second_event_loop_is_refused_while_the_first_one_runs(runner: SqliteRunner):
    """Two threads would run transactions on one connection; each event loop needs a store of its own."""

    async def add() -> None:
        await runner.run(adding(1))

    with pytest.raises(LocalProtocolError, match="make a store for each"):
        await asyncio.to_thread(asyncio.run, add())
    await runner.run(adding(1))


def test_one_event_loop_after_another_may_use_a_file(tmp_path: Path):
    """As programs do that call ``asyncio.run`` twice."""
    runner = SqliteRunner(tmp_path / "host.db")

    async def count() -> int:
        await runner.run(lambda connection: connection.execute(text("CREATE TABLE IF NOT EXISTS t (n INTEGER)")))
        await runner.run(adding(1))
        return await runner.run(lambda connection: connection.execute(text("SELECT count(*) FROM t")).scalar_one())

    assert [asyncio.run(count()), asyncio.run(count())] == [1, 2]
    asyncio.run(runner.aclose())


def test_a_forked_child_makes_a_store_of_its_own(tmp_path: Path):
    """It has no thread for the transactions of the one it inherits, and waited for them."""
    runner = SqliteRunner(tmp_path / "host.db")

    async def use() -> None:
        await runner.run(lambda _: None)

    def use_in_child() -> None:
        with pytest.raises(LocalProtocolError, match="make a store for each"):
            asyncio.run(use())

    asyncio.run(use())
    child = multiprocessing.get_context("fork").Process(target=use_in_child)
    child.start()
    child.join()
    assert child.exitcode == 0
    asyncio.run(runner.aclose())
