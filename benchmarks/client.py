"""The client that is measured: ``client.py TRANSPORT TARGET LENGTH`` prints one line of JSON.

TRANSPORT is ``stdio`` (TARGET: a command line as a JSON list), ``http`` (TARGET: a URL) or ``mem`` (TARGET is ignored:
a server of our own).
LENGTH is so many calls of ``echo``, or seconds, as in ``0.5s``: first one at a time, then 32 in flight. In the line:
calls a second (``seq``, ``conc32``), microseconds of CPU for each call (``cpu_us_seq``, ``cpu_us_conc``),
``connect_ms``, and the agreed ``version``.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from collections.abc import Iterator

from antiphon import Client, Server

WARM_UP = "50"
IN_FLIGHT = 32


def server() -> Server:
    """Make the server for ``mem``."""
    made = Server("mem", tool_rate=None)

    @made.tool(structured=False)
    async def echo(text: str) -> str:
        """Echo the text back."""
        return text

    return made


def cpu() -> float:
    """Return the seconds of CPU this process has used."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def numbers(length: str) -> Iterator[int]:
    """Count the calls of a measurement of this length."""
    if not length.endswith("s"):
        yield from range(int(length))
        return
    number, end = 0, time.perf_counter() + float(length[:-1])
    while time.perf_counter() < end:
        yield number
        number += 1


async def measure(client: Client, length: str, workers: int) -> tuple[float, float]:
    """Make the calls; return calls a second and microseconds of CPU for each."""
    remaining, done = numbers(length), 0

    async def work() -> None:
        nonlocal done
        for number in remaining:
            text = f"hello {number}"
            result = await client.call_tool("echo", {"text": text})
            if result.content[0].text != text:
                sys.exit(f"wrong answer: {result}")
            done += 1

    used, began = cpu(), time.perf_counter()
    await (work() if workers == 1 else asyncio.gather(*(work() for _ in range(workers))))
    return done / (time.perf_counter() - began), (cpu() - used) / done * 1e6


async def main(transport: str, target: str, length: str) -> None:
    """Connect, warm up, measure, print."""
    if transport not in ("stdio", "http", "mem"):
        sys.exit("usage: client.py stdio | http | mem  TARGET  LENGTH")
    where = {"mem": server, "http": lambda: target, "stdio": lambda: json.loads(target)}[transport]()
    began = time.perf_counter()
    async with Client(where) as client:
        connected = time.perf_counter() - began
        await measure(client, WARM_UP, 1)
        sequential, cpu_sequential = await measure(client, length, 1)
        concurrent, cpu_concurrent = await measure(client, length, IN_FLIGHT)
        line = {
            "seq": sequential,
            "conc32": concurrent,
            "connect_ms": connected * 1e3,
            "cpu_us_seq": cpu_sequential,
            "cpu_us_conc": cpu_concurrent,
            "version": client.revision,
        }
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: client.py stdio | http | mem  TARGET  LENGTH")
    import uvloop

    uvloop.run(main(sys.argv[1], sys.argv[2], sys.argv[3]))
