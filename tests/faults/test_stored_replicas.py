"""Two server processes with one state store, killed where it hurts: a step that was completed is not taken again."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from antiphon import BY_HAND, Client, PendingRound
from antiphon.errors import AntiphonError, OutcomeUnknown
from antiphon.server.state.sql_state_store import SqlStateStore
from tests.faults.test_replicas import _listens
from tests.support.network import until
from tests.support.ports import free_port
from tests.support.postgres import shared_postgres

KINDS = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]


class Replica:
    """One of the processes."""

    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self.process = process
        self.port = port

    async def kill(self) -> None:
        """End it as a crash would."""
        self.process.send_signal(signal.SIGKILL)
        await self.process.wait()


class Balancer:
    """Passes each new connection on to the replica that is chosen."""

    def __init__(self, replicas: list[Replica]) -> None:
        self.replicas = replicas
        self.chosen = replicas[0]
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass a connection on, both ways, until either side has ended."""
        behind, beyond = await asyncio.open_connection("127.0.0.1", self.chosen.port)
        ways = [asyncio.ensure_future(pipe(reader, beyond)), asyncio.ensure_future(pipe(behind, writer))]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way, end in zip(ways, (beyond, writer), strict=True):
            way.cancel()
            end.close()
        await asyncio.wait(ways)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """Connect to the replica that is chosen now."""
        url = f"http://127.0.0.1:{self.port}/mcp"
        async with Client(url, sampling=BY_HAND, revision="2026-07-28") as client:
            yield client


async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass bytes on until there are no more."""
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass


@asynccontextmanager
async def replica(notes: Path, place: str) -> AsyncIterator[Replica]:
    """Start a process."""
    port = free_port()
    command = [sys.executable, "-m", "tests.faults.stored_replica", str(port), str(notes), place]
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.DEVNULL)
    try:
        while not await _listens(port):
            await asyncio.wait([asyncio.ensure_future(process.wait())], timeout=0.05)
            assert process.returncode is None
        yield Replica(process, port)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.fixture(params=KINDS)
async def balancer(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Balancer]:
    """Start two, with a load balancer in front."""
    place = shared_postgres() if request.param == "postgres" else str(tmp_path / "states.db")
    async with AsyncExitStack() as stack:
        replicas = [await stack.enter_async_context(replica(tmp_path / "notes", place)) for _ in range(2)]
        balancer = Balancer(replicas)
        async with await asyncio.start_server(balancer.serve, "127.0.0.1", 0) as server:
            balancer.port = server.sockets[0].getsockname()[1]
            yield balancer


def effects(tmp_path: Path) -> Counter[str]:
    """Count what was done, by what."""
    path = tmp_path / "notes"
    return Counter(line.split()[0] for line in path.read_text().splitlines()) if path.exists() else Counter()


async def asked(client: Client, tool: str) -> tuple[PendingRound, dict[str, str]]:
    """Call a tool, and prepare the answer to what it asks."""
    step = await client.rounds.call_tool(tool)
    assert isinstance(step, PendingRound)
    return step, dict.fromkeys(step.asks, "a hat")


async def test_a_step_that_was_completed_is_not_taken_again(balancer: Balancer, tmp_path: Path):
    """Its process is killed before it could tell anybody but the store."""
    first, second = balancer.replicas
    async with balancer.client() as client:
        step, answers = await asked(client, "order")
        retry = asyncio.create_task(client.rounds.resume(step, answers))
        await until(lambda: effects(tmp_path)["stuck"])
        balancer.chosen = second
        await first.kill()
        with pytest.raises(AntiphonError):
            await retry
    async with balancer.client() as client:
        assert (await client.rounds.resume(step, answers)).text == "a hat"
    assert effects(tmp_path) == {"pay": 1, "stuck": 1, "send": 1}


async def test_a_round_is_claimed_once(balancer: Balancer, tmp_path: Path):
    """Of five retries of one state at once, where its process is gone, one goes on."""
    first, second = balancer.replicas
    async with balancer.client() as client:
        step, answers = await asked(client, "once")
    balancer.chosen = second
    await first.kill()
    async with balancer.client() as client:
        retries = [client.rounds.resume(step, answers) for _ in range(5)]
        outcomes = await asyncio.gather(*retries, return_exceptions=True)
    assert [outcome.text for outcome in outcomes if not isinstance(outcome, Exception)][:1] == ["a hat"]
    assert effects(tmp_path) == {"pay": 1}


async def test_a_retry_of_what_another_process_has_is_told_that_nobody_knows(balancer: Balancer, tmp_path: Path):
    """The other process carries the call out, so that calling again would do it twice."""
    first, second = balancer.replicas
    async with balancer.client() as client:
        step, answers = await asked(client, "once")
    balancer.chosen = second
    async with balancer.client() as client:
        assert (await client.rounds.resume(step, answers)).text == "a hat"
    balancer.chosen = first
    async with balancer.client() as client:
        with pytest.raises(OutcomeUnknown):
            await client.rounds.resume(step, answers)
    assert effects(tmp_path) == {"pay": 1}


async def test_processes_that_open_a_new_store_at_once_make_one_table(tmp_path: Path):
    """None fails."""
    stores = [SqlStateStore(tmp_path / "states.db") for _ in range(4)]
    assert sorted(await asyncio.gather(*(store.add("a", b"", 60) for store in stores))) == [False] * 3 + [True]
    for store in stores:
        await store.aclose()
