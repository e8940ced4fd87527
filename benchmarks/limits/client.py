"""The limit of a client: the load itself, printing what the peers' clients print.

Run with ``python -m benchmarks.limits.client TRANSPORT TARGET LENGTH``: TRANSPORT ``http`` or ``stdio``, LENGTH like
``0.5s``.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import uvloop

from benchmarks.load.http_load import HttpCaller
from benchmarks.load.messages import LEGACY
from benchmarks.load.operations import Operation
from benchmarks.load.stdio import Pipes
from benchmarks.load.stdio_load import StdioCaller
from benchmarks.load.tally import Tally

IN_FLIGHT = 32
SETTLING = 0.05
"""Seconds in which the last answers come; the server is a fast one."""
Callers = Callable[[Tally, int], list[HttpCaller] | list[StdioCaller]]


async def measure(callers: list[HttpCaller] | list[StdioCaller], tally: Tally, seconds: float) -> tuple[float, float]:
    """Return calls a second and microseconds of CPU for each."""
    for caller in callers:
        await caller.open()
    used, began = time.process_time(), time.perf_counter()
    for caller in callers:
        caller.go()
    await asyncio.sleep(seconds)
    tally.stopping = True
    rate = tally.done / (time.perf_counter() - began)
    cost = (time.process_time() - used) / max(1, tally.done) * 1e6
    await asyncio.sleep(SETTLING)
    for caller in callers:
        await caller.close()
    if tally.faults:
        sys.exit(tally.faults[0])
    return rate, cost


def spawn(target: str) -> subprocess.Popen[bytes]:
    """Start the server."""
    return subprocess.Popen(json.loads(target), stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)


async def over_stdio(target: str) -> tuple[Callers, Callable[[], None]]:
    """Start the server; return how to make callers, and what ends it."""
    process = spawn(target)
    pipes, numbers = Pipes(process), itertools.count(1)
    await pipes.open()
    await pipes.greet(modern=False)

    def make(tally: Tally, depth: int) -> list[StdioCaller]:
        return [StdioCaller(tally, Operation("echo", modern=False), pipes, depth, numbers)]

    def end() -> None:
        pipes.close()
        process.terminate()
        process.wait()

    return make, end


async def over_http(target: str) -> tuple[Callers, Callable[[], None]]:
    """Return how to make callers; there is nothing to end."""
    port, numbers = urlsplit(target).port or 80, itertools.count(1)

    def make(tally: Tally, depth: int) -> list[HttpCaller]:
        return [HttpCaller(tally, Operation("echo", modern=False), port, numbers) for _ in range(depth)]

    return make, lambda: None


async def main(transport: str, target: str, length: str) -> None:
    """Connect, measure, print."""
    began = time.perf_counter()
    make, end = await {"http": over_http, "stdio": over_stdio}[transport](target)
    line: dict[str, float | str] = {"connect_ms": (time.perf_counter() - began) * 1e3, "version": LEGACY}
    for depth, rate, cost in ((1, "seq", "cpu_us_seq"), (IN_FLIGHT, "conc32", "cpu_us_conc")):
        tally = Tally()
        line[rate], line[cost] = await measure(make(tally, depth), tally, float(length.removesuffix("s")))
    end()
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
