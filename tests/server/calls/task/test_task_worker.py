"""What one timer does for all tasks of a process."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc

import pytest

from antiphon import Context, Server
from antiphon.server import MemoryTaskStore, TaskOptions
from tests.support.tasking import Tasking, tasking

PARKED = 10_000
WARM = 100
"""Tasks that are parked before anything is measured, so that what is made once does not count."""
BYTES = 2_048


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
