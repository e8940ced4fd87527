"""Measuring again what others disturbed, and saying how much they did. What is measured is somebody else's business."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from benchmarks.figures import Figures
from benchmarks.processes import Cores

__all__ = ["QUIET", "STEADY", "Pace", "is_disturbed", "least_disturbed", "others_share"]

QUIET = 0.05
"""The share of the machine that others may have before the clock says more about them than about what is measured."""
STEADY = 0.2
"""By how much slower than at its best a core may be: who shares it, or its caches, is on no counter of this machine."""

_LOOP = 100_000
_SETTLING = 40


class Pace:
    """How fast the two cores are just now, by the processor time of a loop that is always the same."""

    def __init__(self, cores: Cores) -> None:
        self._cores = cores
        self._best = min(self._slower() for _ in range(_SETTLING))

    def slowed(self) -> float:
        """Say by how much slower than at its best so far the slower core is: 0 for not at all, 1 for twice as slow."""
        now = self._slower()
        self._best = min(self._best, now)
        return now / self._best - 1

    def _slower(self) -> float:
        found: list[float] = []
        for one in (self._cores.load, self._cores.servers):
            with self._cores.on(one):
                found.append(loop())
        return max(found)


def loop() -> float:
    """Return the seconds of processor time that the loop took."""
    began, total = time.process_time(), 0
    for number in range(_LOOP):
        total += number
    return time.process_time() - began


def others_share(figures: Figures) -> float | None:
    """Return the share of the machine that others had during a measurement, 0 to 1; None if nobody looked."""
    return figures["others"] + figures["stolen"] if "others" in figures else None


def is_disturbed(figures: Figures) -> bool:
    """Say whether others took too much of the machine, or slowed it too much."""
    return (others_share(figures) or 0.0) > QUIET or figures.get("slowed", 0.0) > STEADY


async def least_disturbed(
    measure: Callable[[], Awaitable[Figures]], slowed: Callable[[], float], tries: int
) -> Figures:
    """Measure until the machine was quiet meanwhile, at most so often, and return what was disturbed least.

    Whether a measurement counts is decided by what *others* did during it, never by what it found.

    Args:
        measure: Takes one measurement.
        slowed: Says by how much slower than at its best the machine is just now: asked after each measurement.
        tries: How often, at most.

    Returns:
        The figures, with ``slowed``, and with ``tries``: how many measurements it took.
    """
    best: Figures = {}
    for taken in range(1, tries + 1):
        found = await measure()
        found = {**found, "slowed": slowed()}
        if not best or disturbance(found) < disturbance(best):
            best = found
        best["tries"] = float(taken)
        if not is_disturbed(best):
            break
    return best


def disturbance(figures: Figures) -> float:
    """Add up what others took and what they slowed."""
    return (others_share(figures) or 0.0) + figures["slowed"]
