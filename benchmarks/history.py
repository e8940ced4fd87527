"""How long looking takes: every view of the page, the commands and the exports, over an audit of RECORDS records.

    python benchmarks/history.py [RECORDS]

Prints a table: the median and the longest of ten times of each view, over HTTP, while nothing is gathered and after
that; the time of each command, in a process of its own; and records a second of each export.
Targets: 300 ms a view, 20,000 records a second, at 100,000 records; 2 s a view at a million.
"""

from __future__ import annotations

import asyncio
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

from antiphon.host import Store, open_store
from antiphon.host.review.definitions import ShownServer
from antiphon.host.store.base import Change, ReviewRow
from antiphon.host.store.chain import Record, Step
from antiphon.web.page_server import RunningPage, running_page

RECORDS = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
TURNS = 10
STEPS: tuple[Step, ...] = ("received", "policy", "review", "generate", "settled")
SERVERS = 12
MODELS = ("small", "large", "home")
HEADING = f"""| over {RECORDS:,} records | median ms | longest ms |
|---|---:|---:|"""
FIRST = {
    "Queue, while nothing is gathered": "/",
    "Spending, while nothing is gathered": "/spending",
    "Servers, while nothing is gathered": "/servers",
    "History, while nothing is gathered": "/history",
}
VIEWS = {
    "Queue": "/",
    "One request": "/review/benchmark",
    "History, first page": "/history",
    "History, searched for a word": "/history?q=pump",
    "History, searched for what is not there": "/history?q=nothing+of+this",
    "History, one server, refused": "/history?ending=refused&server=command%3A003",
    "History, an old page": f"/history?before={RECORDS // 2}",
    "History, one ask": f"/history/{6 * (RECORDS // 12) + 1}",
    "Spending": "/spending",
    "Grants": "/grants",
    "Servers": "/servers",
}
COMMANDS = (
    ("audit", "spend"),
    ("audit", "list"),
    ("audit", "list", "--outcome", "user"),
    ("audit", "list", "--outcome", "nowhere"),
    ("audit", "list", "--step", "withdrawn"),
    ("audit", "list", "--since", "2099-01-01"),
    ("audit", "list", "--server", "command:003", "--step", "refused"),
    ("audit", "list", "--call", "call-7"),
    ("audit", "show", "7"),
    ("audit", "verify"),
    ("review", "list"),
)


class _Behind:
    """The servers of a gateway, as the page shows them."""

    upstreams = tuple(
        ShownServer(name=f"s{n}", identity=f"command:{n:03d}", target=f"shop {n}", state="stopped", since=0.0)
        for n in range(SERVERS)
    )

    async def switch_tool(self, identity: str, tool: str, *, on: bool, by: str | None) -> None:
        """Do nothing: no tool is shown."""


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


async def measure_views(client: httpx.AsyncClient, views: dict[str, str]) -> None:
    """Print a row for each view."""
    for name, path in views.items():
        taken = [(await timed(client, path))[0] for _ in range(TURNS)]
        print(f"| {name} | {statistics.median(taken):.0f} | {max(taken):.0f} |", flush=True)


def measure_commands(path: Path) -> None:
    """Print a row for each command, which starts Python each time."""
    print("\n| command | seconds |\n|---|---:|")
    for words in COMMANDS:
        start = time.perf_counter()
        command = [sys.executable, "-m", "antiphon", *words, "--store", str(path)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        print(f"| antiphon {' '.join(words)} | {time.perf_counter() - start:.1f} |", flush=True)


async def measure(running: RunningPage, client: httpx.AsyncClient) -> None:
    """Print the table."""
    await client.get(running.address(), follow_redirects=True)
    print(HEADING)
    await measure_views(client, FIRST)
    start = time.perf_counter()
    while "data-behind" in (await client.get("/history")).text:
        pass
    print(f"| ... until all is gathered, in the background | {(time.perf_counter() - start) * 1000:.0f} | |")
    await measure_views(client, VIEWS)
    print("\n| export | records/s | MB |\n|---|---:|---:|")
    for name in ("audit.jsonl", "audit.csv"):
        taken_ms, size = await timed(client, f"/history/{name}")
        print(f"| {name} | {RECORDS / taken_ms * 1000:,.0f} | {size / 1e6:.0f} |")


async def main() -> None:
    """Fill a store, serve the page, and measure."""
    print(f"{os.cpu_count()} cores, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}\n")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "host.db"
        store = open_store(path)
        await fill(store)
        await store.put_review(
            ReviewRow(
                id="benchmark",
                kind="request",
                fingerprint="",
                group="",
                identity="",
                created=0,
                expires=None,
                host=None,
            )
        )
        async with (
            running_page(store, servers=_Behind()) as running,
            httpx.AsyncClient(base_url=running.origin, timeout=60, transport=_Here()) as client,
        ):
            await measure(running, client)
        await store.aclose()
        measure_commands(path)


if __name__ == "__main__":
    asyncio.run(main())
