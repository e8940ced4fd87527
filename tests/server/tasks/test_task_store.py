"""What both kinds of stores count, and what they refuse."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from antiphon import Context, Server
from antiphon.server import MemoryTaskStore, SqlTaskStore, StoredTask, TaskOptions, TaskStore
from antiphon.server.tasks.task_store import TaskRoom, TasksFull
from tests.support.postgres import shared_postgres
from tests.support.raw_client import said
from tests.support.tasking import Tasking, tasking

ROOM = TaskRoom(tasks=10, tasks_of_owner=3, bytes=1_000, bytes_of_owner=600, bytes_of_task=500)


POSTGRES = pytest.param("postgres", marks=pytest.mark.postgres)


@pytest.fixture(params=["memory", "sqlite", POSTGRES])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[TaskStore]:
    """A store of each kind."""
    if request.param == "memory":
        yield MemoryTaskStore()
        return
    async with SqlTaskStore(place(request.param, tmp_path)) as opened:
        await opened.sweep(math.inf)
        yield opened


def place(kind: str, folder: Path) -> str:
    """Return where a database is."""
    return shared_postgres() if kind == "postgres" else str(folder / "tasks.db")


def task(id: str, size: int, owner: str = "alice", **members: Any) -> StoredTask:
    """Make a task whose data have a size."""
    made = StoredTask(id, 1, owner, "", None, 1e12, is_over=False, data=b"d" * size)
    return msgspec.structs.replace(made, **members)


async def reason(attempt: Any) -> str:
    """Return what there is no room for."""
    with pytest.raises(TasksFull) as caught:
        await attempt
    return caught.value.of


async def test_numbers_and_bytes_are_bounded(store: TaskStore) -> None:
    """Of one task, of one owner, and of all together; what is refused leaves nothing behind."""
    assert await reason(store.add(task("a", 300), {"p": b"v" * 200}, ROOM)) == "task"
    assert await store.get("a") is None
    await store.add(task("a", 200), {"p": b"v" * 99}, ROOM)
    await store.add(task("b", 300), {}, ROOM)
    assert await reason(store.add(task("c", 1), {}, ROOM)) == "bytes"
    await store.add(task("c", 400, "bob"), {}, ROOM)
    assert await reason(store.add(task("d", 1, "carol"), {}, ROOM)) == "bytes"
    few = msgspec.structs.replace(ROOM, bytes=10_000, bytes_of_owner=10_000)
    await store.add(task("d", 1), {}, few)
    assert await reason(store.add(task("e", 1), {}, few)) == "tasks"


async def test_a_task_that_grows_is_counted_and_one_that_ends_makes_room(store: TaskStore) -> None:
    """Entries count once, however often they are written; without a room given nothing is refused."""
    await store.add(task("a", 100), {"p": b"v" * 99}, ROOM)
    for version in (2, 3):
        assert await store.write(task("a", 100, version=version), {"p": b"?" * 999, "q": b"v" * 99}, ROOM)
    more = task("a", 100, version=4)
    assert await reason(store.write(more, {"r": b"v" * 200}, ROOM)) == "task"
    assert await store.journal("a") == {"p": b"v" * 99, "q": b"v" * 99}
    found = await store.get("a")
    assert found is not None
    assert found.version == 3
    await store.add(task("b", 300), {}, ROOM)
    assert await reason(store.write(more, {"r": b"v"}, ROOM)) == "bytes"
    assert await store.write(more, {"r": b"v"})
    assert await store.write(task("a", 100, version=5, is_over=True), {}, ROOM)
    assert await store.journal("a") == {}
    await store.add(task("c", 200), {}, ROOM)


async def test_what_has_expired_does_not_count(store: TaskStore) -> None:
    """Whether it was deleted already or not."""
    await store.add(task("a", 500, expires=1.0), {}, ROOM)
    await store.add(task("b", 500), {}, ROOM)
    await store.sweep(1e11)
    assert await reason(store.add(task("c", 500), {}, ROOM)) == "bytes"


@pytest.mark.parametrize("kind", ["sqlite", POSTGRES])
async def test_a_bound_holds_for_several_processes_that_write_at_once(kind: str, tmp_path: Path) -> None:
    """An owner's number and bytes, to the last one; what was written before anybody counted counts, too."""
    wide = msgspec.structs.replace(ROOM, tasks_of_owner=5, bytes=10_000, tasks=100, bytes_of_owner=400)
    async with AsyncExitStack() as stack:
        stores = [await stack.enter_async_context(SqlTaskStore(place(kind, tmp_path))) for _ in range(3)]
        await stores[0].sweep(math.inf)

        async def added(number: int) -> bool:
            try:
                await stores[number % 3].add(task(f"t{number}", 10), {}, wide)
            except TasksFull:
                return False
            return True

        assert (await asyncio.gather(*map(added, range(12)))).count(True) == 5
        ids = [f"t{number}" for number in range(12) if await stores[0].get(f"t{number}") is not None]

        async def grown(number: int) -> bool:
            more = task(ids[number], 110, version=2)
            try:
                return await stores[number % 3].write(more, {}, wide)
            except TasksFull:
                return False

        assert (await asyncio.gather(*map(grown, range(5)))).count(True) == 3


@pytest.mark.parametrize("store", ["memory", "sqlite"], indirect=True)
async def test_many_entries_are_written_at_once(store: TaskStore) -> None:
    """More than a statement has parameters, as of a handler that takes all its steps at the same moment."""
    wide = TaskRoom(tasks=10, tasks_of_owner=3, bytes=10**9, bytes_of_owner=10**9, bytes_of_task=10**9)
    entries = {f"step {number}": b"v" for number in range(40_000)}
    await store.add(task("a", 1), entries, wide)
    await store.add(task("b", 1), {}, wide)
    assert await store.write(task("b", 1, version=2), entries, wide)
    assert await store.journal("b") == await store.journal("a") == entries


LARGE = "x" * 3_000


@asynccontextmanager
async def bounded(function: Callable[..., Any], folder: Path | None, **options: Any) -> AsyncGenerator[Tasking]:
    """Run a server whose tasks are small, in memory or in a file, and connect a client."""
    async with AsyncExitStack() as stack:
        if folder is None:
            store: Any = MemoryTaskStore()
        else:
            store = await stack.enter_async_context(SqlTaskStore(folder / "tasks.db"))
        server = Server("small", keys=[b"k" * 32], tasks=TaskOptions(store=store, **options))
        server.tool(name="tool", task="required")(function)
        yield await stack.enter_async_context(tasking(server, principal="alice"))


@pytest.fixture(params=["memory", "sqlite"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    """Where tasks are kept; ``None`` is memory."""
    return tmp_path if request.param == "sqlite" else None


async def test_a_task_that_grows_too_large_fails_and_says_why(folder: Path | None) -> None:
    """By its result, by a step, by a question; the rest of its handler does not change that."""
    swallowed = asyncio.Event()

    async def tool(kind: str, ctx: Context) -> str:
        try:
            if kind == "step":
                await ctx.step("large", lambda: LARGE)
            elif kind == "ask":
                await ctx.sample(LARGE)
        except Exception:
            swallowed.set()
        return LARGE if kind == "result" else "done"

    async with bounded(tool, folder, task_bytes=2_500) as client:
        for kind in ("result", "step", "ask"):
            ended = await client.until(await client.start("tool", {"kind": kind}), "over")
            assert ended["status"] == "failed", kind
            assert ended["error"]["code"] == -32600
            assert ended["error"]["message"].startswith("The task is too large: 2500 bytes")
            assert "TaskOptions(task_bytes=)" in ended["error"]["message"]
            assert swallowed.is_set() == (kind != "result")


async def test_a_call_or_an_answer_that_is_too_large_is_refused(folder: Path | None) -> None:
    """The task stays as it is: its question is still open, and takes a shorter answer."""

    async def tool(text: str, ctx: Context) -> str:
        return (await ctx.sample("?")).text

    async with bounded(tool, folder, task_bytes=2_500) as client:
        error = await client.error("tools/call", name="tool", arguments={"text": LARGE})
        assert error["message"].startswith("The task is too large: 2500 bytes")
        handle = await client.start("tool", {"text": ""})
        (key,) = (await client.until(handle, "input_required"))["inputRequests"]
        error = await client.error("tasks/update", taskId=handle["taskId"], inputResponses={key: said(LARGE)})
        assert (error["code"], error["message"][:22]) == (-32600, "The task is too large:")
        assert list((await client.get(handle))["inputRequests"]) == [key]
        await client.answer(handle, {key: said("short")})
        assert await client.text(handle) == "short"


async def test_one_client_may_fill_a_quarter(folder: Path | None) -> None:
    """Results count until their time is over; what a task that has ended was given does not."""

    async def tool(text: str, size: int) -> str:
        return "y" * size

    async with bounded(tool, folder, most_bytes=40_000) as client:
        for _ in range(6):
            # Together these arguments would be too much.
            await client.text(await client.start("tool", {"text": LARGE, "size": 1}))
        await client.text(await client.start("tool", {"text": "", "size": 6_000}))
        error = await client.error("tools/call", name="tool", arguments={"text": LARGE, "size": 1})
        assert error["code"] == -32600
        assert error["message"].startswith("The tasks are too large: 10000 bytes of one client and 40000 together")
        assert "TaskOptions(most_bytes=)" in error["message"]


async def test_a_status_message_is_cut(folder: Path | None) -> None:
    """It is stored and told with every change, and may quote what a client has sent."""

    async def tool(text: str, ctx: Context) -> str:
        await ctx.progress(1, 2, f"working on {text}")
        return (await ctx.sample("?")).text

    async with bounded(tool, folder) as client:
        handle = await client.start("tool", {"text": "z" * 20_000})
        message = (await client.until(handle, "input_required"))["statusMessage"]
        assert message.startswith("working on zzz")
        assert message.endswith("z…")
        assert len(message) == 1_000


class Checked(MemoryTaskStore):
    """Takes only ids as the interface promises them."""

    async def get(self, id: str) -> StoredTask | None:
        assert id.isascii()
        assert id.isprintable()
        assert len(id) < 100
        return await super().get(id)


async def test_ids_that_no_task_has_never_reach_the_store() -> None:
    """A database may refuse them with an error of its own, as PostgreSQL does a NUL."""
    server = Server("small", tasks=TaskOptions(store=Checked()))
    server.tool(name="tool", task="required")(lambda: "x")
    async with tasking(server) as client:
        for id in ("\0", "é", "x" * 1_000_000, ""):
            error = await client.error("tasks/get", taskId=id)
            assert (error["code"], error["message"][:12]) == (-32602, "Unknown task")
