"""What one timer does for all tasks of a process."""

from __future__ import annotations

import asyncio
import gc
import math
import time
import tracemalloc
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import Connection, text

from antiphon import Context, Server
from antiphon.server import CallNext, MemoryTaskStore, ServerRequest, SqlTaskStore, TaskOptions, TaskStore
from antiphon.server.state.request_state import Seal
from antiphon.server.tasks import task_table, task_worker
from antiphon.server.tasks.stored_tasks import StoredTasks
from antiphon.server.tasks.task_record import TaskAsk, TaskRecord
from antiphon.server.tasks.task_states import TaskState
from antiphon.sql.database_store import StoreStalled
from antiphon.wire.common import ClientCapabilities
from tests.support.postgres import shared_postgres
from tests.support.tasking import Tasking, tasking

PARKED = 10_000
WARM = 100
"""Tasks that are parked before anything is measured, so that what is made once does not count."""
BYTES = 2_048


KEY = b"k" * 32


async def asking(ctx: Context) -> str:
    """Ask a model."""
    return (await ctx.sample("What now?")).text


async def park(store: MemoryTaskStore, client: Tasking, count: int, running: int) -> tuple[int, int]:
    """Park tasks until as many asyncio tasks run as before; return the bytes and the timers that there are then."""
    for _ in range(count):
        await client.start("tool")
    for _ in range(30_000):
        # Those that nobody holds are unloaded.
        if len(await store.held("")) == len(store) and len(asyncio.all_tasks()) <= running:
            break
        await asyncio.sleep(0.01)
    assert len(asyncio.all_tasks()) <= running
    gc.collect()
    timers = [timer for timer in vars(asyncio.get_running_loop())["_scheduled"] if not timer.cancelled()]
    return tracemalloc.get_traced_memory()[0], len(timers)


@pytest.mark.slow
async def test_ten_thousand_parked_tasks_cost_next_to_nothing() -> None:
    """Unloaded, each takes at most 2 KB of memory, and no asyncio task and no timer; one more is refused clearly."""
    store = MemoryTaskStore()
    server = Server("parked", tasks=TaskOptions(store=store, unload_after=0.01), tool_rate=None)
    server.tool(name="tool", task="required")(asking)
    async with tasking(server) as client:
        await client.error("tasks/get", taskId="none")
        running = len(asyncio.all_tasks())
        tracemalloc.start()
        try:
            before, _ = await park(store, client, WARM, running)
            after, timers = await park(store, client, PARKED - WARM, running)
        finally:
            tracemalloc.stop()
        assert (after - before) / (PARKED - WARM) <= BYTES
        # The one with which the worker waits for its next look.
        assert timers <= 1
        refused = await client.error("tools/call", name="tool", arguments={})
        assert refused["message"].startswith(f"Too many tasks: {PARKED} of one client and {PARKED} together are kept")


async def fill(store: SqlTaskStore) -> None:
    """Leave tasks in a database that are parked on people, as if they had been called here."""
    now, options = time.time(), TaskOptions()
    ask = TaskAsk("sampling-1", "sampling/createMessage", "0:x", b"", None, b'{"messages": [], "maxTokens": 1}')
    stored = StoredTasks(store, Seal([KEY]), "parked", options.patience)
    record = TaskRecord(
        id="", version=1, state=TaskState.PARKED, revision="2026-07-28", asks=(ask,), asked_since=now,
        capabilities=ClientCapabilities(), created=now, updated=now, ttl=options.ttl,
    )  # fmt: skip
    names = [f"task-{number:020}" for number in range(PARKED)]
    rows = [await stored._pack_task(msgspec.structs.replace(record, id=name)) for name in names]

    def insert(connection: Connection) -> None:
        values = [{**task_table._list_members(row), "learnt": 0, "size": len(row.data)} for row in rows]
        connection.execute(task_table._tasks.insert(), values)
        size = sum(len(row.data) for row in rows)
        connection.execute(task_table._totals.insert().values(owner=rows[0].owner, tasks=PARKED, bytes=size))

    await store._run(insert)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
async def test_ten_thousand_tasks_parked_in_a_database_need_nothing(kind: str, tmp_path: Path) -> None:
    """A look reads none of them, and says when it has to look again; one more is refused clearly."""
    place = shared_postgres() if kind == "postgres" else tmp_path / "tasks.db"
    async with SqlTaskStore(place) as store:
        await store.sweep(math.inf)
        await fill(store)
    async with SqlTaskStore(place) as store:
        server = Server("parked", keys=[KEY], tasks=TaskOptions(store=store), tool_rate=None)
        server.tool(name="tool", task="required")(asking)
        async with tasking(server) as client:
            refused = await client.error("tools/call", name="tool", arguments={})
            assert refused["message"].startswith(f"Too many tasks: {PARKED} of one client and {PARKED} together")
            assert await store.due(time.time(), 10) == []
            assert await store.next_due(time.time()) is None
            await client.cancel(f"task-{7:020}")
            assert (await client.get(f"task-{7:020}"))["status"] == "cancelled"
        await store.sweep(math.inf)


class Shared(MemoryTaskStore):
    """Outlives servers, as a database does, and does not answer once when it is told so."""

    shared = True
    stalls = False

    async def journal(self, id: str) -> Mapping[str, bytes]:
        if self.stalls:
            self.stalls = False
            raise StoreStalled("the store did not answer")
        return await super().journal(id)


def over(store: Shared) -> Server:
    """Make a server of tasks over a store, as one process after another would."""
    server = Server("shop", keys=[KEY], tasks=TaskOptions(store=store, unload_after=None))
    server.tool(name="tool", task="required")(asking)
    return server


async def leave(store: Shared, id: str, params: bytes, key: bytes = KEY, **facts: Any) -> None:
    """Leave a task in a store that nobody holds."""
    record = TaskRecord(
        id=id, state=TaskState.READY, revision="2026-07-28", capabilities=ClientCapabilities(), created=time.time(),
        updated=time.time(), ttl=1_000.0, **facts,
    )  # fmt: skip
    await StoredTasks(store, Seal([key]), "shop", 0.0).add(record, params, {}, TaskOptions().room(None))


async def test_a_task_that_was_taken_while_the_store_stalled_goes_on() -> None:
    """The process holds it and does not run it: it lets go of it, instead of renewing its lease for ever."""
    store = Shared()
    async with tasking(over(store)) as client:
        handle = await client.start("tool")
        await client.until(handle, "input_required")
    store.stalls = True
    async with tasking(over(store)) as client:
        # Another one is there, so that leases are renewed.
        await client.start("tool")
        await client.answer(handle, "yes")
        assert await client.text(handle) == "yes"
        assert not store.stalls


async def test_a_task_whose_call_cannot_be_read_fails() -> None:
    """By accident or by another version: it has an end, and is not tried again for ever."""
    store = Shared()
    await leave(store, "broken", b'{"name": 7}')
    async with tasking(over(store)) as client:
        assert (await client.until("broken", "over"))["error"] == {"code": -32603, "message": "Internal error"}


class Damaged(Shared):
    """A store whose journals came back from a backup of something else."""

    async def journal(self, id: str) -> Mapping[str, bytes]:
        return {place: b"?" + entry for place, entry in (await super().journal(id)).items()}


async def test_a_task_whose_journal_cannot_be_opened_fails_at_once(caplog: pytest.LogCaptureFixture) -> None:
    """The log says why; the task is not taken again and again until its time is over."""
    store = Damaged()
    await leave(store, "damaged", b'{"name": "tool", "arguments": {}}')
    async with tasking(over(store)) as client:
        assert (await client.until("damaged", "over"))["error"] == {"code": -32603, "message": "Internal error"}
    assert "its journal in the store is damaged, or sealed with other keys" in caplog.text


async def test_tasks_sealed_with_other_keys_do_not_keep_others_from_running() -> None:
    """However many there are, and although they are due for longer."""
    store = Shared()
    for number in range(40):
        await leave(store, f"foreign {number}", b"{}", key=b"?" * 32)
    await leave(store, "ours", b'{"name": "tool", "arguments": {}}')
    async with tasking(over(store)) as client:
        ended = await client.until("ours", "over")
        # It was found: its call was of another version of the tool.
        assert ended["error"]["message"].startswith("CallDiverged: the code of 'tool' has changed")


FACTS: dict[str, dict[str, Any]] = {
    "a token without it": {"has_token": True, "scopes": ("read",)},
    "a token without any scope": {"has_token": True},
    "no token, over a network": {},
    "a token with it": {"has_token": True, "scopes": ("admin", "read")},
    "a token with a broader one": {"has_token": True, "scopes": ("all",), "implied": ("admin",)},
    "a local program": {"is_local": True},
}


@pytest.mark.parametrize("who", FACTS)
async def test_scopes_are_demanded_where_a_task_goes_on(who: str) -> None:
    """A middleware may choose another tool than the call named; what that needs is checked in each process."""
    store = Shared()
    server = Server("shop", keys=[KEY], code_version="1", tasks=TaskOptions(store=store, unload_after=None))
    server.tool(name="open", task="required")(asking)

    @server.tool(task="required", scopes=["admin"])
    async def closed() -> str:
        """Do what few may."""
        return "done"

    @server.middleware
    async def renames(request: ServerRequest, call_next: CallNext) -> Any:
        if request.method == "tools/call":
            request = request.replace(name="closed")
        return await call_next(request)

    await leave(store, "left", b'{"name": "open", "arguments": {}}', code=b"1", **FACTS[who])
    async with tasking(server) as client:
        ended = await client.until("left", "over")
    may = who in ("a token with it", "a token with a broader one", "a local program")
    assert (ended["status"], "scope" in str(ended)) == (("completed", False) if may else ("failed", True)), ended


@asynccontextmanager
async def two_stores(kind: str) -> AsyncGenerator[tuple[TaskStore, TaskStore]]:
    """Make the stores of two processes that share their tasks."""
    if kind == "memory":
        store = Shared()
        yield store, store
        return
    async with SqlTaskStore(shared_postgres()) as left, SqlTaskStore(shared_postgres()) as right:
        await left.sweep(math.inf)
        yield left, right


async def hear(*stores: TaskStore) -> None:
    """Wait until everything is told."""
    for _ in range(6_000):
        if all(store.tells for store in stores):
            return
        await asyncio.sleep(0.01)
    raise AssertionError("nothing is told")


async def lose_connection(store: TaskStore) -> None:
    """End the connections over which notices come, as a database that is started again would."""
    if isinstance(store, SqlTaskStore):
        lost = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
        await store._run(lambda connection: connection.execute(text(lost)))


@pytest.mark.parametrize("kind", ["memory", pytest.param("postgres", marks=pytest.mark.postgres)])
async def test_what_another_process_writes_is_told(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer, a cancelled task, one that is left: nobody has to look for them, not even if a connection is lost."""
    for name in ("LOOK", "NET"):
        monkeypatch.setattr(task_worker, name, 1e6)

    async def twice(ctx: Context) -> str:
        return (await ctx.sample("first?")).text + (await ctx.sample("second?")).text

    def over(store: TaskStore) -> Server:
        server = Server("told", keys=[KEY], tasks=TaskOptions(store=store, unload_after=None, lease=1e6))
        server.tool(name="tool", task="required")(twice)
        return server

    async with two_stores(kind) as (left, right), tasking(over(right)) as other:
        async with tasking(over(left)) as client:
            await hear(left, right)
            answered, cancelled, released = [await client.start("tool") for _ in range(3)]
            await other.answer(answered, "a")
            await client.until(answered, partial(asks, "second?"))
            await lose_connection(left)
            await other.answer(answered, "b")
            assert await client.text(answered) == "ab"
            await client.until(cancelled, "input_required")
            await other.cancel(cancelled)
            assert (await client.until(cancelled, "over"))["status"] == "cancelled"
            await client.answer(released, "a")
            await client.until(released, partial(asks, "second?"))
            await hear(right)
        await other.answer(released, "b")
        assert await other.text(released) == "ab"


def asks(question: str, seen: dict[str, Any]) -> bool:
    """Tell whether a task asks a question."""
    asked = [ask["params"]["messages"][0]["content"]["text"] for ask in seen.get("inputRequests", {}).values()]
    return question in asked
