"""Calls that a person decides about late, while gateway, server and host are killed at random: none runs twice."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from antiphon.host import Approve, Deny, NotShown, Queue, digest
from antiphon.host.review.question import Question
from antiphon.host.review.queue import AlreadyDecided
from antiphon.host.store import open_store
from tests.support.pending import RAN
from tests.support.ports import free_port

ROOT = Path(__file__).parents[2]
PATIENCE = 120.0
"""Seconds without a new outcome after which the test fails: a machine may be busy."""


class Processes:
    """The gateway with its server, and the host; each is started again when it has ended."""

    def __init__(self, folder: Path, count: int) -> None:
        self._folder, self._count, self._port = folder, count, free_port()
        self._running: dict[str, asyncio.subprocess.Process] = {}

    async def start(self, role: str) -> None:
        """Start one of them, unless it runs."""
        process = self._running.get(role)
        if process is not None and process.returncode is None:
            return
        given = {
            "gateway": [str(self._folder / "host.db"), str(self._port), str(self._folder)],
            "host": [str(self._port), str(self._folder), str(self._count)],
        }
        self._running[role] = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.support.pending", role, *given[role],
            cwd=ROOT, start_new_session=True, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip

    async def kill(self, role: str) -> None:
        """Kill one of them; the server is the child of the gateway that was started last."""
        if role == "server":
            for mark in self._folder.glob("server-*"):
                mark.unlink()
                self._kill_server(int(mark.name.removeprefix("server-")))
        elif (process := self._running.get(role)) is not None and process.returncode is None:
            process.kill()
            await process.wait()

    def _kill_server(self, pid: int) -> None:
        with suppress(OSError):
            if b"tests.support.pending" in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)

    async def end(self) -> None:
        """Kill all of them."""
        for role in ("host", "gateway", "server"):
            await self.kill(role)


def outcomes(folder: Path) -> dict[str, str]:
    """Return what the host has noted: the first outcome of each call."""
    noted = folder / "outcomes"
    lines = noted.read_text().splitlines() if noted.exists() else []
    return dict(line.split() for line in reversed(lines))


def is_allowed(sku: str) -> bool:
    """Tell what the person thinks of a call: the same whenever they are asked."""
    return not sku.endswith("7")


async def decide_late(queue: Queue, chance: random.Random) -> None:
    """Decide most of what waits, and leave the rest for later; those of a killed gateway, too."""
    question: Question
    for question in await queue.pending():
        if chance.random() < 0.4:
            continue
        sku = question.item.origin.call.arguments["sku"]
        decision = Approve(digest=digest(question.item.params)) if is_allowed(sku) else Deny()
        with suppress(AlreadyDecided, NotShown, LookupError):
            await queue.decide(question.id, decision, hash=question.hash)


@asynccontextmanager
async def deciding(folder: Path, chance: random.Random) -> AsyncIterator[None]:
    """Decide while the block lasts."""
    store = open_store(folder / "host.db")
    queue = Queue(store)

    async def work() -> None:
        async for _ in queue.changes(0.2):
            await decide_late(queue, chance)

    task = asyncio.create_task(work())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
        await store.aclose()


async def run_battery(folder: Path, count: int, kills: int) -> None:
    """Make calls until each has an outcome, and kill one of the three after a random while, so often."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    processes, roles = Processes(folder, count), chance.choices(["gateway", "server", "host"], k=kills)
    quiet, before = 0.0, 0
    try:
        async with deciding(folder, chance):
            while len(outcomes(folder)) < count:
                await processes.start("gateway")
                await processes.start("host")
                rest = chance.uniform(0.2, 4.0)
                await asyncio.sleep(rest)
                known = len(outcomes(folder))
                quiet, before = (0.0 if known > before else quiet + rest), known
                assert quiet < PATIENCE, f"{known} of {count} calls have an outcome"
                # The last calls are left in peace, so that the kills meet calls that wait.
                if roles and known * (kills + 1) >= count * (kills - len(roles)):
                    await processes.kill(roles.pop())
    finally:
        await processes.end()
    ran = Counter((folder / RAN).read_text().split())
    told = outcomes(folder)
    assert [sku for sku, times in ran.items() if times > 1] == []
    assert [sku for sku, outcome in told.items() if outcome == "run" and ran[sku] != 1] == []
    assert [sku for sku, outcome in told.items() if outcome == "refused" and ran[sku]] == []
    assert [sku for sku, outcome in told.items() if outcome == "refused" and is_allowed(sku)] == []
    assert [sku for sku in ran if not is_allowed(sku)] == []
    print(Counter(told.values()))


@pytest.mark.timeout(600)
async def test_no_call_runs_twice_while_all_are_killed(tmp_path: Path) -> None:
    """Each of the calls ends as run, refused, or as one of which nobody knows; what it ends as is true."""
    await run_battery(tmp_path, 100, 20)


@pytest.mark.slow
@pytest.mark.timeout(3600)
async def test_a_thousand_calls_are_decided_late(tmp_path: Path) -> None:
    """The same at 200 points."""
    await run_battery(tmp_path, 1_000, 200)
