"""The simulation of replicas and their engine: what it must conserve, and what theory says about it."""

from __future__ import annotations

import math
from typing import Any

import pytest

from benchmarks.growth.simulation import Costs, Outcome, Plan, simulate

COSTS = Costs(
    home=0.05, arrival=0.5, away=0.3, lookup=0.02, message=0.05, operation=0.01, store=0.015, restore=0.5, open=0.4,
    relay_bytes=2_000.0,
)  # fmt: skip


def run(seed: int = 0, **plan: Any) -> Outcome:
    """Simulate a little."""
    given: dict[str, Any] = {"replicas": 3, "calls": 500.0, "seconds": 3.0, "sessions": 3_000, **plan}
    return simulate(Plan(**given), COSTS, seed)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("deaths", [(), ((1.0, 0),), ((0.5, 1), (0.6, 2))])
def test_every_call_ends_once(seed: int, deaths: tuple[tuple[float, int], ...]) -> None:
    """With an answer or, if a replica died, with an error; those that are open at the end began just before it."""
    found = run(seed, deaths=deaths)
    assert found.begun == found.answered + found.failed + found.open
    assert found.begun > 1_000
    assert bool(found.failed) == bool(deaths)
    assert found.open < 50


def test_the_same_seed_gives_the_same_run() -> None:
    """And another one another run."""
    assert run(1, deaths=((1.0, 0),)) == run(1, deaths=((1.0, 0),))
    assert run(1) != run(2)


def test_a_replica_alone_waits_as_theory_says() -> None:
    """One processor with a queue (M/M/1): the utilisation is rate times work, and the median follows from both."""
    found = simulate(Plan(replicas=1, calls=14_000.0, seconds=8.0), COSTS)
    busy = 14_000 * COSTS.home / 1000
    assert found.replica == pytest.approx(busy, rel=0.02)
    assert found.median == pytest.approx(math.log(2) * COSTS.home / (1 - busy), rel=0.1)


def test_the_processors_are_busy_with_what_calls_cost() -> None:
    """Utilisation is the sum of all work, whatever waits for what."""
    found = run(affinity=0.0, calls=1_000.0, seconds=5.0)
    relayed = found.relayed / found.begun
    assert relayed == pytest.approx(2 / 3, abs=0.03)
    work = found.begun * ((1 - relayed) * COSTS.home + relayed * (COSTS.arrival + COSTS.away)) / 1000
    assert found.spent == pytest.approx(work, rel=0.05)
    asked = found.begun * relayed * (COSTS.lookup + 2 * COSTS.message) / 1000
    beats = 3 * 2 * COSTS.operation / 1000 * 5
    assert found.engine * 5 == pytest.approx((asked + beats) / (1 - found.watched), rel=0.05)


@pytest.mark.parametrize(("affinity", "counts"), [(0.0, (2, 4, 8)), (1.0, (1, 2, 4))])
def test_more_replicas_do_not_lower_what_is_served(affinity: float, counts: tuple[int, ...]) -> None:
    """From the second one on, if calls arrive anywhere: until then none is passed on."""
    rates = [run(replicas=each, calls=8 * each, closed=True, affinity=affinity, seconds=0.3).rate for each in counts]
    assert rates == sorted(rates)
    assert rates[-1] > 1.5 * rates[0]


def test_affinity_saves_the_way_over_the_engine() -> None:
    """A call at home takes no operation."""
    near, far = run(affinity=1.0), run(affinity=0.0)
    assert near.relayed == 0
    assert near.engine < far.engine / 5
    assert near.median < far.median


def test_sessions_go_on_after_a_death() -> None:
    """Each is restored once, when it is next used, and is at home there from then on."""
    found = run(deaths=((0.5, 0),), seconds=8.0, sessions=300)
    assert found.restored == 100
    assert found.failed < 0.3 * found.begun


def test_what_is_stored_and_opened_beside_calls_takes_its_time() -> None:
    """Renewals keep the engine busy, new sessions the replicas."""
    quiet, busy = run(), run(renewals=5_000)
    assert busy.engine - quiet.engine == pytest.approx(3 * 5_000 * COSTS.store / 1000 / 3, rel=0.1)
    assert run(openings=2_000).spent - quiet.spent == pytest.approx(2_000 * COSTS.open / 1000, rel=0.1)


def test_replicas_with_streams_of_each_other_ask_after_all_that_are_silent() -> None:
    """Twice a second for each two of them; calls between them save the question."""
    idle, busy = (run(replicas=10, calls=calls, streams=True, seconds=5.0) for calls in (0.0, 3_000.0))
    assert idle.asked == pytest.approx(10 * 9 * 2 * 5, rel=0.1)
    assert busy.asked < idle.asked / 5
