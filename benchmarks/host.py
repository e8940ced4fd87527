"""What a host adds to a request: policy, limits, selection, budget and audit in a SQLite file; no person, no model.

    python benchmarks/host.py [REQUESTS [RECORDS]]

Prints the median and the 99th percentile of one request after the other, requests a second for 32 at once, the same
again when the audit has RECORDS records, and how long checking them takes. Targets: 2 ms, 500 requests a second.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

from antiphon.host import Budget, Host, Limits, Policy, Store, open_store
from antiphon.host.catalogue import Catalogue, Model, Price, Tier
from antiphon.host.chain import Record
from antiphon.host.models import Models
from antiphon.host.store.base import Change
from antiphon.wire.content import TextContent
from antiphon.wire.origin import Origin, OriginCall, identify
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


def provider() -> Models:
    """Make five models with prices, all of which echo."""
    models = (
        Model(
            name=f"model-{number}",
            provider="echo",
            model="echo",
            context=100_000,
            price=Price(input=Decimal(number), output=Decimal(5 * number)),
            speed=cast("Tier", number),
            intelligence=cast("Tier", 6 - number),
        )
        for number in range(1, MODELS + 1)
    )
    return Models(Catalogue(tuple(models)), {})


def origin(number: int) -> Origin:
    """Say who asks: one server, a call for every ten requests."""
    call = OriginCall(id=f"call-{number // 10}", method="tools/call", name="describe", arguments={"sku": number})
    return Origin(id=str(number), identity=identify(["python", "shop.py"]), target="python shop.py", call=call)


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


async def fill(store: Store) -> None:
    """Make the audit as long as it shall be."""
    row = Record(at=1.0, ask="old", identity="command:old", method="sampling/createMessage", step="received")
    while (missing := RECORDS - (await store.head()).seq) > 0:
        await store.commit(Change(records=(row,) * min(missing, 5_000)))


async def measure(host: Host, title: str, first: int) -> None:
    """Print one line of the table."""
    taken = await one_by_one(host, first)
    rate = await at_once(host, first + REQUESTS)
    median, late = statistics.median(taken) * 1000, statistics.quantiles(taken, n=100)[98] * 1000
    print(f"| {title:<22} | {median:9.2f} | {late:7.2f} | {rate:13.0f} |")


async def main() -> None:
    """Measure an empty store, and a full one."""
    with TemporaryDirectory() as folder:
        store = open_store(Path(folder) / "host.db")
        host = Host(
            provider(), reviewer=None, policy=Policy(default="allow"), store=store, limits=NO_LIMITS, budget=Budget()
        )
        await host(PARAMS, origin(0))
        print("| audit records at start | median ms | p99 ms  | requests/s 32 |")
        print("|------------------------|-----------|---------|---------------|")
        await measure(host, "none", 1)
        await fill(store)
        await measure(host, f"{(await store.head()).seq:,}", 1_000_000)
        start = time.perf_counter()
        proof = await host.audit.verify()
        print(f"\n{proof.records:,} records checked in {time.perf_counter() - start:.2f} s: {proof.fault or 'whole'}")
        await store.aclose()


if __name__ == "__main__":
    asyncio.run(main())
