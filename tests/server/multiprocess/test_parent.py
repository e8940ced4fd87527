"""The process that starts workers: death, replacement, failure, and what it refuses."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import pytest

from antiphon import Client, ConfigError, Server
from antiphon.server import MemoryTaskStore, TaskOptions
from antiphon.server.run import MAX_WORKERS
from tests.support.started_workers import PATIENCE, started


async def test_workers_are_replaced_under_load_and_end_with_their_parent() -> None:
    """One that dies, and all at SIGHUP, without a call that fails; nothing is left of a parent that was killed."""
    calls = 0

    async def load(url: str) -> None:
        nonlocal calls
        while True:
            # A connection for each call, since a client does not know which connections a killed worker has.
            async with Client(url, revision="2025-11-25") as client:
                await client.call_tool("pid")
            calls += 1

    async with started() as server:
        before = {await server.says("opened") for _ in range(2)}
        killed = before.pop()
        os.kill(int(killed), signal.SIGKILL)
        third = await server.says("opened")

        loading = asyncio.create_task(load(server.url))
        server.process.send_signal(signal.SIGHUP)
        after: set[str] = set()
        for _ in range(2):
            # Each is replaced before it leaves.
            after.add(await server.says("opened"))
            assert await server.says("closed") in before | {third}
            assert await server.says("left") in before | {third}
        assert not after & {*before, third, killed}
        done = calls
        while calls == done and not loading.done():
            await asyncio.wait([loading], timeout=0.05)
        assert not loading.done(), loading.exception()
        loading.cancel()
        await asyncio.wait([loading])

        server.process.kill()
        assert await server.rest() == ["closed", "closed", "left", "left"]


async def test_a_server_whose_workers_cannot_start_gives_up() -> None:
    """With what they have said, and an error of its own."""
    async with started(ANTIPHON_BROKEN="yes") as server:
        async with asyncio.timeout(PATIENCE):
            _, said_at_last = await server.process.communicate()
        assert b"the shop is closed" in said_at_last
        assert b"no worker could be started: the last one ended with exit code 3" in said_at_last
        assert server.process.returncode == 1


@pytest.mark.parametrize("workers", [0, -1, MAX_WORKERS + 1, True, "2"])
def test_a_number_of_workers_that_cannot_be_is_refused(workers: Any) -> None:
    """Before anything is started."""
    with pytest.raises(ConfigError, match=f"workers= is a number from 1 to {MAX_WORKERS}, not {workers!r}"):
        Server("s").run("http", workers=workers)


@pytest.mark.parametrize(
    ("transport", "message"),
    [("stdio", "over stdio each client"), ("sse", "lives in one process"), ("http", "lives in one process")],
)
def test_what_needs_one_process_is_refused_with_the_remedy(transport: str, message: str) -> None:
    """A client may reach any worker, also within one session."""
    with pytest.raises(ConfigError, match=message):
        Server("s").run(transport, workers=2)


def test_tasks_in_memory_are_refused() -> None:
    """A client that asks for one would find it in one worker only."""
    server = Server("s", revisions=["2026-07-28"], tasks=TaskOptions(store=MemoryTaskStore()))

    @server.tool(task="required")
    async def work() -> None:
        """Work."""

    with pytest.raises(ConfigError, match="tasks have to be where all processes find them"):
        server.run("http", workers=2)
