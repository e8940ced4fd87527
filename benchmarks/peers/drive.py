"""What the Python peers' clients share: call, check, count, print one line of JSON. It knows no SDK.

Each of them is ``CLIENT.py TRANSPORT TARGET LENGTH``: TRANSPORT ``http`` (TARGET a URL), ``stdio`` (a command line as a
JSON list) or ``mem`` (ignored: a server of the peer's own); LENGTH so many calls, or seconds, as in ``0.5s``.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from collections.abc import Awaitable, Callable, Iterator

__all__ = ["drive", "numbers"]

WARM_UP = "50"
IN_FLIGHT = 32


def numbers(length: str) -> Iterator[int]:
    """Count the calls of a measurement of this length."""
    if not length.endswith("s"):
        yield from range(int(length))
        return
    number, end = 0, time.perf_counter() + float(length[:-1])
    while time.perf_counter() < end:
        yield number
        number += 1


def cpu() -> float:
    """Return the seconds of CPU this process has used."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def measure(call: Callable[[str], Awaitable[str]], length: str, workers: int) -> tuple[float, float]:
    """Make the calls; return calls a second and microseconds of CPU for each."""
    remaining, done = numbers(length), 0

    async def work() -> None:
        nonlocal done
        for number in remaining:
            text = f"hello {number}"
            if (got := await call(text)) != text:
                sys.exit(f"wrong answer: {got!r} for {text!r}")
            done += 1

    used, began = cpu(), time.perf_counter()
    await (work() if workers == 1 else asyncio.gather(*(work() for _ in range(workers))))
    return done / (time.perf_counter() - began), (cpu() - used) / done * 1e6


async def drive(call: Callable[[str], Awaitable[str]], began: float, version: str) -> None:
    """Measure ``echo`` through an open client and print the figures; ``began`` is when it started to connect."""
    connected = time.perf_counter() - began
    await measure(call, WARM_UP, 1)
    sequential, cpu_sequential = await measure(call, sys.argv[-1], 1)
    concurrent, cpu_concurrent = await measure(call, sys.argv[-1], IN_FLIGHT)
    line = {
        "seq": sequential,
        "conc32": concurrent,
        "connect_ms": connected * 1e3,
        "cpu_us_seq": cpu_sequential,
        "cpu_us_conc": cpu_concurrent,
        "version": version,
    }
    print(json.dumps(line), flush=True)
