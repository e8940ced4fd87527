"""Tools that wait for Redis and an HTTP API, called by 50 users: servers of several projects in turns, in one run.

    python -m benchmarks.io_bound [--rounds N] [--seconds N] [--warm N] [--servers NAMES]

The page goes to standard output. It needs ``redis-server``, which is started for this. ``benchmarks/peers/setup.sh``
installs the servers of others; a server that is not installed is left out and named. The load, Redis and the API share
one core, the server has the other one. A wrong answer takes its server out of the row, and the run fails.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import uvloop

from benchmarks.figures import Round, pairs, spread
from benchmarks.io_bound.services import restore, seed
from benchmarks.io_bound.users import CALLS, LEAST, PUBLISHED, USERS, Form, measure
from benchmarks.load.tally import WrongAnswer
from benchmarks.machine import Busy, describe
from benchmarks.peers.catalogue import OURS, Peer, cache_folder, missing, node_version, python, version_of
from benchmarks.processes import Cores, environment, start, stop
from benchmarks.workloads.servers import Servers, Unavailable, listens
from tests.support.ports import free_port
from tests.support.redis import own_redis

HERE = Path(__file__).parent
PATIENCE = 60.0
"""Seconds that the API may take to listen."""


def python_servers(name: str, title: str, interpreter: str, folder: str = "") -> dict[str, Peer]:
    """Describe a Python server, with each of two HTTP clients for its tools."""
    command = (interpreter, "-m", f"benchmarks.io_bound.{name}_server")
    one = Peer(title=f"{title}, aiohttp", folder=folder, http=command, env={"HTTP_CLIENT": "aiohttp"})
    two = replace(one, title=f"{title}, httpx", env={"HTTP_CLIENT": "httpx"})
    return {name: one, f"{name}{HTTPX}": two}


HTTPX = "-httpx"
SERVERS = {
    **python_servers(OURS, "Antiphon", sys.executable),
    **python_servers("fastmcp4", "FastMCP 4", python("fastmcp4"), "fastmcp4"),
    **python_servers("python2", "official Python SDK 2", python("python2"), "python2"),
    "ts2": Peer(
        title="TypeScript SDK 2, fetch",
        folder="ts2",
        http=("node", str(HERE / "ts2_server.mjs")),
        env={"PEER": str(cache_folder() / "ts2")},
    ),
    **python_servers("bare", "limit: asyncio + msgspec", sys.executable),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What is asked of all servers."""

    title: str
    form: Form
    calls_api: bool = True
    """Whether the HTTP client matters."""

    def takes(self, name: str) -> bool:
        """Return whether a server is measured with it."""
        return self.calls_api or not name.endswith(HTTPX)


WORKLOADS = {
    "published": Workload(title="The published sequence, at 2025-11-25", form=PUBLISHED),
    "calls": Workload(title="Calls alone, at 2026-07-28", form=CALLS),
    "echo": Workload(title="an echo", form=Form(tools=["echo"]), calls_api=False),
    "redis": Workload(title="one Redis command", form=Form(tools=["read_popular"]), calls_api=False),
    "http": Workload(title="one HTTP request", form=Form(tools=["read_product"])),
}
PARTS = ("echo", "redis", "http", "calls")


@asynccontextmanager
async def services(cores: Cores) -> AsyncGenerator[dict[str, str]]:
    """Run Redis with the data, and the API, on the core of the load; yield the environment of the servers."""
    with own_redis() as redis:
        await seed(redis.url)
        port = free_port()
        command = [sys.executable, "-m", "benchmarks.io_bound.services", str(port)]
        process = start(command, replaced(cores), env=environment(), pipes=False)
        try:
            async with asyncio.timeout(PATIENCE):
                while not listens(port):
                    if process.poll() is not None:
                        raise Unavailable("the HTTP API does not start")
                    await asyncio.sleep(0.02)
            yield {"REDIS_URL": redis.url, "API_URL": f"http://127.0.0.1:{port}"}
        finally:
            stop(process)


async def run(options: argparse.Namespace, cores: Cores, logs: Path) -> tuple[dict[str, list[Round]], list[str]]:
    """Measure all rounds; return what was found, and what went wrong."""
    chosen = {name: peer for name, peer in SERVERS.items() if not options.servers or name in options.servers}
    peers = {name: peer for name, peer in chosen.items() if not missing(peer)}
    rounds: dict[str, list[Round]] = {key: [] for key in WORKLOADS}
    faults = [f"{name} is not installed" for name in chosen if name not in peers]
    async with services(cores) as env:
        servers = Servers(cores, logs)
        peers = {name: replace(peer, env={**peer.env, **env}) for name, peer in peers.items()}
        try:
            for number in range(options.rounds):
                for key, workload in WORKLOADS.items():
                    rounds[key].append(await one_round(servers, peers, workload, number, options, faults))
                print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
        finally:
            servers.close()
    return rounds, faults


async def one_round(
    servers: Servers,
    peers: Mapping[str, Peer],
    workload: Workload,
    number: int,
    options: argparse.Namespace,
    faults: list[str],
) -> Round:
    """Measure the servers one after another, beginning with another one in each round."""
    names = [name for name in peers if workload.takes(name)]
    found: Round = {}
    for name in names[number % len(names) :] + names[: number % len(names)]:
        try:
            running = await servers.over_http(name, peers[name])
            await restore(peers[name].env["REDIS_URL"], range(1, USERS + 1))
            # Interpreters that compile while they run get more time when they are asked first.
            more = 1 if workload.title in running.warm else 4
            running.warm.add(workload.title)
            found[name] = await measure(
                running.port, running.pids, workload.form, warm=more * options.warm, seconds=options.seconds
            )
        except (WrongAnswer, Unavailable) as error:
            faults.append(f"{name}, {workload.title}: {error}")
    return found


# --- the page ----------------------------------------------------------------------------------------------------


def ours_for(name: str) -> str:
    """Name our server that has the same HTTP client."""
    return OURS + HTTPX if name.endswith(HTTPX) else OURS


def median(rounds: Sequence[Round], name: str, figure: str) -> float | None:
    """Return the median of a figure over the rounds."""
    found = spread(turn[name][figure] for turn in rounds if name in turn)
    return found.median if found is not None else None


def times(rounds: Sequence[Round], name: str, ours: str) -> str:
    """Show how many times the processor time of ours a request of another server takes."""
    found = spread(pairs(rounds, rounds, name, ours, "cpu"))
    return "" if found is None else f"{found.median:.2f} ({found.least:.2f} to {found.most:.2f})"


def rates(rounds: Sequence[Round]) -> list[str]:
    """Write the table of one form."""
    columns = [
        "",
        "requests for a CPU second",
        "Antiphon has times as many",
        "requests/s by the clock",
        "p50 ms",
        "p95 ms",
    ]
    lines = [f"| {' | '.join(columns)} |", f"|---|{'---:|' * (len(columns) - 1)}"]
    for name, peer in SERVERS.items():
        cpu, rate = median(rounds, name, "cpu"), median(rounds, name, "rate")
        p50, p95 = median(rounds, name, "p50"), median(rounds, name, "p95")
        if cpu is None or rate is None or p50 is None or p95 is None:
            continue
        ratio = "" if name.startswith(OURS) else times(rounds, name, ours_for(name))
        cells = [peer.title, f"{1 / cpu:,.0f}", ratio, f"{rate:,.0f}", f"{1000 * p50:.1f}", f"{1000 * p95:.1f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def parts(rounds: Mapping[str, Sequence[Round]]) -> list[str]:
    """Write the table of what each part of a call costs."""
    titles = [WORKLOADS[key].title for key in PARTS[:-1]]
    lines = [f"| us of CPU a call | {' | '.join(titles)} | the three tools in turn |"]
    lines.append(f"|---|{'---:|' * len(PARTS)}")
    for name, peer in SERVERS.items():
        found = [median(rounds[key], name, "cpu") for key in PARTS]
        if any(found):
            cells = ["" if value is None else f"{1_000_000 * value:,.0f}" for value in found]
            lines.append(f"| {peer.title} | {' | '.join(cells)} |")
    return lines


def page(rounds: Mapping[str, Sequence[Round]], options: argparse.Namespace, about: str) -> str:
    """Write the page."""
    lines = ["# Tools that wait for Redis and HTTP", "", about, "", INTRODUCTION]
    for key in ("published", "calls"):
        lines += ["", f"## {WORKLOADS[key].title}", "", *rates(rounds[key])]
        if own := times(rounds[key], f"fastmcp4{HTTPX}", OURS):
            words = f"Antiphon with aiohttp, which it depends on, has {own} times as many requests for a CPU second"
            lines += ["", f"{words}\nas FastMCP with httpx, with which the published server of FastMCP asks the API."]
    lines += ["", "## What each part costs", "", PARTS_TEXT, "", *parts(rounds)]
    return "\n".join(lines)


INTRODUCTION = f"""\
The second [benchmark of TM Dev Lab](https://www.tmdevlab.com/mcp-server-performance-benchmark-v2.html), rebuilt from
its description. Three tools (`search_products`, `get_user_cart`, `checkout`) ask Redis and an HTTP API with 100,000
products at the same time, for {USERS} users. Servers keep no sessions and answer with JSON. In its sequence every call
has an `initialize` and a notification before it, and `tools/list` follows every three calls in the same way.
`initialize`, calls and lists count as requests, notifications do not. With two processors, four workers for Python and
Node, and k6 as the load, TM Dev Lab found 4,845 requests a second for Rust, 3,616 for Go, 876 for Bun, 423 for Node and
259 for Python.

What differs here:

- one worker for every server, and today's versions;
- a load program of ours in place of k6, without the pause of 50 ms after each sequence;
- Redis and the API on this machine, on the core of the load; the API is written in Python, theirs in Go;
- revision 2025-11-25 in place of 2024-11-05, and a second table at 2026-07-28;
- the three writes of a checkout are one pipeline;
- three tools more, one for each part of the work, so lists are longer;
- every answer is compared with the right one, where theirs looks at a few members.

All Python servers run the same functions with the same clients: redis-py with hiredis, and aiohttp or httpx, both with
at least as many kept connections as there are users. All run on uvloop and httptools.

**Read the processor time**: of the server's process and its children, for each request. A ratio is the median of the
rounds' ratios to Antiphon with the same HTTP client (for TypeScript: aiohttp), with the least and the most in brackets.
Other work on the machine moves the clock more than it moves these ratios."""
PARTS_TEXT = """\
One tool at a time, at 2026-07-28. The echo is the protocol: HTTP, JSON-RPC, validation, the result. What the other
columns have more is the work of the tool: the clients of Redis and of the API, and JSON. The limit has the same tools
and clients and next to no protocol: a server whose protocol cost nothing would be about as fast."""


def replaced(cores: Cores) -> Cores:
    """Return cores whose servers run where the load is."""
    other = Cores()
    other.servers = cores.load
    return other


def describe_run(options: argparse.Namespace, before: Busy, own: float, took: float, load: float) -> str:
    """Say on what machine it was, with what, and how much else ran there."""
    machine = describe()
    others = before.since(own, took)
    peers = "; ".join(dict.fromkeys(version_of(peer.folder) for peer in SERVERS.values() if peer.folder))
    return (
        f"{machine['processor']}, {machine['cores']} cores, {machine['system']}, Python {machine['python']}, Node"
        f" {node_version()}; {machine['date']}; {options.rounds} rounds of at least {options.seconds} s"
        f" and {LEAST} requests. Load when begun"
        f" {load:.1f}; other work and other machines took {others['others'] + others['stolen']:.0%} of this machine.\n"
        f"Peers: {peers}."
    )


def main() -> int:
    """Measure, and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.io_bound", description="Measure I/O-bound tools.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="for each measurement")
    parser.add_argument("--warm", type=float, default=0.25, help="seconds before each measurement")
    names = ", ".join(SERVERS)
    parser.add_argument("--servers", type=lambda text: text.split(","), default=[], help=f"only these, of {names}")
    options = parser.parse_args()
    cores, load, before, began = Cores(), os.getloadavg()[0], Busy.now(), time.perf_counter()
    with TemporaryDirectory() as logs, cores.on(cores.load):
        rounds, faults = uvloop.run(run(options, cores, Path(logs)))
    ended = os.times()
    own = sum(ended[:4])
    print(page(rounds, options, describe_run(options, before, own, time.perf_counter() - began, load)))
    for fault in faults:
        print(f"WRONG: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
