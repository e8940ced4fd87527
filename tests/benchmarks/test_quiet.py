"""What others disturbed is measured again, whatever it found."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from benchmarks.figures import Figures
from benchmarks.processes import Cores
from benchmarks.quiet import QUIET, STEADY, Pace, is_disturbed, least_disturbed


def finding(*found: Figures) -> Callable[[], Awaitable[Figures]]:
    """Find these, one after the other."""
    rest = iter(found)

    async def measure() -> Figures:
        return next(rest)

    return measure


def slowing(*slowed: float) -> Callable[[], float]:
    """Be slower by so much each time."""
    rest = iter(slowed)
    return lambda: next(rest)


def of(rate: float, others: float) -> Figures:
    """Make up one measurement; half of what others took was on other machines."""
    return {"rate": rate, "others": others / 2, "stolen": others / 2}


async def test_a_quiet_measurement_is_taken_once():
    """Whatever it found."""
    found = await least_disturbed(finding(of(1, QUIET)), slowing(STEADY), 4)
    assert found == of(1, QUIET) | {"slowed": STEADY, "tries": 1}


async def test_one_that_others_took_from_is_repeated_until_it_was_quiet():
    """The better figure of a disturbed one does not count."""
    measure = finding(of(900, 0.5), of(800, 0.2), of(100, 0.01))
    assert await least_disturbed(measure, slowing(0, 0, 0), 4) == of(100, 0.01) | {"slowed": 0, "tries": 3}


async def test_one_that_others_slowed_is_repeated_too():
    """Who shares a core, or its caches, is on no counter."""
    measure = finding(of(900, 0), of(100, 0))
    assert await least_disturbed(measure, slowing(0.9, 0.1), 4) == of(100, 0) | {"slowed": 0.1, "tries": 2}


@pytest.mark.parametrize("best", [0, 1, 2])
async def test_at_most_so_often(best: int):
    """The one that was disturbed least is kept then."""
    found, slowed = [of(100, 0.3) for _ in range(3)], [0.5] * 3
    found[best], slowed[best] = of(50, 0.2), 0.4
    kept = await least_disturbed(finding(*found), slowing(*slowed), 3)
    assert kept == of(50, 0.2) | {"slowed": 0.4, "tries": 3}
    assert is_disturbed(kept)


def test_a_pace_is_set_beside_the_best_so_far():
    """No core is faster than that; the cores of this process are left as they were."""
    cores = Cores()
    assert 0 <= Pace(cores).slowed() < 50
    assert Cores().all == cores.all
