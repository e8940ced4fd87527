"""What others disturbed is measured again, whatever it found."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from benchmarks.figures import Figures
from benchmarks.quiet import QUIET, least_disturbed, others_share


def finding(*found: Figures) -> Callable[[], Awaitable[Figures]]:
    """Find these, one after the other; none is left over at the end unless it was not asked for."""
    rest = iter(found)

    async def measure() -> Figures:
        return next(rest)

    return measure


def of(rate: float, others: float) -> Figures:
    """Make up one measurement; half of what others took was on other machines."""
    return {"rate": rate, "others": others / 2, "stolen": others / 2}


async def test_a_quiet_measurement_is_taken_once():
    """Whatever it found."""
    assert await least_disturbed(finding(of(1, QUIET)), 4) == of(1, QUIET) | {"tries": 1}


async def test_a_disturbed_one_is_repeated_until_it_was_quiet():
    """The better figure of a disturbed one does not count."""
    assert await least_disturbed(finding(of(900, 0.5), of(800, 0.2), of(100, 0.01)), 4) == of(100, 0.01) | {"tries": 3}


@pytest.mark.parametrize("best", [0, 1, 2])
async def test_at_most_so_often(best: int):
    """The one that was disturbed least is kept then."""
    found = [of(100, 0.3) for _ in range(3)]
    found[best] = of(50, 0.2)
    assert await least_disturbed(finding(*found), 3) == of(50, 0.2) | {"tries": 3}


async def test_without_a_look_at_the_machine_nothing_is_repeated():
    """A start is measured so."""
    assert others_share({"load_ms": 3.0}) is None
    assert await least_disturbed(finding({"load_ms": 3.0}), 4) == {"load_ms": 3.0, "tries": 1}
