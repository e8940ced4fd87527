"""Rate limits: one token bucket per principal.

2025-11-25 server/tools, Security Considerations: "Servers MUST rate limit tool invocations." A call over the rate waits
its turn; one that would wait too long is refused, with the time after which to try again.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from antiphon.errors import ConfigError, InvalidRequest

__all__ = ["DEFAULT_TOOL_RATE", "PROGRESS_RATE", "Bucket", "Rate", "RateLimiter"]

_MAX_PRINCIPALS = 10_000
"""Most buckets kept; beyond that the oldest is dropped, and its principal starts again with a full one."""


class Rate(Struct, frozen=True, kw_only=True):
    """``per_second`` on average, at most ``burst`` at once; a call waits up to ``patience`` seconds for its turn."""

    per_second: float
    burst: int
    patience: float = 5.0


DEFAULT_TOOL_RATE = Rate(per_second=10_000, burst=20_000)
"""Far above what a model does, and far below what a client in a runaway loop could do to the others."""

PROGRESS_RATE = Rate(per_second=100, burst=100)
"""Progress reports of one call; those beyond are dropped, since each report replaces the ones before."""


class Bucket:
    """The tokens of one principal."""

    __slots__ = ("_rate", "_tokens", "_when")

    def __init__(self, rate: Rate, now: float) -> None:
        self._rate = rate
        self._tokens = float(rate.burst)
        self._when = now

    def try_take(self, now: float) -> bool:
        """Take one token, if there is one."""
        self._fill(now)
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def _fill(self, now: float) -> None:
        rate = self._rate
        self._tokens = min(float(rate.burst), self._tokens + (now - self._when) * rate.per_second)
        self._when = now

    def take(self, now: float) -> float:
        """Take one token, and return the seconds to wait before acting on it (nearly always 0).

        Raises:
            InvalidRequest: the wait would be longer than the rate's patience; no token was taken.
        """
        self._fill(now)
        if self._tokens >= 1:
            self._tokens -= 1
            return 0.0
        rate = self._rate
        wait = (1 - self._tokens) / rate.per_second
        if wait > rate.patience:
            raise InvalidRequest(
                f"Too many tool calls: {rate.per_second:g} a second are allowed; try again in {wait:.1f} s",
                data={"retryAfter": round(wait, 3)},
            )
        self._tokens -= 1
        return wait


class RateLimiter:
    """One bucket for every principal; anonymous clients have one per connection, by the key passed in."""

    def __init__(self, rate: Rate, clock: Callable[[], float]) -> None:
        if rate.__class__ is not Rate:
            raise ConfigError(f"tool_rate= must be a Rate(per_second=, burst=), or None for no limit; got {rate!r}")
        self._rate = rate
        self._clock = clock
        self._buckets: dict[object, Bucket] = {}

    def forget(self, principal: object) -> None:
        """Drop the bucket of a principal that has left."""
        self._buckets.pop(principal, None)

    def take(self, principal: object) -> float:
        """Take a token of this principal. See ``Bucket.take``."""
        now = self._clock()
        bucket = self._buckets.get(principal)
        if bucket is None:
            while len(self._buckets) >= _MAX_PRINCIPALS:
                del self._buckets[next(iter(self._buckets))]
            bucket = self._buckets[principal] = Bucket(self._rate, now)
        return bucket.take(now)
