"""Count what a call costs in instructions of the processor, which no other work on the machine changes.

    python -m benchmarks.instructions [--against DIR] [--only WORD]

Our server, or our client, runs in valgrind's callgrind, fifty times as slow; the load and the checks of every answer
are those of ``run``. What is counted is what the process itself does: not the kernel, not waiting, not how well the
caches work. So a count says how much work a call is, and a clock how fast it is. A count is the same to three
thousandths each time, where the clock of a machine that others use moves by half. Only rows with several connections
whose handlers wait depend on how busy the machine is: a server that is so slow reaches its timers, and writes alone
what it would have written together.

``--against``: count another checkout of ours as well, with its own ``.venv``, and print the ratios. ``--only``: only
rows whose key contains this. Needs valgrind. Prints a table, in thousands of instructions.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import uvloop

from benchmarks.load.stdio import Pipes
from benchmarks.load.tally import MAX_FAULTS, Tally, WrongAnswer
from benchmarks.peers.catalogue import CLIENTS, EARLIER, OURS, SERVERS, Peer, add_earlier
from benchmarks.processes import Cores
from benchmarks.report import WORSE, table
from benchmarks.workloads.clients import FIXED, TRANSPORTS, run
from benchmarks.workloads.servers import Running, Servers, Unavailable
from benchmarks.workloads.startup import check_call
from benchmarks.workloads.wire import ENDING, WORKLOADS, Workload, callers_of, finish, until

__all__ = ["Counted", "count_client", "count_server", "count_start", "instructions_in", "rows", "wrapped"]

WARM = 3
"""Calls of each caller before those that are counted; what is made once was made then."""
CALLS = 600
"""Calls that are counted, at least 12 of each caller."""
LARGE_CALLS = 24
"""The same where one call is a mebibyte, or a list of 204 tools."""
SHORT, LONG = 100, 500
"""Calls that a client makes, in two runs: the difference is what so many calls cost without the start."""
PATIENCE = 300.0
"""Seconds that answers may take: callgrind is slow, and the machine may be busy."""

Counted = dict[str, dict[str, float]]
"""Thousands of instructions a call, by row and by who made it."""


def wrapped(command: tuple[str, ...], profile: Path, *, later: bool) -> tuple[str, ...]:
    """Put callgrind around a command. ``later``: count nothing until ``callgrind_control`` says so."""
    started = "no" if later else "yes"
    options = ("--tool=callgrind", "-q", f"--instr-atstart={started}", f"--callgrind-out-file={profile}")
    return ("valgrind", *options, *command) if command else ()


def measured(peer: Peer, profile: Path, *, later: bool = True) -> Peer:
    """Return a peer that runs in callgrind, with an order of hashes that is the same each time."""
    return replace(
        peer,
        http=wrapped(peer.http, profile, later=later),
        stdio=wrapped(peer.stdio, profile, later=later),
        env={**peer.env, "PYTHONHASHSEED": "0"},
    )


def instructions_in(folder: Path) -> int:
    """Return the most instructions that a profile in this folder says were counted.

    Raises:
        WrongAnswer: No profile says so.
    """
    totals = [
        int(found[1])
        for profile in folder.iterdir()
        if (found := re.search(r"^totals: (\d+)$", profile.read_text(encoding="utf-8", errors="replace"), re.MULTILINE))
    ]
    if not any(totals):
        raise WrongAnswer("callgrind has counted nothing")
    return max(totals)


def control(running: Running, *words: str) -> None:
    """Tell callgrind to begin or end counting, or to write down what it has."""
    subprocess.run(["callgrind_control", *words, str(running.process.pid)], check=True, capture_output=True)


async def reached(condition: Callable[[], bool]) -> None:
    """Wait for what a slow server does.

    Raises:
        WrongAnswer: It does not come about.
    """
    for _ in range(int(PATIENCE / ENDING)):
        if await until(condition):
            return
    raise WrongAnswer("no answer in time")


async def started(servers: Servers, name: str, peer: Peer, workload: Workload) -> Running:
    """Start a server anew."""
    servers.drop(name)
    if workload.transport == "http":
        return await servers.over_http(name, peer, workload.extra)
    return await servers.over_stdio(name, peer, workload.extra, modern=workload.modern)


async def count_server(servers: Servers, workload: Workload, name: str, peer: Peer, calls: int) -> float:
    """Count what a server does for a call, in thousands of instructions.

    Args:
        servers: Where it comes from.
        workload: What it is asked.
        name: Its name in the catalogue.
        peer: How it is started.
        calls: How many calls are counted.

    Raises:
        WrongAnswer: Any answer was wrong, or none came.
        Unavailable: It does not start.
    """
    with TemporaryDirectory() as folder:
        running = await started(servers, name, measured(peer, Path(folder) / "profile"), workload)
        tally = Tally()
        callers = callers_of(running, workload, tally)
        try:
            for caller in callers:
                await caller.open()
            for caller in callers:
                caller.go()
            await reached(lambda: tally.done >= WARM * workload.width or bool(tally.faults))
            control(running, "-i", "on")
            began = tally.done
            await reached(lambda: tally.done >= began + calls or len(tally.faults) >= MAX_FAULTS)
            control(running, "-i", "off")
            count = tally.done - began
            tally.stopping = True
            await finish(callers, tally)
        finally:
            for caller in callers:
                await caller.close()
        if tally.faults:
            raise WrongAnswer(f"{name}, {workload.title}: {tally.faults[0]}")
        control(running, "-d")
        servers.drop(name)
        return instructions_in(Path(folder)) / count / 1_000


async def count_client(servers: Servers, transport: str, peer: Peer) -> float:
    """Count what a client does for a call, one at a time and with 32 in flight, in thousands of instructions.

    In memory the server is in the same process, and counted with it.

    Raises:
        WrongAnswer: It got one, or ended otherwise.
    """
    target = "-"
    if transport == "http":
        running = await servers.over_http(FIXED, SERVERS[FIXED])
        target = f"http://127.0.0.1:{running.port}/mcp"
    elif transport == "stdio":
        target = json.dumps(SERVERS[FIXED].stdio)
    counts: list[int] = []
    for calls in (SHORT, LONG):
        with TemporaryDirectory() as folder:
            client = measured(peer, Path(folder) / "profile", later=False)
            command = [*client.stdio, transport, target, str(calls)]
            _, errors, code = await run(servers, command, client, placed=False, patience=PATIENCE)
            if code:
                raise WrongAnswer(f"{peer.title}, {TRANSPORTS[transport]}: {errors[-200:]}")
            counts.append(instructions_in(Path(folder)))
    # Each length is made twice: one call at a time, and 32 in flight.
    return (counts[1] - counts[0]) / (LONG - SHORT) / 2 / 1_000


async def count_start(servers: Servers, name: str, peer: Peer) -> float:
    """Count what a server on stdio does from its start to the answer of its first call, in thousands of instructions.

    Raises:
        WrongAnswer: It answers something else.
        Unavailable: It does not start.
    """
    with TemporaryDirectory() as folder:
        servers.drop(name)
        running = await servers.over_stdio(name, measured(peer, Path(folder) / "profile", later=False), modern=False)
        assert isinstance(running.pipes, Pipes)
        await check_call(running.pipes)
        control(running, "-d")
        servers.drop(name)
        return instructions_in(Path(folder)) / 1_000


def calls_of(workload: Workload) -> int:
    """Say how many calls of a workload are counted."""
    return LARGE_CALLS if workload.extra or workload.fresh else max(CALLS, 12 * workload.width)


async def count(only: str, names: list[str], logs: Path, found: Counted) -> None:
    """Count all rows whose key contains a word, and add them to what was found."""
    servers = Servers(Cores(), logs)

    def note(key: str, name: str, counted: float) -> None:
        found.setdefault(key, {})[name] = counted
        print(f"{key}: {name} {counted:,.1f}", file=sys.stderr, flush=True)

    try:
        for workload in WORKLOADS:
            if only in workload.key and not workload.full and not workload.growth:
                for name in names:
                    counted = await count_server(servers, workload, name, SERVERS[name], calls_of(workload))
                    note(workload.title, name, counted)
        for transport, title in TRANSPORTS.items():
            if only in f"client-{transport}":
                for name in names:
                    note(title, name, await count_client(servers, transport, CLIENTS[name]))
        if only in "start":
            for name in names:
                note(
                    "start, to the first call answered on stdio", name, await count_start(servers, name, SERVERS[name])
                )
    finally:
        servers.close()


def rows(found: Counted) -> str:
    """Write the table; what is more than a tenth worse than in the other checkout is marked."""
    lines: list[list[str]] = []
    for title, counts in found.items():
        now, before = counts[OURS], counts.get(EARLIER, 0.0)
        cells = [title, f"{now:,.1f}"]
        if before:
            cells += [f"{before:,.1f}", f"{now / before:.3f}{' **worse**' if now / before > WORSE else ''}"]
        lines.append(cells)
    head = ["thousands of instructions a call", "now"]
    return table(head if lines and len(lines[0]) == 2 else [*head, "before", "now / before"], lines)


def main() -> int:
    """Count what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.instructions", description="Count instructions a call.")
    parser.add_argument("--only", default="", help="only rows whose key contains this")
    parser.add_argument("--against", type=Path, help="another checkout of ours as well, with its own .venv")
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        sys.exit("benchmarks: valgrind is missing; on Debian: apt-get install valgrind")
    names = [OURS]
    if options.against is not None:
        add_earlier(options.against)
        names.append(EARLIER)
    found, fault = Counted(), ""
    with TemporaryDirectory() as logs:
        try:
            uvloop.run(count(options.only, names, Path(logs), found))
        except (WrongAnswer, Unavailable) as error:
            fault = str(error)
    if found:
        # What was counted before a fault took minutes.
        print(rows(found))
    elif not fault:
        fault = f"no row has {options.only!r} in its key"
    if fault:
        print(f"benchmarks: {fault}", file=sys.stderr)
    return 1 if fault else 0


if __name__ == "__main__":
    sys.exit(main())
