"""How long looking at the past takes: every view of the page, and the exports, over an audit of RECORDS records.

    python benchmarks/history.py [RECORDS]

Prints a table: the median and the longest of ten times of each view, over HTTP, and records a second of each export.
Targets: 300 ms a view, 20,000 records a second, at 100,000 records.
"""

from __future__ import annotations

import asyncio
import os
import platform
import statistics
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

from antiphon.host import Store, open_store
from antiphon.host.store.base import Change
from antiphon.host.store.chain import Record, Step
from antiphon.web import RunningPage, running_page

RECORDS = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
TURNS = 10
STEPS: tuple[Step, ...] = ("received", "policy", "review", "generate", "settled")
SERVERS = 12
MODELS = ("small", "large", "home")
HEADING = f"""| over {RECORDS:,} records | median ms | longest ms |
|---|---:|---:|"""
VIEWS = {
    "History, first page": "/history",
    "History, searched for a word": "/history?q=pump",
    "History, searched for what is not there": "/history?q=nothing+of+this",
    "History, one server, refused": "/history?ending=refused&server=command%3A003",
    "History, an old page": f"/history?before={RECORDS // 2}",
    "History, one ask": f"/history/{6 * (RECORDS // 12) + 1}",
    "Spending": "/spending",
    "Grants": "/grants",
}


class _Here(httpx.AsyncHTTPTransport):
    """Finds every name under ``localhost`` on this machine, as browsers do and not every resolver does."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request to this machine; it keeps its ``Host``."""
        # Another request: cookies are kept by the name that this one asks for.
        url = request.url.copy_with(host="127.0.0.1")
        here = httpx.Request(
            request.method, url, headers=request.headers, stream=request.stream, extensions=request.extensions
        )
        return await super().handle_async_request(here)


def records(number: int) -> list[Record]:
    """Make the records of one ask."""
    at, server = 1_790_000_000.0 + 90 * number, number % SERVERS
    made: list[Record] = []
    ends: tuple[Step, str] = ("answered", "") if number % 9 else ("refused", "user")
    outcomes = {"policy": "ask", "review": "approve" if number % 9 else "deny"}
    steps = [*((step, outcomes.get(step, "")) for step in STEPS), ends]
    for turn, (step, outcome) in enumerate(steps):
        settled = step == "settled"
        made.append(
            Record(
                at=at + turn,
                ask=str(number),
                identity=f"command:{server:03d}",
                method="sampling/createMessage",
                step=step,
                outcome=outcome,
                digest="0" * 64,
                host="0123456789ab-89abcdef-1234",
                call=f"call-{number // 3}",
                server=f"python -m shop.server{server}" if step == "received" else None,
                tool=("describe", "order_pump", "summarize")[number % 3] if step == "received" else None,
                model=MODELS[number % 3] if settled else None,
                input_tokens=120 + number % 700 if settled else None,
                output_tokens=80 + number % 300 if settled else None,
                money=1_234_567 + number if settled else None,
                by="Ada" if step == "review" else None,
            )
        )
    return made


async def fill(store: Store) -> None:
    """Write the audit, a few thousand records at once."""
    asks = RECORDS // (len(STEPS) + 1) + 1
    for first in range(0, asks, 1_000):
        some = [record for number in range(first, min(asks, first + 1_000)) for record in records(number)]
        await store.commit(Change(records=tuple(some)))


async def timed(client: httpx.AsyncClient, path: str) -> tuple[float, int]:
    """Return the milliseconds of one answer, and its size."""
    start = time.perf_counter()
    async with client.stream("GET", path) as answer:
        answer.raise_for_status()
        size = sum([len(chunk) async for chunk in answer.aiter_bytes()])
    return (time.perf_counter() - start) * 1000, size


async def measure(running: RunningPage, client: httpx.AsyncClient) -> None:
    """Print the table."""
    await client.get(running.address(), follow_redirects=True)
    print(HEADING)
    first, _ = await timed(client, "/history")
    print(f"| History for the first time, nothing gathered yet | {first:.0f} | |", flush=True)
    start = time.perf_counter()
    while "data-behind" in (await client.get("/history")).text:
        pass
    print(f"| ... until all is gathered, in the background | {(time.perf_counter() - start) * 1000:.0f} | |")
    for name, path in VIEWS.items():
        taken = [(await timed(client, path))[0] for _ in range(TURNS)]
        print(f"| {name} | {statistics.median(taken):.0f} | {max(taken):.0f} |", flush=True)
    print("\n| export | records/s | MB |\n|---|---:|---:|")
    for name in ("audit.jsonl", "audit.csv"):
        taken_ms, size = await timed(client, f"/history/{name}")
        print(f"| {name} | {RECORDS / taken_ms * 1000:,.0f} | {size / 1e6:.0f} |")


async def main() -> None:
    """Fill a store, serve the page, and measure."""
    print(f"{os.cpu_count()} cores, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}\n")
    with TemporaryDirectory() as folder:
        store = open_store(Path(folder) / "host.db")
        await fill(store)
        async with (
            running_page(store) as running,
            httpx.AsyncClient(base_url=running.origin, timeout=60, transport=_Here()) as client,
        ):
            await measure(running, client)
        await store.aclose()


if __name__ == "__main__":
    asyncio.run(main())
