"""Measure everything and write ``RESULTS.md``: ``python -m benchmarks.run [--full]``.

It owns the order of a run. What is measured is in ``workloads/``, who in ``peers/``, what for in ``targets.py``.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import uvloop

from benchmarks import machine
from benchmarks.figures import Figures
from benchmarks.forms import FULL, SHORT, Form, turns
from benchmarks.load.tally import WrongAnswer
from benchmarks.peers.catalogue import (
    CLIENTS,
    EARLIER,
    OURS,
    SERVERS,
    Peer,
    add_earlier,
    cache_folder,
    missing,
    node_version,
    version_of,
)
from benchmarks.processes import Cores
from benchmarks.quiet import Pace, least_disturbed
from benchmarks.report import change, render
from benchmarks.results import Fault, Results
from benchmarks.workloads.clients import TRANSPORTS, measure_client, takes_client
from benchmarks.workloads.servers import Servers, Unavailable
from benchmarks.workloads.startup import measure_sessions, measure_startup
from benchmarks.workloads.wire import WORKLOADS, Workload, measure

__all__ = ["Run", "main"]

PAGE = Path(__file__).parent / "RESULTS.md"
# The load keeps its large blocks instead of giving each back to the system: otherwise its own page faults are what the
# 1 MiB rows measure. What is measured runs with the defaults.
STEADY = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str((1 << 31) - 1)}


class Run:
    """One run of all workloads that were asked for.

    Args:
        form: How thoroughly.
        only: A word the keys of workloads must contain; empty for all.
        peers: Who takes part; empty for all that are installed.
        servers: Where servers come from.
    """

    def __init__(self, form: Form, only: str, peers: Sequence[str], servers: Servers) -> None:
        self.form, self._only, self._servers, self._pace = form, only, servers, Pace(servers.cores)
        self._server_peers, self._clients = self._chosen(SERVERS, peers), self._chosen(CLIENTS, peers)
        everybody = {**CLIENTS, **SERVERS}
        self.results = Results(
            form=form.name,
            machine={**machine.describe(), "node": node_version()},
            versions={name: version_of(peer.folder) for name, peer in everybody.items() if peer.folder},
            missing={
                name: "not installed"
                for name, peer in everybody.items()
                if missing(peer) and (not peers or name in peers)
            },
        )

    @staticmethod
    def _chosen(peers: Mapping[str, Peer], names: Sequence[str]) -> dict[str, Peer]:
        return {name: peer for name, peer in peers.items() if not missing(peer) and (not names or name in names)}

    async def all(self) -> Results:
        """Measure, workload by workload."""
        began = time.perf_counter()
        for workload in WORKLOADS:
            if self.form is FULL or not workload.full:
                await self._wire(workload)
        self._servers.close()
        for transport in TRANSPORTS:
            await self._client(transport)
        await self._starts()
        self.results.minutes = (time.perf_counter() - began) / 60
        return self.results

    async def _wire(self, workload: Workload) -> None:
        peers = {name: peer for name, peer in self._server_peers.items() if workload.takes(name, peer)}

        async def one(name: str) -> Figures:
            form, peer = self.form, peers[name]
            once = partial(measure, self._servers, workload, name, peer, warm=form.warm, seconds=form.seconds)
            return await least_disturbed(once, self._pace.slowed, form.tries)

        await self._rounds(workload.key, peers, self.form.rounds, one)

    async def _client(self, transport: str) -> None:
        peers = {name: peer for name, peer in self._clients.items() if takes_client(transport, peer)}

        async def one(name: str) -> Figures:
            once = partial(measure_client, self._servers, transport, peers[name], self.form.client_seconds)
            return await least_disturbed(once, self._pace.slowed, self.form.tries)

        await self._rounds(f"client-{transport}", peers, self.form.client_rounds, one)

    async def _starts(self) -> None:
        peers = {name: peer for name, peer in self._server_peers.items() if peer.stdio}
        await self._rounds(
            "start", peers, self.form.start_rounds, lambda name: measure_startup(self._servers, name, peers[name])
        )
        # A limit without sessions has nothing to weigh.
        stateful = {name: peer for name, peer in peers.items() if peer.http and not peer.limit}
        count = self.form.sessions
        await self._rounds(
            "sessions",
            stateful,
            self.form.session_rounds,
            lambda name: measure_sessions(self._servers, name, stateful[name], count),
        )

    async def _rounds(
        self, key: str, peers: Mapping[str, Peer], count: int, one: Callable[[str], Awaitable[Figures]]
    ) -> None:
        """Measure so many rounds of a workload, peers in turns."""
        if self._only not in key:
            return
        kept = self.results.rounds.setdefault(key, [])
        for number in range(count):
            kept.append({})
            for name in turns(peers, self.form, number):
                if name in self.results.missing:
                    continue
                try:
                    kept[-1][name] = await one(name)
                except WrongAnswer as error:
                    self.results.faults.append(Fault(workload=key, peer=name, why=str(error)))
                except Unavailable as error:
                    self._absent(key, name, peers[name], str(error))
        done = ", ".join(f"{name} {rate(kept, name)}" for name in peers if rate(kept, name))
        print(f"{key}: {done}", file=sys.stderr, flush=True)

    def _absent(self, key: str, name: str, peer: Peer, why: str) -> None:
        """Leave out a peer that does not start; without us or a limit there is no run."""
        if name == OURS or peer.limit:
            self.results.faults.append(Fault(workload=key, peer=name, why=why))
        else:
            self.results.missing[name] = why


def rate(rounds: list[dict[str, Figures]], name: str) -> str:
    """Show one figure of a peer, for whoever watches."""
    for turn in rounds:
        for figure in ("rate", "seq", "first_reply_ms", "session_kb"):
            if figure in turn.get(name, {}):
                return f"{turn[name][figure]:,.0f}"
    return ""


async def run(form: Form, only: str, peers: Sequence[str]) -> Results:
    """Measure all, with the servers' output kept where the peers are installed."""
    cores = Cores()
    logs = cache_folder() / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    for old in logs.glob("*.log"):
        old.unlink()
    servers = Servers(cores, logs)
    try:
        with cores.on(cores.load):
            return await Run(form, only, peers, servers).all()
    finally:
        servers.close()


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description="Measure, and write RESULTS.md.")
    parser.add_argument("--full", action="store_true", help="the long form: more rounds, longer ones, more peers")
    parser.add_argument("--only", default="", help="only workloads whose key contains this; prints, writes no page")
    parser.add_argument("--peers", default="", help="only these, with commas between; prints, writes no page")
    parser.add_argument("--render", type=Path, help="measure nothing: write the page from the figures in this file")
    parser.add_argument("--against", type=Path, help="only us and another checkout of ours, with its own .venv; prints")
    return parser.parse_args()


def complain(results: Results) -> None:
    """Say who answered wrongly, and who is missing."""
    for fault in results.faults:
        print(f"WRONG: {fault.why}", file=sys.stderr)
    for name, why in results.missing.items():
        print(f"not measured: {name} ({why})", file=sys.stderr)


def publish(results: Results, *, partly: bool) -> int:
    """Print or write the page; return the exit status: 1 if any answer was wrong."""
    complain(results)
    ours_wrong = any({**SERVERS, **CLIENTS}[fault.peer].limit or fault.peer == OURS for fault in results.faults)
    if partly or ours_wrong:
        print(render(results))
    else:
        PAGE.write_text(render(results), encoding="utf-8")
        print(f"benchmarks: {results.minutes:.1f} minutes; see {PAGE.name}", file=sys.stderr)
    return 1 if results.faults else 0


def main() -> int:
    """Run what the command line says."""
    options = arguments()
    if options.render is not None:
        return publish(Results.load(options.render), partly=False)
    if not sys.platform.startswith("linux"):
        sys.exit("benchmarks: Linux only; processor time and memory are read from /proc")
    if not set(STEADY) <= set(os.environ):
        os.execve(sys.executable, [sys.executable, "-m", "benchmarks.run", *sys.argv[1:]], {**os.environ, **STEADY})
    form = FULL if options.full else SHORT
    peers = [name for name in options.peers.split(",") if name]
    if options.against is not None:
        add_earlier(options.against)
        peers = [OURS, EARLIER]
    results = uvloop.run(run(form, options.only, peers))
    if options.against is not None:
        complain(results)
        print(change(results))
        return 1 if results.faults or results.missing else 0
    partly = bool(options.only or peers)
    results.save(cache_folder() / ("part.json" if partly else f"{form.name}.json"))
    return publish(results, partly=partly)


if __name__ == "__main__":
    sys.exit(main())
