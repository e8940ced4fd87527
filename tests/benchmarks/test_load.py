"""The load, on real servers over real pipes and sockets: what is right is counted, what is wrong ends it."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.figures import Figures
from benchmarks.load.tally import MAX_FAULTS, Tally, WrongAnswer
from benchmarks.peers.catalogue import SERVERS, Peer
from benchmarks.processes import Cores
from benchmarks.workloads.servers import Servers, Unavailable
from benchmarks.workloads.wire import WORKLOADS, Workload, measure

LIAR = (sys.executable, str(Path(__file__).parent / "liar.py"))
BY_KEY = {workload.key: workload for workload in WORKLOADS}


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[Servers]:
    """Start servers, and end them all."""
    made = Servers(Cores(), tmp_path)
    yield made
    made.close()


def liar(how: str) -> Peer:
    """Describe a server that lies."""
    return Peer(title="liar", stdio=(*LIAR, how, "stdio"), http=(*LIAR, how, "http"))


async def tried(servers: Servers, workload: Workload, peer: Peer, seconds: float = 0.05) -> Figures:
    """Measure shortly."""
    return await measure(servers, workload, "one", peer, warm=0.01, seconds=seconds)


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("key", ["stdio-{}-echo-32", "http-{}-echo-16", "stdio-{}-sample-16", "http-{}-sample-1"])
async def test_an_honest_server_has_figures(servers: Servers, key: str, era: str):
    """All of them, and sensible ones."""
    workload = BY_KEY[key.format(era)]
    figures = await tried(servers, workload, liar("never"))
    if not figures["server_cpu_us"]:
        # The system counts in steps of 10 ms, and a server gets less of a busy machine.
        figures = await tried(servers, workload, liar("never"), seconds=3.0)
    assert figures["rate"] > 0
    assert 0 < figures["p50_us"] <= figures["p99_us"]
    assert figures["server_cpu_us"] > 0
    assert 0 < figures["server_share"] < 1.5


@pytest.mark.parametrize("how", ["lies", "fails"])
@pytest.mark.parametrize("key", ["stdio-legacy-echo-32", "http-modern-echo-16"])
async def test_a_wrong_answer_among_twenty_is_caught(servers: Servers, key: str, how: str):
    """Over either transport: another text, or an error."""
    with pytest.raises(WrongAnswer, match="isError"):
        await tried(servers, BY_KEY[key], liar(how))


@pytest.mark.parametrize("key", ["stdio-legacy-sample-1", "stdio-modern-sample-1", "http-modern-sample-1"])
async def test_a_wrong_prompt_is_caught(servers: Servers, key: str):
    """By an ask, or by a round."""
    with pytest.raises(WrongAnswer):
        await tried(servers, BY_KEY[key], liar("lies"))


async def test_a_tool_that_is_not_there_is_caught(servers: Servers):
    """An error is no answer."""
    with pytest.raises(WrongAnswer):
        await tried(servers, BY_KEY["stdio-legacy-big"], liar("never"))


@pytest.mark.parametrize("key", ["stdio-legacy-blob", "http-legacy-big", "http-legacy-list"])
async def test_our_own_server_does_all_that_is_asked(servers: Servers, key: str):
    """The one that is measured."""
    assert (await tried(servers, BY_KEY[key], SERVERS["antiphon"]))["rate"] > 0


@pytest.mark.parametrize("key", ["http-legacy-sample-1", "http-modern-echo-16", "stdio-modern-sample-16"])
async def test_the_limits_answer_as_well(servers: Servers, key: str):
    """A bound that is wrong bounds nothing."""
    for name in ("uvicorn", "bare"):
        if BY_KEY[key].takes(name, SERVERS[name]):
            assert (await tried(servers, BY_KEY[key], replace(SERVERS[name])))["rate"] > 0
            servers.drop("one")


async def test_a_server_that_does_not_start_is_not_a_wrong_answer(servers: Servers):
    """It is missing from the table, no more."""
    ending = (sys.executable, "-c", "raise SystemExit(3)")
    for key in ("stdio-legacy-echo-1", "http-legacy-echo-1"):
        with pytest.raises(Unavailable):
            await tried(servers, BY_KEY[key], Peer(title="none", stdio=ending, http=ending))
        servers.drop("one")


def test_too_many_faults_end_a_measurement():
    """Not the first: the others tell whether it is always the same."""
    tally = Tally()
    for _ in range(MAX_FAULTS):
        assert not tally.stopping
        tally.wrong("no")
    assert tally.stopping
