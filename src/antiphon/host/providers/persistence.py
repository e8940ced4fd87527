"""Retries: how often, how long to wait in between, and when a fallback may be tried.

Knows neither models nor vendors.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from antiphon.host.providers.base import FailureKind, ProviderFailure

T = TypeVar("T")

_PASSING: frozenset[FailureKind] = frozenset({"rate-limit", "timeout", "connection", "unavailable"})
"""Failures that may be temporary."""
_OF_THE_REQUEST: frozenset[FailureKind] = frozenset({"refused", "rejected", "context", "unsupported"})
"""Failures that would happen with any model; trying the next one would only shop around for a yes."""


_chance = random.SystemRandom().random


class RetryPatience(msgspec.Struct, frozen=True, kw_only=True):
    """How often and how long to retry."""

    attempts: int = 3
    """Number of attempts in all."""
    first_wait: float = 0.5
    """Seconds before the second attempt, doubled each time, minus a random part of up to a fifth."""
    longest_wait: float = 60.0
    """Most seconds between attempts. If a service asks for more, the attempt has failed."""
    deadline: float | None = 300.0
    """Seconds for all attempts together, including fallbacks."""


def may_stand_in(failure: ProviderFailure) -> bool:
    """Return whether a fallback may succeed, and the reservation is still unused and can pay for it."""
    return failure.kind not in _OF_THE_REQUEST and not failure.charged


async def retry_patiently(
    attempt: Callable[[], Awaitable[T]],
    patience: RetryPatience,
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    chance: Callable[[], float] = _chance,
) -> T:
    """Call ``attempt`` until it succeeds, fails for good, or the attempts are used up; the last failure is raised.

    An attempt that may have been charged is the last one, because the reservation of a request pays for one only.
    ``longest_wait`` of ``patience`` bounds each wait; the caller enforces the deadline over all of them.
    """
    wait = patience.first_wait
    for left in range(max(patience.attempts, 1) - 1, -1, -1):
        try:
            return await attempt()
        except ProviderFailure as failure:
            # Randomly shorter, so that clients that failed together do not return together.
            pause = wait * (1 - chance() / 5) if failure.retry_after is None else failure.retry_after
            if left == 0 or failure.charged or failure.kind not in _PASSING or pause > patience.longest_wait:
                raise
        await sleep(max(pause, 0.0))
        wait *= 2
    raise AssertionError("the loop returns or raises")
