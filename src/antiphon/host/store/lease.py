"""Which other processes have been silent for a whole lease, by the clock of the observer.

Each process changes its mark in the store every few seconds. Owns the decision about a mark that no longer changes. The
time in a mark is not used, because the clocks of processes may differ or be set.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

__all__ = ["BEATS", "LEASE", "Watch"]

LEASE = 20.0
"""Seconds of silence after which a process counts as killed: far longer than any pause of a healthy event loop."""
BEATS = 4
"""Changes of the mark within one lease, of which three may fail."""


class _Seen(msgspec.Struct, frozen=True):
    """A mark, and for how long it has not changed."""

    mark: float
    silent: float = 0.0


class Watch:
    """What one process has seen of the marks of the others. Call it ``BEATS`` times per lease."""

    def __init__(self, lease: float) -> None:
        """``lease`` is in seconds."""
        self._lease = lease
        self._seen: dict[str, _Seen] = {}
        self._looked: float | None = None

    def silent(self, marks: Mapping[str, float], now: float) -> frozenset[str]:
        """Return the processes whose marks have not changed for a lease.

        ``now`` is in seconds of a clock that is never set. Between two calls at most one beat is counted, because while
        this process was suspended, the others may have been too.
        """
        passed = 0.0 if self._looked is None else min(now - self._looked, self._lease / BEATS)
        self._looked = now
        self._seen = {name: self._look(name, mark, passed) for name, mark in marks.items()}
        return frozenset(name for name, seen in self._seen.items() if seen.silent >= self._lease)

    def _look(self, name: str, mark: float, passed: float) -> _Seen:
        before = self._seen.get(name)
        if before is None or before.mark != mark:
            return _Seen(mark)
        return _Seen(mark, before.silent + passed)
