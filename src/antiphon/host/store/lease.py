"""Which of the other processes have been silent for a whole lease, by the clock of the one that looks.

Each process moves its mark in the store every few seconds. Owns the judgement of a mark that no longer moves. What time
the mark itself names counts for nothing: the clock of its process may be ahead, behind, or set meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

__all__ = ["BEATS", "LEASE", "Watch"]

LEASE = 20.0
"""Seconds of silence after which a process counts as killed: far longer than a pause of a healthy event loop."""
BEATS = 4
"""Signs of life within one lease: three may fail."""


class _Seen(msgspec.Struct, frozen=True):
    """A mark, and for how long it has not moved."""

    mark: float
    silent: float = 0.0


class Watch:
    """What one process has seen of the marks of the others. It must look ``BEATS`` times a lease to see one end."""

    def __init__(self, lease: float) -> None:
        """``lease`` is in seconds."""
        self._lease = lease
        self._seen: dict[str, _Seen] = {}
        self._looked: float | None = None

    def silent(self, marks: Mapping[str, float], now: float) -> frozenset[str]:
        """Look at the marks, and name those that have not moved for a lease.

        ``now`` is in seconds of a clock that is never set. Between two looks no more than a beat is counted: while this
        process stood still itself, others may have stood still with it.
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
