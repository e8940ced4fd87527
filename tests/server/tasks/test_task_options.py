"""The bounds of tasks, as clients and handlers meet them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from antiphon import Context, Server
from antiphon.server import MemoryTaskStore, SqlTaskStore, StoredTask, TaskOptions
from tests.support.raw_client import said
from tests.support.tasking import Tasking, tasking

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
