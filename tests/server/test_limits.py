"""Rates: one bucket for every principal, waiting before refusing."""

from __future__ import annotations

import pytest

from antiphon.errors import InvalidRequest
from antiphon.server.limits import Bucket, Rate, RateLimiter

RATE = Rate(per_second=10, burst=2, patience=0.25)


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
