"""Workers over one store, killed at random points: no task is lost, and nothing that is recorded happens twice."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
from collections import defaultdict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from antiphon.wire.task import TASKS
from tests.support.network import moment
from tests.support.ports import free_port
from tests.support.postgres import shared_postgres
from tests.support.processes import lives
from tests.support.raw_client import said

KINDS = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]
KILLS = int(os.environ.get("ANTIPHON_KILLS", "60"))
WORKERS = 3
OPEN = 8
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"sampling": {}, "extensions": {TASKS: {}}},
}


class Workers:
    """The workers, and a client that asks whichever of them lives."""

    def __init__(self, forge: asyncio.subprocess.Process, chance: random.Random) -> None:
        self._forge = forge
        self.chance = chance
        self.ports = [free_port() for _ in range(WORKERS)]
        self._pids: dict[int, int] = {}
        self._id = 0

    async def start(self, port: int) -> None:
        """Start the worker of a port; again, if somebody else has just had the port."""
        assert self._forge.stdin is not None
        assert self._forge.stdout is not None
        for _ in range(20):
            self._forge.stdin.write(f"{port}\n".encode())
            pid = self._pids[port] = int(await self._forge.stdout.readline())
            while lives(pid):
                if await listens(port):
                    return
                await asyncio.sleep(0.01)
        raise AssertionError(f"no worker listens on port {port}")

    async def kill(self) -> int:
        """Kill a worker, wherever it is, and start another one in its place; return the process id of the first."""
        port = self.chance.choice(self.ports)
        killed = self._pids[port]
        with suppress(ProcessLookupError):
            os.kill(killed, signal.SIGKILL)
        # Until it has ended it accepts connections, and looks like the one that is started now.
        while lives(killed):
            await moment()
        await self.start(port)
        return killed

    def kill_all(self) -> None:
        """End the workers."""
        for pid in self._pids.values():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    async def request(self, method: str, **params: Any) -> dict[str, Any] | None:
        """Ask a worker; ``None`` if it is dead, or dies meanwhile."""
        self._id += 1
        body = {"jsonrpc": "2.0", "id": self._id, "method": method, "params": {"_meta": META, **params}}
        name = params.get("taskId") or params["name"]
        try:
            async with asyncio.timeout(20):
                reply = await post(self.chance.choice(self.ports), method, name, json.dumps(body).encode())
        except (OSError, asyncio.IncompleteReadError, ValueError, TimeoutError):
            return None
        assert "result" in reply or reply["error"]["code"] == -32603, reply
        return reply.get("result")


async def listens(port: int) -> bool:
    """Tell whether somebody accepts connections at a port."""
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return True


async def post(port: int, method: str, name: str, body: bytes) -> dict[str, Any]:
    """Send one message over a connection of its own; return the reply."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        head = (
            f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
            f"Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n"
            f"Mcp-Method: {method}\r\nMcp-Name: {name}\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        answer = (await reader.read()).decode()
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
    # Of an event stream, or of a body that has come in one piece: the reply is the one JSON object in it.
    return json.JSONDecoder().raw_decode(answer[answer.index('{"jsonrpc"') :])[0]


class Job:
    """One task as its client sees it."""

    def __init__(self, number: int, id: str) -> None:
        self.number = number
        self.id = id
        self.keys: dict[str, str] = {}
        """By question, the key under which it was asked."""
        self.answers: dict[str, str] = {}

    def take(self, asks: dict[str, Any], chance: random.Random) -> dict[str, Any]:
        """Take note of what is asked; return answers to some of it."""
        chosen: dict[str, Any] = {}
        for key, ask in asks.items():
            question = ask["params"]["messages"][0]["content"]["text"]
            assert self.keys.setdefault(question, key) == key, "asked twice"
            answer = self.answers.setdefault(question, f"{question}:{chance.random()}")
            if chance.random() < 0.7:
                chosen[key] = said(answer)
        return chosen


async def follow(workers: Workers, number: int) -> dict[str, Any] | None:
    """Start a task and see it to its end; ``None`` if its client never got to know it."""
    handle = await workers.request("tools/call", name="work", arguments={"number": number})
    if handle is None:
        return None
    job = Job(number, handle["taskId"])
    while True:
        seen = await workers.request("tasks/get", taskId=job.id)
        if seen is not None and seen["status"] == "input_required":
            answers = job.take(seen["inputRequests"], workers.chance)
            if answers:
                await workers.request("tasks/update", taskId=job.id, inputResponses=answers)
        elif seen is not None and seen["status"] != "working":
            break
        await asyncio.sleep(workers.chance.uniform(0.02, 0.3))
    assert seen["status"] == "completed", seen
    result = json.loads(seen["result"]["content"][0]["text"])
    asked = [job.answers[f"{number}/{name}"] for name in ("x", "l", "r", "y")]
    assert [result[1], result[2], result[3], result[6]] == asked
    return {"number": number, "a": result[0], "b": result[4], "c": result[5]}


def check_log(log: Path, results: list[dict[str, Any]]) -> None:
    """Check that no step ran again once it was recorded, and that the results are those of the recorded runs."""
    recorded: dict[tuple[str, str], str] = {}
    ran: dict[tuple[str, str], set[str]] = defaultdict(set)
    for line in log.read_text().splitlines():
        number, name, what, value = line.split()
        if what == "got":
            assert recorded.setdefault((number, name), value) == value, "two results of one step"
            assert value in ran[number, name]
        else:
            assert (number, name) not in recorded, "a recorded step ran again"
            ran[number, name].add(value)
    for result in results:
        for name in "abc":
            assert recorded[str(result["number"]), name] == result[name]


@asynccontextmanager
async def working(program: str, shared: str, log: Path) -> AsyncGenerator[Workers]:
    """Start workers by a program of ``tests.support``, which gets what they share and the file they write to."""
    forge = await asyncio.create_subprocess_exec(
        sys.executable, "-m", f"tests.support.{program}", shared, str(log),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    workers = Workers(forge, random.Random(7))
    try:
        for port in workers.ports:
            await workers.start(port)
        yield workers
    finally:
        workers.kill_all()
        with suppress(ProcessLookupError):
            os.killpg(forge.pid, signal.SIGKILL)
        await forge.communicate()


@pytest.mark.slow
@pytest.mark.timeout(600 + 5 * KILLS)
@pytest.mark.parametrize("kind", KINDS)
async def test_tasks_survive_workers_that_are_killed(kind: str, tmp_path: Path) -> None:
    """Asks, steps and both at once; with ``ANTIPHON_KILLS`` as many kills as one likes."""
    store = str(tmp_path / "tasks.db") if kind == "sqlite" else shared_postgres()
    log = tmp_path / "log"
    results: list[dict[str, Any]] = []
    numbers = iter(range(1_000_000))
    is_over = False

    async def one_after_another() -> None:
        while not is_over:
            result = await follow(workers, next(numbers))
            if result is not None:
                results.append(result)

    async with working("killed_workers", store, log) as workers:
        clients = [asyncio.create_task(one_after_another()) for _ in range(OPEN)]
        for _ in range(KILLS):
            await asyncio.sleep(workers.chance.uniform(0.05, 0.6))
            await workers.kill()
            assert not [client for client in clients if client.done()], [await c for c in clients if c.done()]
        is_over = True
        async with asyncio.timeout(120):
            await asyncio.gather(*clients)
    assert len(results) > 0
    check_log(log, results)
    print(f"{KILLS} kills, {len(results)} tasks")
