"""Rates: one bucket for every principal, waiting before refusing."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.errors import ConfigError, InvalidRequest
from antiphon.server.rate_limits import Bucket, Rate, RateLimiter

RATE = Rate(per_second=10, burst=2, patience=0.25)


@pytest.mark.parametrize("odd", [{"per_second": 0}, {"per_second": -1}, {"burst": 0}, {"patience": -1}])
def test_a_rate_that_lets_nothing_through_is_refused(odd: dict[str, float]) -> None:
    """It would fail, or limit nothing, at the first call that has to wait."""
    given: Any = {"per_second": 10, "burst": 2, **odd}
    with pytest.raises(ConfigError, match="a per_second above 0, a burst of 1 or more, and a patience of 0 or more"):
        Rate(**given)


def test_a_burst_passes_without_waiting() -> None:
    """As many calls as the burst allows go through at once."""
    bucket = Bucket(RATE, 0.0)
    assert [bucket.take(0.0), bucket.take(0.0)] == [0.0, 0.0]


def test_calls_over_the_rate_wait_their_turn() -> None:
    """Each further call waits a tenth of a second longer."""
    bucket = Bucket(RATE, 0.0)
    assert [round(bucket.take(0.0), 3) for _ in range(4)] == [0.0, 0.0, 0.1, 0.2]


def test_a_call_that_would_wait_too_long_is_refused_with_the_time_to_try_again() -> None:
    """The error says when; the refused call takes no token."""
    bucket = Bucket(RATE, 0.0)
    for _ in range(4):
        bucket.take(0.0)
    with pytest.raises(InvalidRequest, match=r"try again in 0\.3 s") as caught:
        bucket.take(0.0)
    assert caught.value.data == {"retryAfter": 0.3}
    assert bucket.take(1.0) == 0.0


def test_tokens_come_back_with_time_up_to_the_burst() -> None:
    """After a long rest there are as many tokens as at the start, no more."""
    bucket = Bucket(RATE, 0.0)
    for _ in range(2):
        bucket.take(0.0)
    assert [round(bucket.take(100.0), 3) for _ in range(3)] == [0.0, 0.0, 0.1]


def test_try_take_never_waits() -> None:
    """What may be dropped is dropped."""
    bucket = Bucket(RATE, 0.0)
    assert [bucket.try_take(0.0) for _ in range(3)] == [True, True, False]
    assert bucket.try_take(0.1)


def test_principals_do_not_share_a_bucket() -> None:
    """One runaway client does not slow down another."""
    limiter = RateLimiter(RATE, lambda: 0.0)
    for _ in range(3):
        limiter.take("ann")
    assert limiter.take("bob") == 0.0


def test_the_number_of_buckets_is_bounded() -> None:
    """Ten thousand principals are remembered, then the oldest is forgotten."""
    limiter = RateLimiter(RATE, lambda: 0.0)
    for _ in range(2):
        limiter.take("first")
    for number in range(10_000):
        limiter.take(number)
    assert limiter.take("first") == 0.0


def shared() -> tuple[RateLimiter, RateLimiter]:
    """Make the limiters of two replicas."""
    found = RateLimiter(RATE, lambda: 0.0), RateLimiter(RATE, lambda: 0.0)
    for each in found:
        each.share()
    return found


def test_what_is_taken_at_another_replica_is_owed_here() -> None:
    """Who has spent its burst there waits here for as long as it takes to earn it again."""
    one, other = shared()
    for _ in range(2):
        one.take("ann")
    other.charge("one", one.untold())
    assert round(other.take("ann"), 3) == 0.1
    assert round(other.take("ann"), 3) == 0.2
    assert other.take("bob") == 0.0


def test_what_was_told_is_told_once() -> None:
    """Tokens, not sums; and of connections without a principal nothing, since each lives in one replica."""
    one, _ = shared()
    one.take("ann")
    one.take(7)
    assert one.untold() == {"ann": 1}
    assert one.untold() == {}


def test_little_is_told_once_it_is_much() -> None:
    """A hundredth of a second's rate: clients that do what they may cost the engine nothing."""
    limiter = RateLimiter(Rate(per_second=1_000, burst=1_000), lambda: 0.0)
    limiter.share()
    for _ in range(9):
        limiter.take("ann")
    assert limiter.untold() == {}
    limiter.take("ann")
    assert limiter.untold() == {"ann": 10}


def test_a_replica_alone_counts_nothing_for_others() -> None:
    """Nobody would ever hear it."""
    limiter = RateLimiter(RATE, lambda: 0.0)
    limiter.take("ann")
    assert limiter.untold() == {}


def test_what_waits_to_be_told_is_bounded() -> None:
    """Ten thousand principals, as the buckets."""
    limiter = RateLimiter(Rate(per_second=1_000, burst=1_000), lambda: 0.0)
    limiter.share()
    for number in range(10_001):
        limiter.take(f"principal-{number}")
    limiter.untold()
    assert limiter._untold == {}
