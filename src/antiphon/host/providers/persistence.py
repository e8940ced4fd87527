"""Trying again: how often, how long to wait between two attempts, and when a stand-in may take over.

Owns when, not what: it knows neither models nor vendors.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from antiphon.host.providers.base import FailureKind, ProviderFailure

__all__ = ["Patience", "may_stand_in", "persist"]

T = TypeVar("T")

_PASSING: frozenset[FailureKind] = frozenset({"rate-limit", "timeout", "connection", "unavailable"})
"""What may be over in a moment."""
_OF_THE_REQUEST: frozenset[FailureKind] = frozenset({"refused", "rejected", "context", "unsupported"})
"""What would happen with any model: asking the next one would only shop around for a yes."""


_chance = random.SystemRandom().random


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How patient we are with a provider."""

    attempts: int = 3
    """In all."""
    first_wait: float = 0.5
    """Seconds before the second attempt, then twice as long each time; up to a fifth is taken off by chance."""
    longest_wait: float = 60.0
    """Seconds. A service that asks for more has failed for now."""
    deadline: float | None = 300.0
    """Seconds for all attempts together, stand-ins included."""


def may_stand_in(failure: ProviderFailure) -> bool:
    """Tell whether another model may do better, and what is held for the request is still there to pay it with."""
    return failure.kind not in _OF_THE_REQUEST and not failure.charged


async def persist(
    attempt: Callable[[], Awaitable[T]],
    patience: Patience,
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    chance: Callable[[], float] = _chance,
) -> T:
    """Call ``attempt`` until it succeeds, fails for good, or patience is at its end; the last failure is raised.

    An attempt that may have been charged is the last one: what is held for a request pays for one.
    ``patience.longest_wait`` bounds each wait; the deadline over all of them is the caller's to enforce.
    """
    wait = patience.first_wait
    for left in range(max(patience.attempts, 1) - 1, -1, -1):
        try:
            return await attempt()
        except ProviderFailure as failure:
            # By chance a little less: clients that failed together do not come back together.
            pause = wait * (1 - chance() / 5) if failure.retry_after is None else failure.retry_after
            if left == 0 or failure.charged or failure.kind not in _PASSING or pause > patience.longest_wait:
                raise
        await sleep(max(pause, 0.0))
        wait *= 2
    raise AssertionError("the loop returns or raises")
