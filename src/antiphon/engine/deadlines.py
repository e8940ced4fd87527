"""Deadlines of the requests that wait for a reply: one timer for a whole connection.

A deadline can stand still (a person is thinking) and go on later. Setting one costs a comparison; the timer looks
at all that wait only when the earliest may have passed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from msgspec import Struct

__all__ = ["Deadlines", "Timed"]


class Timed(Struct, eq=False):
    """Something with a deadline. A struct, since one is made for every request of ours."""

    timeout: float | None
    """Seconds allowed, not counting the time in which it stood still."""
    deadline: float | None = None
    """A time of the loop's clock."""
    remaining: float = 0.0
    paused: int = 0


class Deadlines:
    """Calls ``expired`` for each timed thing whose deadline has passed."""

    def __init__(self, loop: asyncio.AbstractEventLoop, expired: Callable[[Timed], object]) -> None:
        self._loop = loop
        self._expired = expired
        self._waiting: dict[Timed, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def start(self, timed: Timed) -> None:
        """Let the clock of ``timed`` run."""
        if timed.timeout is None:
            return
        timed.deadline = self._loop.time() + timed.timeout
        self._waiting[timed] = None
        self._arm(timed.deadline)

    def end(self, timed: Timed) -> None:
        """Forget ``timed``: it was answered."""
        self._waiting.pop(timed, None)

    def pause(self, timed: Timed) -> None:
        """Let the clock of ``timed`` stand still; pauses nest."""
        timed.paused += 1
        if timed.paused == 1 and timed.deadline is not None:
            timed.remaining = timed.deadline - self._loop.time()
            timed.deadline = None

    def resume(self, timed: Timed) -> None:
        """Undo one ``pause``."""
        timed.paused -= 1
        if timed.paused == 0 and timed in self._waiting:
            timed.deadline = self._loop.time() + timed.remaining
            self._arm(timed.deadline)

    def close(self) -> None:
        """Stop the timer for good."""
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, when: float) -> None:
        if self._timer is None or when < self._timer.when():
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(when, self._ring)

    def _ring(self) -> None:
        self._timer = None
        now = self._loop.time()
        due = [timed for timed in self._waiting if timed.deadline is not None and timed.deadline <= now]
        for timed in due:
            del self._waiting[timed]
            self._expired(timed)
        following = [timed.deadline for timed in self._waiting if timed.deadline is not None]
        if following:
            self._arm(min(following))
