"""The process that starts workers: death, replacement, failure, and what it refuses."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from typing import Any

import aiohttp
import pytest

from antiphon import AntiphonError, Client, ConfigError, Server
from antiphon.server import MemoryTaskStore, TaskOptions
from antiphon.server.serving import worker_link
from antiphon.server.serving.parent import Parent, Worker
from antiphon.server.serving.run import MAX_WORKERS
from tests.support.started_workers import PATIENCE, started

LEGACY = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25", "Connection": "close"}


async def opened_at(http: aiohttp.ClientSession, url: str) -> dict[str, str]:
    """Open a session, and return the header that names it."""
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}
    async with http.post(url, json={"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}) as response:
        session = {"Mcp-Session-Id": response.headers["Mcp-Session-Id"]}
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    async with http.post(url, json=ready, headers=session) as response:
        assert response.status == 202
    return session


async def called_in(http: aiohttp.ClientSession, url: str, session: dict[str, str]) -> str:
    """Call a tool in a session; return which process has served it."""
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "pid", "arguments": {}}}
    async with http.post(url, json=call, headers=session) as response:
        assert response.status == 200, await response.text()
        text: str = json.loads(await response.read())["result"]["content"][0]["text"]
        return text


async def test_workers_are_replaced_under_load_and_end_with_their_parent() -> None:
    """One that dies, and all at SIGHUP, while calls go on; an idle session outlives them, none of them its parent."""
    calls = 0

    async def load(url: str) -> None:
        nonlocal calls
        async with Client(url, revision="2026-07-28") as client:
            while True:
                # Marked as read-only: it is repeated where a connection is closed just as a request is written to it.
                await client.call_tool("pid")
                calls += 1

    async with started() as server, aiohttp.ClientSession(headers=LEGACY) as http:
        before = {await server.says("opened") for _ in range(2)}
        session = await opened_at(http, server.url)
        killed = await called_in(http, server.url, session)
        before.remove(killed)
        os.kill(int(killed), signal.SIGKILL)
        third = await server.says("opened")
        assert await called_in(http, server.url, session) in before | {third}

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

        assert await called_in(http, server.url, session) in after
        server.process.kill()
        assert await server.rest() == ["closed", "closed", "left", "left"]


async def test_a_worker_that_is_held_up_for_too_long_is_replaced() -> None:
    """Nothing more can be sent to it, so that it would serve its sessions without the others for ever."""
    async with started(ANTIPHON_BEHIND="65536") as server, aiohttp.ClientSession(headers=LEGACY) as http:
        assert server.process.stderr is not None
        pids = {await server.says("opened") for _ in range(2)}
        session = await opened_at(http, server.url)
        held_up = await called_in(http, server.url, session)
        os.kill(int(held_up), signal.SIGSTOP)
        large = {"jsonrpc": "2.0", "method": "notifications/roots/list_changed", "params": {"pad": "x" * 200_000}}

        posts: list[asyncio.Task[None]] = []

        async def post() -> None:
            async with http.post(server.url, json=large, headers=session):
                """Either worker takes it: that of the session stands still, the other passes it on."""

        async def press() -> None:
            # The other worker may begin to serve only after the first of them.
            while True:
                posts.extend(asyncio.create_task(post()) for _ in range(16))
                await asyncio.sleep(0.1)

        pressing = asyncio.create_task(press())
        async with asyncio.timeout(PATIENCE):
            while b"is ended" not in (line := await server.process.stderr.readline()):
                assert line
        pressing.cancel()
        os.kill(int(held_up), signal.SIGCONT)
        assert await server.says("closed") == held_up
        assert await server.says("left") == held_up
        assert await server.says("opened") not in pids
        for each in posts:
            each.cancel()
        await asyncio.wait(posts)
        server.process.kill()
        assert b"Traceback" not in await server.process.stderr.read()


async def test_a_server_whose_workers_cannot_start_gives_up() -> None:
    """With what they have said, and an error of its own."""
    async with started(ANTIPHON_BROKEN="yes") as server:
        async with asyncio.timeout(PATIENCE):
            _, said_at_last = await server.process.communicate()
        assert b"the shop is closed" in said_at_last
        assert b"no worker could be started: the last one ended with exit code 3" in said_at_last
        assert server.process.returncode == 1


async def test_a_worker_whose_process_cannot_be_made_counts_as_one_that_does_not_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The parent gives up if no worker serves, instead of waiting for one for ever."""
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(AntiphonError, match="no worker could be started: the last one could not be made: "):
                await Parent(2, [listening]).run()


@pytest.mark.parametrize("workers", [0, -1, MAX_WORKERS + 1, True, "2"])
def test_a_number_of_workers_that_cannot_be_is_refused(workers: Any) -> None:
    """Before anything is started."""
    with pytest.raises(ConfigError, match=f"workers= is a number from 1 to {MAX_WORKERS}, not {workers!r}"):
        Server("s").run("http", workers=workers)


@pytest.mark.parametrize(
    ("transport", "message"), [("stdio", "is for a network, not for stdio"), ("sse", "lives in one process")]
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


async def test_a_parent_that_stops_reports_no_port_any_more() -> None:
    """A worker may be ready just when a signal has come: the sockets are closed by then."""
    told: list[int] = []
    listening = socket.create_server(("127.0.0.1", 0))
    parent = Parent(1, [listening], told.append)
    parent._stop()
    listening.close()
    worker = Worker.__new__(Worker)
    worker.began = asyncio.Event()
    parent._heard(worker, worker_link.Ready("one"), None)
    assert (worker.is_ready, told) == (True, [])
