"""A task store that is full or damaged costs no call that can be served without a task."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
from pathlib import Path

import pytest

from antiphon import Client
from antiphon.errors import TemporarilyUnavailable
from antiphon.server import SqlTaskStore
from tests.support.child_server import listens, started
from tests.support.network import until
from tests.support.ports import free_port

PROGRAM = '''
from antiphon import Server
from antiphon.server import SqlTaskStore, TaskOptions

server = Server("shop", version="1", keys=[b"k" * 32], tasks=TaskOptions(store=SqlTaskStore("tasks.db")))


@server.tool(structured=False, task="allowed")
async def may() -> str:
    """Take time."""
    return "hat"


@server.tool(structured=False, task="required")
async def must() -> str:
    """Take more time."""
    return "coat"
'''


async def damage(file: Path) -> None:
    """Write what is no database."""
    await asyncio.to_thread(file.write_bytes, b"no database" * 1000)


async def fill(file: Path) -> None:
    """Make every new task fail as on a full disk."""
    async with SqlTaskStore(file) as store:
        await store.clock()
    with sqlite3.connect(file) as database:
        full = "BEGIN SELECT RAISE(FAIL, 'database or disk is full'); END"
        database.execute(f"CREATE TRIGGER full BEFORE INSERT ON server_tasks {full}")
    database.close()


@pytest.mark.parametrize(("harm", "reason"), [(damage, "file is not a database"), (fill, "database or disk is full")])
async def test_what_may_be_a_task_is_served_without_one(harm, reason: str, tmp_path: Path):
    """What must be a task fails with an error that says that it may be called again, and the log has the reason."""
    (tmp_path / "program.py").write_text(PROGRAM.replace("tasks.db", str(tmp_path / "tasks.db")), encoding="utf-8")
    await harm(tmp_path / "tasks.db")
    place = f"127.0.0.1:{free_port()}"
    process = started("serve", str(tmp_path / "program.py"), "--http", place)
    try:
        await until(lambda: listens(place), 60)
        async with Client(f"http://{place}/mcp", revision="2026-07-28") as client:
            assert (await client.call_tool("may")).text == "hat"
            with pytest.raises(TemporarilyUnavailable, match="cannot store tasks now"):
                await client.call_tool("must")
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        _, said = await asyncio.to_thread(process.communicate)
    assert reason in str(said)
    assert "Traceback" not in str(said)
