"""``antiphon call --background`` and ``antiphon tasks``: a task that outlives the command that has started it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from antiphon import Context, Server
from antiphon.server import SqlTaskStore, TaskOptions
from tests.cli.conftest import Cli


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """Reach a server in this process whose tasks are in a file; return what to call it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    stores: list[SqlTaskStore] = []

    def made(*_: object) -> Server:
        store = SqlTaskStore(tmp_path / "tasks.db")
        stores.append(store)
        server = Server("worker", keys=[b"k" * 32], tasks=TaskOptions(store=store, poll_every=0.05, lease=1))

        @server.tool(task="allowed")
        async def publish(title: str, ctx: Context) -> str:
            """Publish when the model agrees."""
            await ctx.progress(1, 2, "asking")
            return f"{title}: {(await ctx.sample('May I?')).text}"

        @server.tool
        async def quick() -> str:
            """Return at once."""
            return "done"

        return server

    monkeypatch.setattr("antiphon.cli.open_client.resolve_target", made)
    yield "worker.py"
    for store in stores:
        asyncio.run(store.aclose())


def test_a_task_is_started_shown_followed_and_forgotten(cli: Cli, worker: str):
    """Each by a command of its own, with the id that the first one prints."""
    done = cli("call", worker, "publish", "title=Tides", "--background", "--yes")
    assert done.code == 0
    # A task in the memory of a server over stdio would be gone, although its id is printed.
    assert "publish: a server that this command has started ends with it" in done.err
    id = done.out.strip()
    [listed] = cli("tasks", "--json").objects
    assert (listed["id"], listed["tool"], listed["target"]) == (id, "publish", worker)
    shown = cli("tasks", "show", id[:8])
    # It may have been asked already, or not yet.
    assert shown.out.split("\t")[0] in ("working", "input_required")
    followed = cli("tasks", "follow", id[:8], "--provider", "echo", "--yes")
    assert (followed.code, followed.out) == (0, "Tides: [echo] May I?\n")
    assert cli("tasks").out == ""


def test_a_task_is_cancelled(cli: Cli, worker: str):
    """And then unknown here."""
    id = cli("call", worker, "publish", "title=Tides", "--background").out.strip()
    assert cli("tasks", "cancel", id).code == 0
    missing = cli("tasks", "show", id)
    assert missing.code == 2
    assert "antiphon tasks list" in missing.err


def test_an_id_may_begin_with_a_dash(cli: Cli, worker: str, monkeypatch: pytest.MonkeyPatch):
    """The server chooses the id, and one of 64 begins so; options may stand before and behind it."""
    ids = iter(["-yAn-id", "--another", "-OfZ-third-of-the-length-of-ours"])
    monkeypatch.setattr("secrets.token_urlsafe", lambda _: next(ids))
    for title in ("Tides", "Winds", "Moons"):
        cli("call", worker, "publish", f"title={title}", "--background")
    assert cli("tasks", "show", "-yAn-id", "--json").code == 0
    followed = cli("tasks", "follow", "--provider", "echo", "--ano", "--yes")
    assert (followed.code, followed.out) == (0, "Winds: [echo] May I?\n")
    assert cli("tasks", "cancel", "--", "-yAn-id").code == 0
    assert cli("tasks", "cancel", "-OfZ").code == 0
    assert cli("tasks").out == ""
    for gone in ("-OfZ-third-of-the-length-of-ours", "-pB3kQ9_xYv8LmN2rT5sW7zA1cD4eF6gH"):
        missing = cli("tasks", "show", gone, "--json")
        assert (missing.code, "antiphon tasks list" in missing.err) == (2, True)
    assert "No such option" in cli("tasks", "show", "--jso").err


def test_a_call_that_is_answered_at_once_prints_its_result(cli: Cli, worker: str):
    """The server decides."""
    done = cli("call", worker, "quick", "--background")
    assert (done.code, done.out) == (0, "done\n")
