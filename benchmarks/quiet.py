"""Measuring again what others disturbed, and saying how much they did. What is measured is somebody else's business."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from benchmarks.figures import Figures

__all__ = ["QUIET", "least_disturbed", "others_share"]

QUIET = 0.05
"""The share of the machine that others may have before the clock says more about them than about what is measured."""


def others_share(figures: Figures) -> float | None:
    """Return the share of the machine that others had during a measurement, 0 to 1; None if nobody looked."""
    return figures["others"] + figures["stolen"] if "others" in figures else None


async def least_disturbed(measure: Callable[[], Awaitable[Figures]], tries: int) -> Figures:
    """Measure until the machine was quiet meanwhile, at most so often, and return what was disturbed least.

    Whether a measurement counts is decided by what *others* did during it, never by what it found.

    Args:
        measure: Takes one measurement.
        tries: How often, at most.

    Returns:
        The figures, with ``tries``: how many measurements it took.
    """
    best = await measure()
    taken = 1
    while taken < tries and (others_share(best) or 0.0) > QUIET:
        best = min(best, await measure(), key=lambda figures: others_share(figures) or 0.0)
        taken += 1
    return {**best, "tries": float(taken)}
