"""Rate limits: one token bucket per principal.

2025-11-25 server/tools, Security Considerations: "Servers MUST rate limit tool invocations." A call over the rate waits
its turn; one that would wait too long is refused, with the time after which to try again.

If several processes serve one principal, each has a bucket of its own, from which it takes the tokens used at the
others one second later. Within that second a principal may use the rate and the burst of every process; it pays for
them afterwards by waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from antiphon.errors import ConfigError, InvalidRequest

_MAX_PRINCIPALS = 10_000
"""Most buckets kept; beyond that the oldest is dropped, and its principal starts again with a full one."""


class Rate(Struct, frozen=True, kw_only=True):
    """A rate limit of calls.

    Args:
        per_second: calls a second on average.
        burst: most calls at once.
        patience: most seconds for which a call waits for its turn; 5 by default.
    """

    per_second: float
    burst: int
    patience: float = 5.0

    def __post_init__(self) -> None:
        if not (self.per_second > 0 and self.burst >= 1 and self.patience >= 0):
            raise ConfigError("Rate() takes a per_second above 0, a burst of 1 or more, and a patience of 0 or more")


DEFAULT_TOOL_RATE = Rate(per_second=10_000, burst=20_000)
"""Far above the rate of a model, and low enough that a client in an endless loop does not starve the others."""

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
        """Take tokens that were used elsewhere, even if there are none left."""
        self._fill(now)
        self._tokens -= count

    def take(self, now: float) -> float:
        """Take one token, and return the seconds to wait, nearly always 0; refuse if that is too long."""
        if self.try_take(now):
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
        self._rate = rate
        self._clock = clock
        self._buckets: dict[object, Bucket] = {}
        self._untold: dict[str, int] | None = None
        """Tokens taken here that other processes do not know of yet, by principal; ``None`` without other processes."""

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

    # --- with other processes ------------------------------------------------------------------------------------

    def share(self) -> None:
        """Count the tokens taken here for other processes from now on."""
        self._untold = {}

    def untold(self) -> Mapping[str, int]:
        """Return the tokens taken since the last call, where they exceed a hundredth of a principal's rate."""
        if self._untold is None:
            return {}
        much = self._rate.per_second / 100
        told = {who: count for who, count in self._untold.items() if count >= much}
        self._untold = {who: count for who, count in self._untold.items() if count < much}
        if len(self._untold) > _MAX_PRINCIPALS:
            self._untold.clear()
        return told

    def charge(self, _process: str, counts: Mapping[str, int]) -> None:
        """Take the tokens that were used elsewhere, even if there are none left: later calls then wait."""
        now = self._clock()
        for principal, count in counts.items():
            self._bucket(principal, now).charge(count, now)
