"""Two server processes with shared keys behind a proxy that takes turns: every retry lands where the call is not."""

from __future__ import annotations

import asyncio
import itertools
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from antiphon import Client
from tests.faults import replica
from tests.support.ports import free_port

HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "content-encoding", "host"}


class Replicas:
    """The processes, and a proxy that gives each request to the next one alive."""

    def __init__(self, notes: Path, store: Path | None = None) -> None:
        self.notes = notes
        self._store = () if store is None else (str(store),)
        self.processes: list[asyncio.subprocess.Process] = []
        self.ports: list[int] = []
        self.url = ""
        self.served: Counter[int] = Counter()
        self._turns = itertools.count()

    async def start(self) -> None:
        """Start one more process, and wait until it listens."""
        port = free_port()
        command = [sys.executable, "-m", "tests.faults.replica", str(port), str(self.notes), *self._store]
        process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.DEVNULL)
        self.processes.append(process)
        self.ports.append(port)
        while not await _listens(port):
            await asyncio.wait([asyncio.ensure_future(process.wait())], timeout=0.05)
            assert process.returncode is None

    async def kill(self, index: int) -> None:
        """End a process as a crash would."""
        self.processes[index].send_signal(signal.SIGKILL)
        await self.processes[index].wait()

    async def forward(self, request: web.Request) -> web.StreamResponse:
        """Hand one request on, and its response back as it comes; cut the connection where the process does."""
        try:
            return await self._forward(request)
        except aiohttp.ClientError:
            if request.transport is not None:
                request.transport.abort()
            raise ConnectionResetError from None

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        alive = [port for port, one in zip(self.ports, self.processes, strict=True) if one.returncode is None]
        port = alive[next(self._turns) % len(alive)]
        self.served[port] += 1
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP}
        body = await request.read()
        async with (
            aiohttp.ClientSession() as session,
            session.request(
                request.method, f"http://127.0.0.1:{port}{request.path}", headers=headers, data=body
            ) as got,
        ):
            kept = {name: value for name, value in got.headers.items() if name.lower() not in HOP}
            response = web.StreamResponse(status=got.status, headers=kept)
            await response.prepare(request)
            async for chunk in got.content.iter_any():
                await response.write(chunk)
            return response

    def effects(self) -> Counter[str]:
        """Count what was done, by what."""
        return Counter(line.split()[0] for line in self.notes.read_text(encoding="utf-8").splitlines())


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


@asynccontextmanager
async def replicas(notes: Path, count: int = 2, store: Path | None = None) -> AsyncIterator[Replicas]:
    """Run processes and the proxy before them; with a store they share it."""
    cluster = Replicas(notes, store)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", cluster.forward)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await asyncio.gather(*(cluster.start() for _ in range(count)))
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        cluster.url = f"http://127.0.0.1:{runner.addresses[0][1]}/mcp"
        yield cluster
    finally:
        await runner.cleanup()
        for index, process in enumerate(cluster.processes):
            if process.returncode is None:
                await cluster.kill(index)


WANTED = ",".join(f"<{turn}?>" for turn in range(replica.SAMPLES))


async def test_every_retry_elsewhere(tmp_path: Path) -> None:
    """The right result; each side effect once, each ask once, though the body ran in both processes in turn."""
    asked: Counter[str] = Counter()

    async def sample(params: Any, _: Any) -> str:
        asked[params.messages[-1].content.text] += 1
        return f"<{params.messages[-1].content.text}>"

    async with replicas(tmp_path / "notes") as cluster, Client(cluster.url, sampling=sample) as client:
        result = await client.call_tool("order")
        assert result.text == WANTED
        done = cluster.effects()
    assert min(cluster.served.values()) > 3
    assert done.pop("run") > 2
    assert done == {f"effect-{turn}": 1 for turn in range(replica.SAMPLES)}
    assert asked == {f"{turn}?": 1 for turn in range(replica.SAMPLES)}


async def test_a_process_killed_in_the_middle(tmp_path: Path) -> None:
    """What it knew is in the state that the client holds: the other process finishes the call."""
    asked: Counter[str] = Counter()

    async with replicas(tmp_path / "notes") as cluster:

        async def sample(params: Any, _: Any) -> str:
            text = params.messages[-1].content.text
            asked[text] += 1
            if text == "4?":
                await cluster.kill(0)
            return f"<{text}>"

        async with Client(cluster.url, sampling=sample) as client:
            assert (await client.call_tool("order")).text == WANTED
        done = cluster.effects()
    done.pop("run")
    assert done == {f"effect-{turn}": 1 for turn in range(replica.SAMPLES)}
    assert set(asked.values()) == {1}


async def test_all_processes_replaced_in_the_middle(tmp_path: Path) -> None:
    """A deployment of the same code: nothing that began before is left, and the call goes on."""
    async with replicas(tmp_path / "notes", 1) as cluster:

        async def sample(params: Any, _: Any) -> str:
            text = params.messages[-1].content.text
            if text == "3?":
                await cluster.start()
                await cluster.kill(0)
            return f"<{text}>"

        async with Client(cluster.url, sampling=sample) as client:
            assert (await client.call_tool("order")).text == WANTED
        done = cluster.effects()
    assert done.pop("run") == 2
    assert done == {f"effect-{turn}": 1 for turn in range(replica.SAMPLES)}


@pytest.mark.parametrize("count", [2, 3], ids=["back where it is parked", "in a third process"])
async def test_a_process_that_dies_after_a_step_leaves_it_noted(tmp_path: Path, count: int) -> None:
    """It took the call over, paid, and was killed before it could say so: whoever goes on pays nothing again."""
    notes = tmp_path / "notes"
    hangs = notes.with_name(notes.name + replica.HANGS)

    async def sample(_params: Any, _: Any) -> str:
        hangs.touch()
        return "yes"

    async with (
        replicas(notes, count, tmp_path / "states.db") as cluster,
        Client(cluster.url, sampling=sample) as client,
    ):
        _ = [tool async for tool in client.tools()]
        calling = asyncio.ensure_future(client.call_tool("pay"))
        async with asyncio.timeout(60):
            while not (found := hung(notes)):
                await asyncio.wait([calling], timeout=0.05)
                assert not calling.done(), calling
        pids = [process.pid for process in cluster.processes]
        await cluster.kill(pids.index(found))
        result = await calling
        done = cluster.effects()
    assert result.text == f"yes receipt of {found}"
    assert sum(count for what, count in done.items() if what.startswith("paid:")) == 1
    assert done["told"] == 1


def hung(notes: Path) -> int:
    """Return the process that goes no further, 0 as long as there is none."""
    lines = notes.read_text(encoding="utf-8").splitlines() if notes.exists() else []
    return next((int(line.split()[1]) for line in lines if line.startswith("hangs ")), 0)
