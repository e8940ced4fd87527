"""The page of results: ratios first, then the figures. It computes nothing that ``targets.py`` does not."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.figures import Spread, pairs, spread
from benchmarks.peers.catalogue import CLIENTS, EARLIER, OURS, SERVERS
from benchmarks.quiet import QUIET, STEADY, is_disturbed, others_share
from benchmarks.results import Results
from benchmarks.targets import CPU, SATURATED, TARGETS, Target
from benchmarks.workloads.clients import TRANSPORTS
from benchmarks.workloads.wire import WORKLOADS

__all__ = ["change", "render"]

TYPESCRIPT = ("ts1", "ts2")
COSTS = {
    "load_ms": ("import", "ms"),
    "first_reply_ms": ("spawn to the first reply on stdio", "ms"),
    "first_call_ms": ("spawn to the first call answered on stdio", "ms"),
    "memory_mb": ("memory after the start (stdio)", "MB"),
}
SESSION_COSTS = {
    "http_memory_mb": ("memory after the start (HTTP)", "MB"),
    "session_kb": ("memory of an idle HTTP session", "KB"),
}
MARK = " †"
WORSE = 1.1
"""From which ratio on something is called worse than it was."""
NOTE = f"""\
Every answer was checked; one wrong answer takes its peer out of the row and fails the run. Peers were measured back to
back in each round, in turns; a ratio is the median of the rounds' ratios, with the least and the most in brackets.
**Ratios are by the clock** (answers a second, milliseconds, bytes), as the targets are. *By CPU* is the processor time
of the server for each answer (of the client, in the client rows), theirs divided by ours: the load runs on one core and
the server on another, so where the clock says less than the CPU, the load or the machine held us back. A dagger marks
where the load used more than {SATURATED:.0%} of its core: it, and not the server, may be what bounds that rate.
What each row measures, and what bounds it: [speed](../docs/design/speed.md)."""


def render(results: Results) -> str:
    """Write the page, in Markdown."""
    parts = [
        "# Results",
        machine(results),
        NOTE,
        *failures(results),
        "## Targets",
        targets(results, [target for target in TARGETS if not target.under]),
        "## Growth",
        "Our own processor time for a call, divided by that of a smaller case.",
        targets(results, [target for target in TARGETS if target.under]),
        "## Beside the TypeScript SDKs",
        "How many times as many answers a second; of costs, which share. Behind is marked.",
        typescript(results),
        "## Beside everybody",
        "How many times as many answers a second as each of them gives.",
        everybody(results),
        "## What a start and a session cost",
        costs(results),
        "## Figures",
        "Medians. Compare only within this page: machines differ, and hours.",
        *figures(results),
        "## Elsewhere",
        "What a host adds to a request (policy, limits, budget, audit) measures [host.py](host.py).",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def machine(results: Results) -> str:
    """Name the machine and the versions, in general terms."""
    about = results.machine
    measured = [
        figures
        for rounds in results.rounds.values()
        for turn in rounds
        for figures in turn.values()
        if "slowed" in figures
    ]
    busy, slowed = (
        spread(others_share(found) or 0.0 for found in measured),
        spread(found["slowed"] for found in measured),
    )
    named = ", ".join([about["processor"], f"{about['cores']} cores", about["memory"], about["system"]])
    node = f", Node {about['node'].removeprefix('v')}" if about.get("node") else ""
    when = f"{about['date']}, {results.form} form, {results.minutes:.0f} minutes"
    lines = [
        f"{named}, Python {about['python']}{node}; {when}.",
        "Peers: " + ", ".join(sorted({version for version in results.versions.values() if version})) + ".",
    ]
    if busy is not None and slowed is not None:
        repeated, left = sum(found["tries"] > 1 for found in measured), sum(map(is_disturbed, measured))
        lines.append(
            f"Other work took {busy.median:.0%} of the machine meanwhile (at most {busy.most:.0%}), and the same loop "
            f"took {slowed.median:.0%} more processor time than at best (at most {slowed.most:.0%}). Beyond "
            f"{QUIET:.0%} and {STEADY:.0%} a measurement was repeated: {repeated} of {len(measured)} were, and {left} "
            "stayed disturbed."
        )
        if left > len(measured) / 4:
            lines.append("**Too much to trust a single row: measure again on a quiet machine.**")
    return "\n".join(lines)


def failures(results: Results) -> list[str]:
    """Say who is missing, and who answered wrongly."""
    lines = [f"* Not measured: {title(name)} ({why})." for name, why in sorted(results.missing.items())]
    seen: set[tuple[str, str]] = set()
    for fault in results.faults:
        if (fault.peer, fault.workload) not in seen:
            seen.add((fault.peer, fault.workload))
            lines.append(f"* **Wrong or no answer**: {title(fault.peer)} in `{fault.workload}`.")
    return ["## What is missing", "\n".join(lines)] if lines else []


def title(name: str) -> str:
    """Name a peer."""
    return {**CLIENTS, **SERVERS}[name].title


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lay out a table; the first column is text."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def number(value: float) -> str:
    """Show a ratio with two or three digits."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def shown(found: Spread | None, *, mark: bool = False) -> str:
    """Show a ratio and its spread."""
    if found is None:
        return ""
    return f"{number(found.median)} ({number(found.least)} to {number(found.most)}){MARK if mark else ''}"


def targets(results: Results, which: Sequence[Target]) -> str:
    """Set what was measured beside what must be."""
    rows = [target_row(results, target) for target in which if target.workload in results.rounds]
    met = sum(row[-1] == "met" for row in rows)
    head = ["workload", "against", "target", "measured (spread)", "by CPU", ""]
    return f"{met} of {len(rows)} met.\n\n" + table(head, rows)


def target_row(results: Results, target: Target) -> list[str]:
    """Show one target."""
    by_cpu = target.by_cpu(results)
    return [
        target.row,
        "a smaller case" if target.under else title(target.other),
        target.bound(),
        shown(target.measured(results), mark=target.bounded_by_load(results)),
        number(by_cpu.median) if by_cpu else "",
        target.verdict(results),
    ]


def comparable(*, growth: bool = False) -> list[tuple[str, str, str, bool]]:
    """List what can be compared with anybody: a title, a workload, a figure, and whether less is better.

    ``growth``: also the rows in which only we are measured.
    """
    found = [(each.title, each.key, "rate", False) for each in WORKLOADS if growth or not each.growth]
    for transport, words in TRANSPORTS.items():
        found.append((f"{words}, sequential", f"client-{transport}", "seq", False))
        found.append((f"{words}, 32 at once", f"client-{transport}", "conc32", False))
    found += [(words, "start", figure, True) for figure, (words, _) in COSTS.items()]
    found += [(words, "sessions", figure, True) for figure, (words, _) in SESSION_COSTS.items()]
    return found


def typescript(results: Results) -> str:
    """Say on which rows we are ahead of the TypeScript SDKs."""
    rows: list[list[str]] = []
    for words, workload, figure, less in comparable():
        cells = [words]
        for peer in TYPESCRIPT:
            rounds = results.of(workload)
            found = spread(pairs(rounds, rounds, OURS, peer, figure))
            behind = found is not None and (found.median > 1 if less else found.median < 1)
            cells.append(f"{shown(found)}{' **behind**' if behind else ''}")
        if any(cells[1:]):
            rows.append(cells)
    if not rows:
        return "Not measured."
    measured = [cell for row in rows for cell in row[1:] if cell]
    ahead = sum("**" not in cell for cell in measured)
    return f"Ahead in {ahead} of {len(measured)}.\n\n" + table(["workload", *map(title, TYPESCRIPT)], rows)


def change(results: Results) -> str:
    """Compare us with another checkout of ours, row by row: what we are now divided by what we were."""
    rows: list[list[str]] = []
    for words, workload, figure, less in comparable(growth=True):
        rounds = results.of(workload)
        found = spread(pairs(rounds, rounds, OURS, EARLIER, figure))
        if found is not None:
            cpu = spread(pairs(rounds, rounds, OURS, EARLIER, CPU[figure])) if figure in CPU else None
            worse = found.median > WORSE if less else found.median < 1 / WORSE
            rows.append([words, f"{shown(found)}{' **worse**' if worse else ''}", number(cpu.median) if cpu else ""])
    return table(["workload", "now / before", "CPU, now / before"], rows)


def everybody(results: Results) -> str:
    """Compare with each peer and limit, on all that is counted by the second."""
    names = [name for name in SERVERS if name != OURS]
    rows: list[list[str]] = []
    for words, workload, figure, less in comparable():
        rounds = results.of(workload)
        cells = [spread(pairs(rounds, rounds, OURS, name, figure)) for name in names]
        if not less and any(cells):
            rows.append([words, *(number(cell.median) if cell else "" for cell in cells)])
    used = [column for column, _ in enumerate(names, 1) if any(row[column] for row in rows)]
    head = ["workload", *(title(names[column - 1]) for column in used)]
    if not rows:
        return "Not measured."
    return table(head, [[row[0], *(row[column] for column in used)] for row in rows])


def costs(results: Results) -> str:
    """Show what starts and sessions cost everybody."""
    names = [name for name in SERVERS if any(results.values("start", name, figure) for figure in COSTS)]
    if not names:
        return "Not measured."
    rows: list[list[str]] = []
    for workload, which in (("start", COSTS), ("sessions", SESSION_COSTS)):
        for figure, (words, unit) in which.items():
            cells = [spread(results.values(workload, name, figure)) for name in names]
            rows.append([words, *(f"{number(cell.median)} {unit}" if cell else "" for cell in cells)])
    return table(["", *map(title, names)], rows)


def figures(results: Results) -> list[str]:
    """Show the figures of each workload, one table each."""
    found: list[str] = []
    for workload in WORKLOADS:
        rows = [wire_row(results, workload.key, name) for name in SERVERS if results.values(workload.key, name, "rate")]
        if rows:
            head = ["", "answers/s", "p50, us", "p99, us", "server CPU, us", "server's core", "load's core"]
            found += [f"### {workload.title}", table(head, rows)]
    for transport, words in TRANSPORTS.items():
        key = f"client-{transport}"
        rows = [client_row(results, key, name) for name in CLIENTS if results.values(key, name, "seq")]
        if rows:
            head = [
                "",
                "one at a time, calls/s",
                "32 at once, calls/s",
                "CPU of one, us",
                "CPU of 32, us",
                "connect, ms",
            ]
            found += [f"### {words[0].upper()}{words[1:]}", table(head, rows)]
    return found


def median(results: Results, workload: str, peer: str, figure: str) -> float:
    """Return the median of a figure, 0 without any."""
    found = spread(results.values(workload, peer, figure))
    return found.median if found else 0.0


def wire_row(results: Results, workload: str, peer: str) -> list[str]:
    """Show one server's figures."""
    values = [median(results, workload, peer, name) for name in ("rate", "p50_us", "p99_us", CPU["rate"])]
    shares = [median(results, workload, peer, name) for name in ("server_share", "load_share")]
    marks = ["", MARK if shares[1] > SATURATED else ""]
    cells = [f"{share:.0%}{mark}" for share, mark in zip(shares, marks, strict=True)]
    return [title(peer), *(f"{value:,.0f}" for value in values), *cells]


def client_row(results: Results, workload: str, peer: str) -> list[str]:
    """Show one client's figures."""
    names = ("seq", "conc32", CPU["seq"], CPU["conc32"], "connect_ms")
    return [CLIENTS[peer].title, *(f"{median(results, workload, peer, name):,.0f}" for name in names)]
