"""Rate limits: one token bucket per principal.

2025-11-25 server/tools, Security Considerations: "Servers MUST rate limit tool invocations." A call over the rate waits
its turn; one that would wait too long is refused, with the time after which to try again.

Where replicas serve one principal, each has a bucket of its own, and takes from it a second later what the others have
taken: for that second a principal may have the rate of each of them, and a burst at each; both are owed afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

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

    def charge(self, count: int, now: float) -> None:
        """Take tokens that are owed."""
        self._fill(now)
        self._tokens -= count

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
        self._untold: dict[str, int] | None = None
        """Tokens that were taken here, and that other replicas were not told of; ``None`` if there are none."""

    def forget(self, principal: object) -> None:
        """Drop the bucket of a principal that has left."""
        self._buckets.pop(principal, None)

    def take(self, principal: object) -> float:
        """Take a token of this principal. See ``Bucket.take``."""
        now = self._clock()
        wait = self._bucket(principal, now).take(now)
        if self._untold is not None and isinstance(principal, str):
            self._untold[principal] = self._untold.get(principal, 0) + 1
        return wait

    def _bucket(self, principal: object, now: float) -> Bucket:
        bucket = self._buckets.get(principal)
        if bucket is None:
            while len(self._buckets) >= _MAX_PRINCIPALS:
                del self._buckets[next(iter(self._buckets))]
            bucket = self._buckets[principal] = Bucket(self._rate, now)
        return bucket

    # --- with other replicas ------------------------------------------------------------------------------------

    def share(self) -> None:
        """Count from now on what other replicas are told."""
        self._untold = {}

    def untold(self) -> Mapping[str, int]:
        """Return the tokens that were taken since the last time, of those who took more than a hundredth of theirs.

        What is less stays until it is more, so that of clients that do what they may nothing is told at all.
        """
        if self._untold is None:
            return {}
        much = self._rate.per_second / 100
        told = {who: count for who, count in self._untold.items() if count >= much}
        self._untold = {who: count for who, count in self._untold.items() if count < much}
        if len(self._untold) > _MAX_PRINCIPALS:
            self._untold.clear()
        return told

    def charge(self, _replica: str, counts: Mapping[str, int]) -> None:
        """Take the tokens that were taken elsewhere, though there may be none left: the next ones wait for them."""
        now = self._clock()
        for principal, count in counts.items():
            self._bucket(principal, now).charge(count, now)
