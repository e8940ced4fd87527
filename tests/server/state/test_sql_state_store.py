"""State stores in databases: shared by processes, swept, bounded in time."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from antiphon.errors import ConfigError
from antiphon.machine.public_names import describe_install
from antiphon.server.state import sql_state_store
from antiphon.server.state.sql_state_store import SqlStateStore


def rows(path: Path) -> int:
    """Count what is in a file."""
    with sqlite3.connect(path) as file:
        found = file.execute("SELECT count(*) FROM server_states").fetchone()[0]
    file.close()
    return found


async def test_two_stores_on_one_file_see_the_same(tmp_path: Path):
    """As two processes do; closed and opened again it is there, for its user alone."""
    path = tmp_path / "new" / "states.db"
    async with SqlStateStore(path) as one, SqlStateStore(f"sqlite:///{path}") as other:
        await asyncio.gather(one.put("a", b"1", 60), other.put("b", b"2", 60))
        assert await other.replace("a", b"3", 60, expected=b"1")
        assert (await one.get("a"), await one.get("b")) == (b"3", b"2")
    async with SqlStateStore(path) as again:
        assert await again.get("a") == b"3"
    assert path.stat().st_mode & 0o777 == 0o600


async def test_what_is_too_old_is_forgotten_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """At the first write, and then once a minute."""
    now = 0.0
    monkeypatch.setattr(sql_state_store, "SWEEP", 0.0)
    async with SqlStateStore(tmp_path / "states.db", clock=lambda: now) as store:
        await store.put("old", b"", 10)
        now = 20.0
        await store.put("new", b"", 10)
        await store._sweeping
        assert rows(tmp_path / "states.db") == 1


async def test_a_sweep_that_fails_harms_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """It is said, and the next one does its work."""
    async with SqlStateStore(tmp_path / "states.db") as store:

        async def failing() -> None:
            raise ConnectionResetError

        store.sweep = failing
        await store.put("a", b"1", 10)
        await asyncio.wait([store._sweeping])
        assert await store.get("a") == b"1"
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert said == ["the state store was not swept: ConnectionResetError"]


async def test_what_is_committed_outlives_a_power_cut(tmp_path: Path):
    """A step that is noted must never be taken again: each commit is flushed."""
    async with SqlStateStore(tmp_path / "states.db") as store:
        await store.put("a", b"1", 10)
        assert (
            await store._runner.run(lambda connection: connection.exec_driver_sql("PRAGMA synchronous").scalar()) == 2
        )


@pytest.mark.parametrize(
    ("place", "limit", "said"), [("mysql://x/y", 1, "not mysql"), ("states.db", 0, "above 0, not 0")]
)
def test_what_cannot_be_is_named(place: str, limit: int, said: str):
    """When it is made, not when it is first used."""
    with pytest.raises(ConfigError, match=said):
        SqlStateStore(place, limit=limit)


def test_a_server_without_such_a_store_loads_no_database():
    """The packages are needed by whoever names one."""
    code = (
        "import sys; from antiphon import MemoryStateStore, Server; Server('x', state_store=MemoryStateStore()); "
        "heavy = {'sqlalchemy', 'asyncpg', 'sqlite3'} & set(sys.modules); sys.exit(str(sorted(heavy)) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_missing_packages_are_named(tmp_path: Path):
    """With what installs them."""
    code = (
        "import sys; sys.modules['sqlalchemy'] = None\n"
        "from antiphon import SqlStateStore\nfrom antiphon.errors import ConfigError\n"
        "try:\n SqlStateStore('x.db')\nexcept ConfigError as error:\n print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert describe_install("sql") in done.stdout


def test_a_store_is_closed_on_the_event_loop_after_the_last(tmp_path: Path):
    """Its sweep has ended with that one."""
    store = SqlStateStore(tmp_path / "states.db")
    asyncio.run(store.put("key", b"value", 60))
    asyncio.run(store.aclose())
