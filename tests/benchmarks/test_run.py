"""A whole run in small, and the processes it looks at."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import machine, run
from benchmarks.forms import SHORT
from benchmarks.load.tally import WrongAnswer
from benchmarks.peers.catalogue import CLIENTS, OURS, SERVERS, Peer
from benchmarks.processes import Cores, cpu_of, environment, family, memory_of, start, stop
from benchmarks.results import Results
from benchmarks.workloads.clients import measure_client
from benchmarks.workloads.servers import Servers
from benchmarks.workloads.startup import measure_sessions, measure_startup

TINY = replace(SHORT, rounds=2, seconds=0.05, warm=0.01)
LIAR = (sys.executable, str(Path(__file__).parent / "liar.py"), "lies")
PARENT = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(input())'])"


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[Servers]:
    """Start servers, and end them all."""
    made = Servers(Cores(), tmp_path)
    yield made
    made.close()


async def small_run(servers: Servers, monkeypatch: pytest.MonkeyPatch, **peers: Peer) -> Results:
    """Run one workload with ourselves and these."""
    monkeypatch.setattr(run, "SERVERS", {OURS: SERVERS[OURS], **peers})
    monkeypatch.setattr(run, "CLIENTS", {})
    return await run.Run(TINY, "stdio-legacy-echo-32", (), servers).all()


async def test_a_run_measures_everybody_in_each_round(servers: Servers, monkeypatch: pytest.MonkeyPatch):
    """And keeps all of it."""
    results = await small_run(servers, monkeypatch, bare=SERVERS["bare"])
    assert not results.faults
    assert list(results.rounds) == ["stdio-legacy-echo-32"]
    assert [set(turn) for turn in results.rounds["stdio-legacy-echo-32"]] == [{OURS, "bare"}] * TINY.rounds


async def test_a_run_notes_who_lies_and_who_is_missing(servers: Servers, monkeypatch: pytest.MonkeyPatch):
    """The others are measured all the same."""
    ending = Peer(title="none", stdio=(sys.executable, "-c", "raise SystemExit(3)"))
    results = await small_run(servers, monkeypatch, ts1=Peer(title="liar", stdio=(*LIAR, "stdio")), ts2=ending)
    assert {fault.peer for fault in results.faults} == {"ts1"}
    assert set(results.missing) == {"ts2"}
    assert len(results.values("stdio-legacy-echo-32", OURS, "rate")) == TINY.rounds


@pytest.mark.parametrize("transport", ["http", "stdio", "mem"])
async def test_our_client_is_measured(servers: Servers, transport: str):
    """Against the fixed server, or in memory."""
    figures = await measure_client(servers, transport, CLIENTS[OURS], 0.02)
    assert figures["seq"] > 0
    assert figures["conc32"] > 0


async def test_the_limit_of_a_client_is_measured(servers: Servers):
    """It is the load. On a busy machine a short time may be over before it has begun."""
    for seconds in (0.02, 0.2, 2):
        if (await measure_client(servers, "stdio", CLIENTS["bare"], seconds))["seq"] > 0:
            return
    pytest.fail("it was not measured in two seconds either")


async def test_a_client_that_fails_is_a_wrong_answer(servers: Servers):
    """With its last words."""
    with pytest.raises(WrongAnswer, match="hello 8"):
        await measure_client(servers, "mem", Peer(title="x", stdio=(sys.executable, "-c", "exit('hello 8')")), 0.02)


async def test_a_start_is_measured(servers: Servers):
    """What it takes, and what is in memory after it."""
    figures = await measure_startup(servers, OURS, SERVERS[OURS])
    assert figures["load_ms"] > 0
    assert 0 < figures["first_reply_ms"] <= figures["first_call_ms"]
    assert 5 < figures["memory_mb"] < 500


async def test_sessions_are_weighed(servers: Servers):
    """Some kilobytes each; a few of them may fit into what is there anyway."""
    figures = await measure_sessions(servers, OURS, SERVERS[OURS], 50)
    assert figures["session_kb"] < 1_000
    assert figures["http_memory_mb"] > 5


def test_a_process_is_looked_at_with_its_children():
    """And ended with them."""
    process = start([sys.executable, "-c", PARENT], Cores(), env=environment(), pipes=True)
    while len(members := family(process.pid)) < 2:
        assert process.poll() is None
    assert cpu_of(members) > 0
    assert memory_of(members) > 1_000_000
    stop(process)
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None
        pipe.close()
    # Killed children of a dead process are somebody else's to bury: they may be there a while, with no memory.
    for _ in range(1_000):
        if memory_of(members) == 0:
            break
        os.sched_yield()
    assert memory_of(members) == 0


def test_a_measured_process_inherits_no_settings(monkeypatch: pytest.MonkeyPatch):
    """Of an interpreter, or of malloc."""
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "1")
    made = environment({"MORE": "2"})
    assert made["MORE"] == "2"
    assert not {"PYTHONUNBUFFERED", "MALLOC_TRIM_THRESHOLD_"} & set(made)


def test_the_machine_is_named_in_general_terms():
    """No path, no host."""
    about = machine.describe()
    assert set(about) == {"processor", "cores", "memory", "system", "python", "date"}
    assert platform.node() not in about.values()
    assert not any("/" in value for value in about.values())
