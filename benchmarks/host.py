"""What a host adds to a request: policy, limits, selection, budget and audit in a SQLite file; no person, no model.

    python benchmarks/host.py [REQUESTS [RECORDS]] > benchmarks/RESULTS-host.md

Prints a table: for an audit that is empty and for longer ones, up to RECORDS records, the median and the 99th
percentile of one request after the other, requests a second for 32 at once (the median of three runs), and how long
checking the chain takes. Targets: 2 ms, 500 requests a second, no line much worse than the first.
"""

from __future__ import annotations

import asyncio
import os
import platform
import statistics
import sys
import time
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

from antiphon.host import Budget, Host, Limits, Policy, Store, open_store
from antiphon.host.model_catalogue import Model, ModelCatalogue, ModelPrice, Tier
from antiphon.host.models.models import Models
from antiphon.host.store.base import Change
from antiphon.host.store.chain import Record
from antiphon.wire.content import TextContent
from antiphon.wire.origin import Origin, OriginCall, identify_target
from antiphon.wire.sampling import CreateMessageRequestParams, ModelHint, ModelPreferences, SamplingMessage

REQUESTS = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000
RECORDS = int(sys.argv[2]) if len(sys.argv) > 2 else 100_000
NO_LIMITS = Limits(per_minute=None, concurrent=None, per_call=None, concurrent_per_call=None)
PARAMS = CreateMessageRequestParams(
    messages=[SamplingMessage(role="user", content=TextContent(text="Describe a warm sweater. " * 40))],
    system_prompt="You write for a shop.",
    max_tokens=300,
    model_preferences=ModelPreferences(
        hints=[ModelHint(name="none-of-ours")], cost_priority=0.3, speed_priority=0.8, intelligence_priority=0.5
    ),
)
MODELS = 5
HEADING = f"""# What a host adds to a request

Policy, limits, selection among {MODELS} priced models, four budgets, and every step in the audit, in a SQLite file. No
person, no model behind it, nothing on a network; `python benchmarks/host.py` on {os.cpu_count()} cores, Python
{platform.python_version()}, {REQUESTS:,} requests a figure. Wanted: a median of at most 2 ms and at least 500 requests
a second, whatever the length of the audit. On a machine that has other work as well, CPU time is the figure to compare;
when this was begun, {os.getloadavg()[0]:.1f} processes wanted a core.

| records before | median ms | p99 ms | req/s, 32 at once | CPU ms of each | check, us a record |
|---:|---:|---:|---:|---:|---:|"""


def provider() -> Models:
    """Make five models with prices, all of which echo."""
    models = (
        Model(
            name=f"model-{number}",
            provider="echo",
            model="echo",
            context=100_000,
            price=ModelPrice(input=Decimal(number), output=Decimal(5 * number)),
            speed=cast("Tier", number),
            intelligence=cast("Tier", 6 - number),
        )
        for number in range(1, MODELS + 1)
    )
    return Models(ModelCatalogue(tuple(models)), {})


def origin(number: int) -> Origin:
    """Say who asks: one server, a call for every ten requests."""
    call = OriginCall(id=f"call-{number // 10}", method="tools/call", name="describe", arguments={"sku": number})
    return Origin(id=str(number), identity=identify_target(["python", "shop.py"]), target="python shop.py", call=call)


async def one_by_one(host: Host, first: int) -> list[float]:
    """Time each of the requests."""
    taken: list[float] = []
    for number in range(first, first + REQUESTS):
        start = time.perf_counter()
        await host(PARAMS, origin(number))
        taken.append(time.perf_counter() - start)
    return taken


async def at_once(host: Host, first: int, width: int = 32) -> float:
    """Return requests a second for so many at once."""
    numbers = iter(range(first, first + REQUESTS))

    async def work() -> None:
        for number in numbers:
            await host(PARAMS, origin(number))

    start = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(width)))
    return REQUESTS / (time.perf_counter() - start)


async def fill(store: Store, records: int) -> None:
    """Make the audit so long at least."""
    row = Record(at=1.0, ask="old", identity="command:old", method="sampling/createMessage", step="received")
    while (missing := records - (await store.head()).seq) > 0:
        await store.commit(Change(records=(row,) * min(missing, 5_000)))


async def measure(host: Host, first: int) -> str:
    """Return one line of the table."""
    records = (await host.store.head()).seq
    taken = await one_by_one(host, first)
    used = time.process_time()
    rates = [await at_once(host, first + (1 + turn) * REQUESTS) for turn in range(3)]
    used = (time.process_time() - used) / (3 * REQUESTS) * 1000
    start = time.perf_counter()
    proof = await host.audit.verify()
    checked = (time.perf_counter() - start) / proof.records * 1e6
    median, late = statistics.median(taken) * 1000, statistics.quantiles(taken, n=100)[98] * 1000
    fault = "" if proof.whole else f" {proof.fault}"
    rate = statistics.median(rates)
    return f"| {records:>9,} | {median:9.2f} | {late:6.2f} | {rate:10.0f} | {used:8.2f} | {checked:8.1f}{fault} |"


async def main() -> None:
    """Measure an empty store, and fuller ones."""
    print(HEADING)
    with TemporaryDirectory() as folder:
        store = open_store(Path(folder) / "host.db")
        host = Host(
            provider(), reviewer=None, policy=Policy(default="allow"), store=store, limits=NO_LIMITS, budget=Budget()
        )
        await host(PARAMS, origin(0))
        for turn, records in enumerate((0, RECORDS // 2, RECORDS)):
            await fill(store, records)
            print(await measure(host, 1 + turn * 1_000_000), flush=True)
        await store.aclose()


if __name__ == "__main__":
    asyncio.run(main())
