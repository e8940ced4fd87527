"""A cache of results, for as long as the server allows (2026-07-28 server/utilities/caching).

It belongs to one client, so ``private`` and ``public`` make no difference. Bounded; a notification of a change clears
the results of its kind.
"""

from __future__ import annotations

from collections.abc import Callable

from antiphon.wire.common import CacheableResult

__all__ = ["Cache"]

MAX_ENTRIES = 1_000
"""Most results; the oldest is dropped first."""

MAX_TTL_MS = 24 * 3_600_000
"""Longest time a result is kept, whatever the server allows: a day."""

Key = tuple[str, str]


class Cache:
    """Results by method and subject. ``clock`` returns seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._kept: dict[Key, tuple[float, CacheableResult]] = {}

    def get(self, method: str, subject: str) -> CacheableResult | None:
        """Return a result that is still valid, or ``None``."""
        kept = self._kept.get((method, subject))
        if kept is None:
            return None
        if kept[0] <= self._clock():
            del self._kept[method, subject]
            return None
        return kept[1]

    def put(self, method: str, subject: str, result: CacheableResult) -> None:
        """Keep a result for its ``ttl_ms``; without one, or with 0, it is not kept."""
        ttl = min(result.ttl_ms or 0, MAX_TTL_MS)
        if ttl <= 0:
            return
        while len(self._kept) >= MAX_ENTRIES:
            del self._kept[next(iter(self._kept))]
        self._kept[method, subject] = (self._clock() + ttl / 1000, result)

    def clear(self) -> None:
        """Drop all results."""
        self._kept.clear()

    def drop(self, *methods: str, subject: str | None = None) -> None:
        """Drop the results of some methods, or only those about one subject."""
        for key in [key for key in self._kept if key[0] in methods and subject in (None, key[1])]:
            del self._kept[key]
