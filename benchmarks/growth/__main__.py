"""Prints what growth needs: predictions beside what was measured, utilisation and latency, and the arithmetic.

    python -m benchmarks.growth [--engine Redis] [--costs FILE]

The tables are those of docs/topics/growth.md. Nothing is measured here: ``benchmarks.growth.costs`` does that.
"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.growth.simulation import Costs, Outcome, Plan, simulate

WORK = 0.7
"""Utilisation at which replicas and engine are planned: above it waiting times grow fast."""
CALLS = 10_000
SESSIONS = 1_000_000
RENEWED = 900.0
"""Seconds after which the record of a session is stored again: half of the idle timeout."""
RECORD = 0.4
"""Kilobytes of a session in the engine, and of one in its replica (benchmarks/RESULTS-cluster.md)."""
SESSION = 5.7
HANDLER = 1.0
"""Milliseconds of processor time of a handler that does something."""


def table(head: str, rows: list[list[str]]) -> None:
    """Print a table; the first column is text."""
    names = head.split("|")
    print(f"\n| {' | '.join(names)} |\n|---|{'---:|' * (len(names) - 1)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")


def figures(found: Outcome) -> list[str]:
    """Return the columns that most tables have."""
    return [
        f"{found.rate:,.0f}",
        f"{found.median:.1f}",
        f"{found.p99:.1f}",
        f"{found.replica:.0%}",
        f"{found.engine:.0%}",
    ]


def check(costs: Costs, measured: dict[str, Any]) -> None:
    """Print what is predicted for three replicas on one processor, beside what was measured there."""
    turns = measured["turns"]
    found = simulate(Plan(replicas=3, calls=16, closed=True, one_processor=True, seconds=20, sessions=48), costs)
    rows = [
        [name, f"{predicted:,.1f}", f"{real:,.1f}", f"{predicted / real - 1:+.0%}"]
        for name, predicted, real in (
            ("calls a second", found.rate, turns["rate"]),
            ("median, ms", found.median, turns["median"]),
            ("p99, ms", found.p99, turns["p99"]),
        )
    ]
    table("three replicas and the engine on one processor, 16 callers, any replica|predicted|measured|apart", rows)


def grown(costs: Costs, engines: int, handler: float) -> None:
    """Print how utilisation and latency change as replicas are added for the same calls."""
    costs = costs._replace(home=costs.home + handler, away=costs.away + handler)
    for affinity in (0.0, 0.9):
        rows: list[list[str]] = []
        need = CALLS * ((1 - affinity) * (costs.arrival + costs.away) + affinity * costs.home) / 1000
        for factor in (0.9, 1.1, 1.4, 2.0):
            count = max(2, math.ceil(need * factor))
            plan = Plan(replicas=count, calls=CALLS, seconds=3, affinity=affinity, engines=engines)
            found = simulate(plan, costs)
            rows.append([str(count), *figures(found)])
        where = "any replica" if not affinity else f"{affinity:.0%} at home"
        table(f"replicas ({where})|calls/s|median ms|p99 ms|replicas busy|engine busy", rows)


def watched(costs: Costs, engines: int) -> None:
    """Print what asking after replicas costs the engine as there are more of them, with open streams between all."""
    rows: list[list[str]] = []
    for count in (10, 30, 100, 200):
        for calls in (0, CALLS):
            # Long enough for what is random to even out, and short enough to wait for.
            plan = Plan(replicas=count, calls=calls, seconds=2, affinity=0.9, streams=True, engines=engines)
            found = simulate(plan, costs)
            rows.append([str(count), f"{calls:,}", f"{found.asked / 2:,.0f}", f"{found.engine:.0%}"])
    table("replicas|calls/s, 90 % at home|questions/s|engine busy", rows)


def faults(costs: Costs, count: int, engines: int) -> None:
    """Print what deaths, and records that all replicas store at the same time, do to calls."""
    base = Plan(replicas=count, calls=CALLS, seconds=5, affinity=0.9, engines=engines)
    plans = {
        "nothing happens": base,
        "one replica dies": replace(base, deaths=((2.0, 0),)),
        "a tenth of them die": replace(base, deaths=tuple((2.0, each) for each in range(count // 10))),
        "all store their sessions at once": replace(base, renewals=SESSIONS // count),
        "a tenth of the clients open a session within a second": replace(base, openings=SESSIONS // 10),
    }
    rows: list[list[str]] = []
    for name, plan in plans.items():
        found = simulate(plan, costs)
        rows.append([name, *figures(found), f"{found.failed:,}", f"{found.restored:,}"])
    table(f"{count} replicas, 90% at home|calls/s|median ms|p99 ms|replicas busy|engine busy|failed|restored", rows)


def paper(costs: Costs, measured: dict[str, Any], processors: int) -> None:
    """Print the arithmetic."""
    rows: list[list[str]] = []
    for name, affinity in (("any replica", 0.0), ("90 % at home", 0.9), ("99 % at home", 0.99)):
        away = 1 - affinity
        replica = CALLS * (affinity * costs.home + away * (costs.arrival + costs.away)) / 1000
        worked = replica + CALLS * HANDLER / 1000
        engine = CALLS * away * (costs.lookup + 2 * costs.message) / 1000 + SESSIONS / RENEWED * costs.store / 1000
        rows.append(
            [
                name,
                f"{math.ceil(replica / WORK)}",
                f"{math.ceil(worked / WORK)}",
                f"{engine / processors:.1%}",
                f"{CALLS * away * measured['commands']:,.0f}" if measured["commands"] else "",
                f"{CALLS * away * costs.relay_bytes * 8 / 1e6:,.0f}" if costs.relay_bytes else "",
            ]
        )
    head = f"{CALLS:,} calls/s|replicas, echoes|with {HANDLER:g} ms of work"
    table(f"{head}|engine, of {processors} processors|commands/s|Mbit/s", rows)
    stored = SESSIONS / RENEWED
    print(
        f"\n{SESSIONS:,} sessions: {SESSIONS * SESSION / 1e6:.1f} GB in the replicas, {SESSIONS * RECORD / 1e6:.1f} GB "
        f"in the engine, {stored:,.0f} records stored again a second ({stored * costs.store / 10:.1f} % of a "
        f"processor); to restore those of one of 100 replicas: {SESSIONS / 100 * costs.restore / 1000:.1f} s of that"
    )


def main() -> None:
    """Read the command line and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", default="Redis")
    parser.add_argument("--processors", type=int, default=0)
    parser.add_argument("--costs", type=Path, default=Path(__file__).with_name("costs.json"))
    options = parser.parse_args()
    measured = json.loads(options.costs.read_text(encoding="utf-8"))[options.engine]
    costs = Costs(**measured["costs"])
    processors = options.processors or (1 if options.engine == "Redis" else 8)
    print(f"## {options.engine}")
    print("\n" + ", ".join(f"{name} {value:.3f}" for name, value in measured["costs"].items()))
    check(costs, measured)
    paper(costs, measured, processors)
    grown(costs, processors, HANDLER)
    watched(costs, processors)
    faults(costs, 30, processors)


if __name__ == "__main__":
    main()
