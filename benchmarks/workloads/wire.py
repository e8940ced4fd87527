"""Load on servers: which workloads there are, and how one is measured. Ratios are somebody else's business."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.figures import Figures, percentile
from benchmarks.load.http_load import HttpCaller
from benchmarks.load.operations import BASE_TOOLS, MEBIBYTE, Operation
from benchmarks.load.stdio_load import StdioCaller
from benchmarks.load.tally import Tally, WrongAnswer
from benchmarks.machine import Busy
from benchmarks.peers.catalogue import EARLIER, OURS, Peer
from benchmarks.processes import cpu_of, place
from benchmarks.workloads.servers import Running, Servers

__all__ = ["WORKLOADS", "Workload", "measure"]

ENDING = 10.0
"""Seconds in which what is in flight must be answered."""
LOOK = 0.005
"""Seconds between two looks for answers."""
LEAST = 8
"""Answers a measurement must have, however long they take."""
FIRST = 1000
"""The first number of a measurement: ids of the openings lie below."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What is asked of every server alike."""

    key: str
    title: str
    transport: str
    kind: str
    modern: bool = False
    width: int = 1
    """Connections over HTTP, requests in flight over stdio."""
    extra: int = 0
    """Tools beyond the four."""
    size: int = MEBIBYTE
    fresh: bool = False
    """Whether each measurement has a new server: what an allocator keeps changes how it treats large blocks."""
    longer: float = 1.0
    """By how much more time it takes: a 99th percentile needs many answers."""
    full: bool = False
    """Whether only the full form has it."""
    growth: bool = False
    """Whether only we are measured: what is looked at is how a cost grows."""

    def takes(self, name: str, peer: Peer) -> bool:
        """Say whether a peer can be measured with it."""
        if not (peer.http if self.transport == "http" else peer.stdio) or (self.modern and not peer.modern):
            return False
        if self.growth:
            return name in {OURS, EARLIER}
        return peer.asks_over_http or self.modern or self.kind != "sample"


def echoes() -> list[Workload]:
    """List the echo rows."""
    found: list[Workload] = []
    for modern, era, version in ((False, "legacy", "2025-11-25"), (True, "modern", "2026-07-28")):
        for width in (1, 16, 64):
            title = f"Streamable HTTP echo, {version}, {width} connection{'s' * (width > 1)}"
            key, longer = f"http-{era}-echo-{width}", 2.0 if width == 16 else 1.0
            found.append(
                Workload(key=key, title=title, transport="http", kind="echo", modern=modern, width=width, longer=longer)
            )
        for width in (1, 32):
            title = f"stdio echo, {version}, {width} in flight"
            key = f"stdio-{era}-echo-{width}"
            found.append(Workload(key=key, title=title, transport="stdio", kind="echo", modern=modern, width=width))
    return found


def samplings() -> list[Workload]:
    """List the sampling round trips."""
    found: list[Workload] = []
    for modern, era, version in ((False, "legacy", "2025-11-25"), (True, "modern", "2026-07-28")):
        for transport, words in (("stdio", "in flight"), ("http", "connections")):
            for width in (1, 16):
                name = "stdio" if transport == "stdio" else "HTTP"
                title = f"sampling round trip over {name}, {version}, {width} {words}".replace(
                    " 1 connections", " 1 connection"
                )
                key = f"{transport}-{era}-sample-{width}"
                found.append(
                    Workload(key=key, title=title, transport=transport, kind="sample", modern=modern, width=width)
                )
    return found


def large() -> list[Workload]:
    """List what is long: lists of tools, results, arguments."""
    found: list[Workload] = []
    rows = (("list", "tools/list with 204 tools"), ("big", "1 MiB result"), ("blob", "1 MiB argument"))
    places = (("http", False, False), ("http", True, True), ("stdio", False, True))
    for transport, modern, full in places:
        for kind, words in rows:
            era, version = ("modern", "2026-07-28") if modern else ("legacy", "2025-11-25")
            name = "stdio, 4 in flight" if transport == "stdio" else "HTTP, 4 connections"
            found.append(
                Workload(
                    key=f"{transport}-{era}-{kind}",
                    title=f"{words}, {name}, {version}",
                    transport=transport,
                    kind=kind,
                    modern=modern,
                    width=4,
                    extra=200 if kind == "list" else 0,
                    fresh=kind != "list",
                    full=full,
                )
            )
    return found


def growths() -> list[Workload]:
    """List what shows how costs grow."""
    found: list[Workload] = []
    for tools in (10, 100, 1_000, 10_000):
        key, title = f"grow-tools-{tools}", f"HTTP echo, 2026-07-28, 16 connections, {tools:,} tools"
        extra = tools - BASE_TOOLS
        found.append(
            Workload(
                key=key, title=title, transport="http", kind="echo", modern=True, width=16, extra=extra, growth=True
            )
        )
    for width in (1, 10, 100, 1_000):
        key, title = f"grow-stdio-{width}", f"stdio echo, 2026-07-28, {width:,} in flight"
        found.append(
            Workload(key=key, title=title, transport="stdio", kind="echo", modern=True, width=width, growth=True)
        )
        key, title = f"grow-http-{width}", f"HTTP echo, 2026-07-28, {width:,} connections"
        found.append(
            Workload(key=key, title=title, transport="http", kind="echo", modern=True, width=width, growth=True)
        )
    for size in (1 << 10, 1 << 15, 1 << 20):
        for kind, words in (("blob", "argument"), ("big", "result")):
            key, title = f"grow-{kind}-{size}", f"{words} of {size >> 10:,} KiB, HTTP, 2025-11-25, 4 connections"
            found.append(
                Workload(key=key, title=title, transport="http", kind=kind, width=4, size=size, growth=True, fresh=True)
            )
    return found


WORKLOADS = [*echoes(), *samplings(), *large(), *growths()]


async def measure(
    servers: Servers, workload: Workload, name: str, peer: Peer, *, warm: float, seconds: float
) -> Figures:
    """Put a server under load and return its figures.

    Args:
        servers: Where it comes from.
        workload: What it is asked.
        name: Its name in the catalogue.
        peer: How it is started.
        warm: Seconds before the figures are taken; a server that was never asked this gets four times as many.
        seconds: Seconds in which they are taken.

    Raises:
        WrongAnswer: Any answer was wrong, or none came.
        Unavailable: It does not start.
    """
    if workload.fresh:
        servers.drop(name)
    if workload.transport == "http":
        running = await servers.over_http(name, peer, workload.extra)
    else:
        running = await servers.over_stdio(name, peer, workload.extra, modern=workload.modern)
    kind = f"{workload.kind}-{workload.modern}"
    try:
        figures = await load(running, servers, workload, warm if kind in running.warm else 4 * warm, seconds)
    except (WrongAnswer, OSError, TimeoutError) as error:
        servers.drop(name)
        raise WrongAnswer(f"{name}, {workload.title}: {error}") from error
    running.warm.add(kind)
    return figures


async def load(running: Running, servers: Servers, workload: Workload, warm: float, seconds: float) -> Figures:
    """Open the callers, let them call, count."""
    tally = Tally()
    callers = callers_of(running, workload, tally)
    try:
        for caller in callers:
            await caller.open()
        for caller in callers:
            caller.go()
        await warm_up(tally, workload.width, warm)
        figures = await record(running, servers, tally, seconds * workload.longer)
        await finish(callers, tally)
    finally:
        for caller in callers:
            await caller.close()
    if tally.faults:
        raise WrongAnswer(f"{len(tally.faults)} faults, the first: {tally.faults[0]}")
    return figures


def callers_of(running: Running, workload: Workload, tally: Tally) -> list[HttpCaller | StdioCaller]:
    """Make the callers of a workload."""
    numbers = itertools.count(FIRST)
    operation = Operation(workload.kind, modern=workload.modern, tools=BASE_TOOLS + workload.extra, size=workload.size)
    if running.pipes is not None:
        return [StdioCaller(tally, operation, running.pipes, workload.width, numbers)]
    return [HttpCaller(tally, operation, running.port, numbers) for _ in range(workload.width)]


async def warm_up(tally: Tally, width: int, seconds: float) -> None:
    """Wait so long, and for an answer to every caller."""
    await asyncio.sleep(seconds)
    await until(lambda: tally.done >= width or bool(tally.faults))


async def until(reached: Callable[[], bool]) -> bool:
    """Look again and again, for as long as answers may take; say whether it came about."""
    for _ in range(int(ENDING / LOOK)):
        if reached():
            return True
        await asyncio.sleep(LOOK)
    return False


async def record(running: Running, servers: Servers, tally: Tally, seconds: float) -> Figures:
    """Take the figures of these seconds."""
    pids = running.pids
    # Threads that started meanwhile are where the process is; only what moved itself needs moving.
    place(pids, servers.cores.servers)
    busy, cpu, own, began = Busy.now(), cpu_of(pids), time.process_time(), time.perf_counter()
    tally.recording = True
    await asyncio.sleep(seconds)
    await until(lambda: len(tally.latencies) >= LEAST or bool(tally.faults))
    tally.recording, tally.stopping = False, True
    took = time.perf_counter() - began
    cpu, own = cpu_of(pids) - cpu, time.process_time() - own
    count = len(tally.latencies)
    if not count:
        raise WrongAnswer(tally.faults[0] if tally.faults else "no answer in time")
    return {
        "rate": count / took,
        "p50_us": percentile(tally.latencies, 50) * 1e6,
        "p99_us": percentile(tally.latencies, 99) * 1e6,
        "server_cpu_us": cpu / count * 1e6,
        "server_share": cpu / took,
        "load_share": own / took,
        **busy.since(cpu + own, took),
    }


async def finish(callers: list[HttpCaller | StdioCaller], tally: Tally) -> None:
    """Wait for what is in flight."""
    if not await until(lambda: bool(tally.faults) or not any(caller.alive for caller in callers)):
        raise WrongAnswer(f"requests unanswered after {ENDING:.0f} s")
