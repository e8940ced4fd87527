"""What one measurement counts: answers, how long each took, and what was wrong. It knows no protocol."""

from __future__ import annotations

import time

__all__ = ["MAX_FAULTS", "Tally", "WrongAnswer"]

MAX_FAULTS = 20
"""After so many faults a measurement ends: it has failed, and more of the same tells nothing."""


class WrongAnswer(Exception):
    """Something else came than what was asked for."""


class Tally:
    """Count what the connections of one measurement do."""

    def __init__(self) -> None:
        self.done = 0
        """Right answers, the warm-up's included."""
        self.latencies: list[float] = []
        """Seconds each answer took, of those that ended while ``recording``."""
        self.faults: list[str] = []
        self.recording = False
        self.stopping = False

    def right(self, began: float) -> None:
        """Count an answer that was checked; ``began`` is when its request was written."""
        self.done += 1
        if self.recording:
            self.latencies.append(time.perf_counter() - began)

    def wrong(self, why: object) -> None:
        """Note what was wrong, and stop asking when too much is."""
        self.faults.append(str(why)[:300])
        if len(self.faults) >= MAX_FAULTS:
            self.stopping = True
