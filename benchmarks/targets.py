"""What the suite must show: each row's target, and whether what was measured meets it. Nothing here measures."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.figures import Spread, pairs, spread
from benchmarks.peers.catalogue import OURS
from benchmarks.results import Results

__all__ = ["CPU", "SATURATED", "TARGETS", "Target"]

CPU = {"rate": "server_cpu_us", "seq": "cpu_us_seq", "conc32": "cpu_us_conc"}
"""Beside each figure by the clock, what it cost in processor time."""
SATURATED = 0.9
"""The share of its core from which the load itself is what limits a rate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A ratio of ours to somebody else's, and its bound."""

    row: str
    workload: str
    other: str
    figure: str = "rate"
    at_least: float | None = None
    at_most: float | None = None
    under: str = ""
    """The workload of the divisor, if it is another one."""

    def measured(self, results: Results) -> Spread | None:
        """Return the ratio, round by round; None if it was not measured."""
        over, under = results.of(self.workload), results.of(self.under or self.workload)
        return spread(pairs(over, under, OURS, self.other, self.figure))

    def by_cpu(self, results: Results) -> Spread | None:
        """Return the ratio by processor time, the same way up: theirs divided by ours."""
        figure, rounds = CPU.get(self.figure), results.of(self.workload)
        return spread(pairs(rounds, rounds, self.other, OURS, figure)) if figure and not self.under else None

    def bounded_by_load(self, results: Results) -> bool:
        """Say whether the load was busy all the time with either of the two: then rates say less than they could."""
        return self.figure == "rate" and any(
            (shares := spread(results.values(self.workload, peer, "load_share"))) is not None
            and shares.median > SATURATED
            for peer in (OURS, self.other)
        )

    def bound(self) -> str:
        """Show the bound."""
        return f">= {self.at_least:g}" if self.at_least is not None else f"<= {self.at_most:g}"

    def verdict(self, results: Results) -> str:
        """Say whether it is met, or by how much it is not."""
        found = self.measured(results)
        if found is None:
            return "not measured"
        gap = 1 - found.median / self.at_least if self.at_least else found.median / (self.at_most or 1) - 1
        return "met" if gap <= 0 else f"missed by {max(1, round(gap * 100))} %"


def bounds(row: str, workload: str, figure: str = "rate", **least: float) -> list[Target]:
    """Write one row of the table: by peer, how many times as fast we must be."""
    names = {"python2_json": "python2-json"}
    return [
        Target(row=row, workload=workload, figure=figure, other=names.get(peer, peer), at_least=bound)
        for peer, bound in least.items()
    ]


def echoes() -> list[Target]:
    """List the echo rows."""
    found: list[Target] = []
    for era, version, first, many, many_json in (
        ("legacy", "2025-11-25", 5, 20, 7),
        ("modern", "2026-07-28", 3, 10, 6),
    ):
        row = f"Streamable HTTP echo, {version}"
        for width in (16, 64):
            key = f"http-{era}-echo-{width}"
            found += bounds(f"{row}, {width} connections", key, python2=many, python2_json=many_json, uvicorn=0.65)
        found += bounds(f"{row}, 1 connection", f"http-{era}-echo-1", python2=first, uvicorn=0.8)
        row = f"stdio echo, {version}"
        found += bounds(f"{row}, 1 in flight", f"stdio-{era}-echo-1", python2=5, bare=0.75)
        found += bounds(f"{row}, 32 in flight", f"stdio-{era}-echo-32", python2=25, bare=0.3)
    return found


def large() -> list[Target]:
    """List what is long: lists, results, arguments."""
    return [
        *bounds("tools/list with 204 tools", "http-legacy-list", python2=50, uvicorn=0.5),
        *bounds("1 MiB result", "http-legacy-big", python2=3, uvicorn=0.9),
        # "Not behind" and "as the limit", with what two fresh processes of one program differ by.
        *bounds("1 MiB argument", "http-legacy-blob", python2=1, uvicorn=0.95),
    ]


def samplings() -> list[Target]:
    """List the sampling round trips."""
    found: list[Target] = []
    for era, version in (("legacy", "2025-11-25"), ("modern", "2026-07-28")):
        row = f"sampling round trip over stdio, {version}"
        found += bounds(f"{row}, 1 in flight", f"stdio-{era}-sample-1", python2=5, bare=0.65)
        found += bounds(f"{row}, 16 in flight", f"stdio-{era}-sample-16", python2=25, bare=0.2)
        row = f"sampling round trip over HTTP, {version}"
        found += bounds(f"{row}, 1 connection", f"http-{era}-sample-1", python2=5, uvicorn=0.65)
        found += bounds(f"{row}, 16 connections", f"http-{era}-sample-16", python2=10, uvicorn=0.5)
    return found


def clients() -> list[Target]:
    """List our client beside theirs."""
    return [
        *bounds("client over HTTP, sequential", "client-http", "seq", python2=4),
        *bounds("client over HTTP, 32 at once", "client-http", "conc32", python2=5),
        *bounds("client over stdio, sequential", "client-stdio", "seq", python2=1.8, bare=0.7),
        *bounds("client over stdio, 32 at once", "client-stdio", "conc32", python2=6),
        *bounds("call in memory, sequential", "client-mem", "seq", python2=4),
        *bounds("call in memory, 32 at once", "client-mem", "conc32", python2=4),
    ]


def costs() -> list[Target]:
    """List what shall be small: start, memory, the tail."""
    rows = (
        ("import", "start", "load_ms", 0.15),
        ("spawn to the first reply on stdio", "start", "first_reply_ms", 0.25),
        ("memory after the start (stdio)", "start", "memory_mb", 0.5),
        ("memory of an idle HTTP session", "sessions", "session_kb", 0.15),
        ("p99 at 16 connections, 2025-11-25", "http-legacy-echo-16", "p99_us", 0.05),
        ("p99 at 16 connections, 2026-07-28", "http-modern-echo-16", "p99_us", 0.05),
    )
    return [
        Target(row=row, workload=workload, other="python2", figure=figure, at_most=most)
        for row, workload, figure, most in rows
    ]


def growth() -> list[Target]:
    """List how our own costs grow: server CPU for a call, divided by that of a smaller case."""
    rows = (
        # Flat: what differs between two processes of the same program, and no more.
        ("a call with 10,000 tools, against 10", "grow-tools-10000", "grow-tools-10", 1.15),
        ("a call with 1,000 in flight on stdio, against 10", "grow-stdio-1000", "grow-stdio-10", 1.15),
        ("a call with 1,000 HTTP connections, against 10", "grow-http-1000", "grow-http-10", 1.5),
        # Linear: 32 times the bytes cost at most 32 times as much, whatever a call costs anyway.
        ("an argument of 1 MiB, against 32 KiB", "grow-blob-1048576", "grow-blob-32768", 32),
        ("a result of 1 MiB, against 32 KiB", "grow-big-1048576", "grow-big-32768", 32),
    )
    return [
        Target(row=row, workload=workload, under=under, other=OURS, figure="server_cpu_us", at_most=most)
        for row, workload, under, most in rows
    ]


TARGETS = [*echoes(), *large(), *samplings(), *clients(), *costs(), *growth()]
