"""The arithmetic: percentiles, medians, ratios of what was measured in the same round. It measures nothing."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import NamedTuple

__all__ = ["Figures", "Round", "Spread", "pairs", "percentile", "spread"]

Figures = dict[str, float]
"""What one measurement of one peer found."""
Round = dict[str, Figures]
"""One turn of a workload: every peer's figures, measured back to back."""


class Spread(NamedTuple):
    """The median of several rounds, with the least and the most."""

    median: float
    least: float
    most: float


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the value that ``percent`` of all are at or below (the nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * int(percent * 100) // 10_000) - 1)]


def spread(values: Iterable[float]) -> Spread | None:
    """Summarise rounds; None without any."""
    found = list(values)
    return Spread(statistics.median(found), min(found), max(found)) if found else None


def pairs(over: Sequence[Round], under: Sequence[Round], one: str, other: str, figure: str) -> list[float]:
    """Divide one peer's figure by another's, round by round: what disturbed a round disturbed both.

    Args:
        over: The rounds of the dividend.
        under: Those of the divisor: the same, unless two workloads are compared.
        one: The peer of the dividend.
        other: The peer of the divisor.
        figure: Which of their figures.
    """
    found: list[float] = []
    for upper, lower in zip(over, under, strict=False):
        dividend, divisor = upper.get(one, {}).get(figure), lower.get(other, {}).get(figure)
        if dividend is not None and divisor:
            found.append(dividend / divisor)
    return found
