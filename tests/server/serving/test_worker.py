"""A worker: it goes on with calls of others, tells them of changes, and outlives no parent."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack
from types import SimpleNamespace
from typing import Any

import pytest

from antiphon import BY_HAND, Client, PendingRound
from antiphon.server.serving import worker
from antiphon.server.serving.worker import StopWatch, find_stopping_server
from tests.support.network import Bare, call, modern_call, request_bytes
from tests.support.raw_client import said
from tests.support.started_workers import PATIENCE, started
from tests.support.worker_program import URI


async def sampler(_params: Any, _origin: Any) -> Any:
    """Answer as a model."""
    return said("hats")


async def legacy_session_at_both(url: str, pids: set[str]) -> None:
    """Call, ask and subscribe in sessions whose every request comes over a connection of its own."""
    updated = asyncio.Event()
    homes: set[str] = set()
    async with AsyncExitStack() as stack:
        async with asyncio.timeout(PATIENCE):
            while homes != pids:
                client = await stack.enter_async_context(
                    Client(url, revision="2025-11-25", sampling=sampler, headers={"Connection": "close"})
                )
                [home] = {(await client.call_tool("pid")).text for _ in range(4)}
                homes.add(home)
                assert (await client.call_tool("ask")).text == f"{home} hats {home}"
        async with client.listen(uris=[URI]) as changes:
            async with Client(url, revision="2026-07-28") as other:
                await other.call_tool("sell")
            async with asyncio.timeout(PATIENCE):
                async for _change in changes:
                    updated.set()
                    break
    assert updated.is_set()


async def served_by(bare: Bare) -> str:
    """Ask over a connection which process serves it."""
    bare.send(modern_call("pid"))
    status, _, body = await bare.response()
    assert status == 200
    text: str = json.loads(body)["result"]["content"][0]["text"]
    return text


async def test_connections_go_to_the_worker_in_which_their_session_lives() -> None:
    """With the first request that names it, and stay there, whichever worker they were given to."""
    async with started() as server, AsyncExitStack() as stack:
        pids = {await server.says("opened") for _ in range(2)}
        place = server.url.removeprefix("http://").removesuffix("/mcp")
        connections: list[Bare] = []
        async with asyncio.timeout(PATIENCE):
            while {await served_by(each) for each in connections} != pids:
                connections.append(await Bare.open(place))
                stack.callback(connections[-1].vanish)
            first, *others = connections
            session = await first.initialize()
            home = await served_by(first)
            for each in others:
                for id in (1, 2):
                    each.send(request_bytes(call("pid", id), **session))
                    status, _, body = await each.response()
                    assert (status, home.encode() in body) == (200, True), body
            assert {await served_by(each) for each in connections} == {home}


async def test_workers_share_connections_keys_and_notices() -> None:
    """A retry reaches the worker that holds its call, a change in one is heard at another, and Ctrl-C ends all."""
    async with started() as server, AsyncExitStack() as stack:
        one, other = [await server.says("opened") for _ in range(2)]
        first = await server.client_of(one, stack, sampling=BY_HAND)
        second = await server.client_of(other, stack, sampling=BY_HAND)

        step = await first.rounds.call_tool("ask")
        assert isinstance(step, PendingRound)
        [key] = step.asks
        assert (await second.rounds.resume(step, {key: said("hats")})).text == f"{one} hats {one}"

        async with first.listen(uris=[URI]) as changes:
            await second.call_tool("sell")
            async with asyncio.timeout(PATIENCE):
                async for _change in changes:
                    break
        await legacy_session_at_both(server.url, {one, other})
        # As a terminal does, to every process of the group.
        os.killpg(server.process.pid, signal.SIGINT)
        assert await server.rest() == ["closed", "closed", "left", "left", "left"]
        assert server.process.returncode == 0


LINUX = sys.platform.startswith("linux")

PROGRAM = """
import resource
from antiphon.server.serving.worker import keep_large_blocks

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        blocks = [bytes(1 << 20) for _ in range(4)]
        del blocks
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

kept = keep_large_blocks()
faults()
print(kept, faults() < 1000)
"""


COLLECTING = """
import gc, sys
from antiphon.server.serving.worker import collect_less

if len(sys.argv) > 1:
    gc.set_threshold(int(sys.argv[1]))
collect_less()
print(gc.get_freeze_count() > 1000, gc.get_threshold()[0])
"""


def answer(**environment: str) -> str:
    """Run the program in a process of its own: what it sets stays set."""
    ran = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    return ran.stdout.strip()


def test_large_blocks_are_kept():
    """Twenty times four blocks cost fewer pages than they have; elsewhere than on Linux nothing is done."""
    kept, _, cheap = answer().partition(" ")
    assert kept in ("True", "False")
    assert cheap == "True" or kept == "False"
    assert LINUX or kept == "False"


@pytest.mark.parametrize(
    ("name", "value"),
    [("MALLOC_TRIM_THRESHOLD_", "1000000"), ("GLIBC_TUNABLES", "glibc.malloc.trim_threshold=1000000")],
)
def test_settings_of_the_environment_win(name, value):
    """Whoever made them knows why."""
    assert answer(**{name: value}).startswith("False")


@pytest.mark.parametrize(("chosen", "expected"), [((), 10_000), (("700",), 10_000), (("0",), 0), (("50000",), 50_000)])
def test_the_collector_looks_less_often_and_not_at_what_was_there(chosen, expected):
    """What was loaded is left out; a threshold that somebody has raised, or turned off, stays theirs."""
    command = [sys.executable, "-c", COLLECTING, *chosen]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["True", str(expected)]


class Served:
    """What uvicorn's server has: a handler of signals, and a flag."""

    def __init__(self, grace: float | None = None) -> None:
        self.should_exit = False
        self.config = SimpleNamespace(timeout_graceful_shutdown=grace)

    def handle_exit(self, *_: object) -> None:
        """Be a handler of signals."""
        self.should_exit = True


@pytest.fixture
def handled() -> Iterator[None]:
    """Put the handlers of signals back."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("handled")
def test_a_server_that_was_told_to_stop_is_seen() -> None:
    """By the method that handles its signals, and only then."""
    server = Served()
    signal.signal(signal.SIGTERM, server.handle_exit)
    assert find_stopping_server() is None
    server.should_exit = True
    assert find_stopping_server() is server


@pytest.mark.usefixtures("handled")
@pytest.mark.parametrize(("grace", "left"), [(None, None), (3, 2.25), (0, 0.0)])
async def test_the_application_has_what_the_server_leaves(
    grace: float | None, left: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Less than the server's own grace, so that it never has to cancel anything."""
    monkeypatch.setattr(worker, "_LOOK", 0.01)
    server, given = Served(grace), asyncio.get_running_loop().create_future()

    async def stop(seconds: float | None) -> None:
        given.set_result(seconds)

    watch = StopWatch(stop)
    signal.signal(signal.SIGTERM, server.handle_exit)
    watch.start()
    server.should_exit = True
    async with asyncio.timeout(30):
        seconds = await given
    assert seconds == (None if left is None else pytest.approx(left, abs=0.25))
    watch.end()


async def test_a_watch_that_has_ended_looks_no_more() -> None:
    """Also where it never began."""
    watch = StopWatch(lambda _grace: asyncio.sleep(0))
    watch.end()
    watch.start()
    watch.end()
    assert watch._timer is None
