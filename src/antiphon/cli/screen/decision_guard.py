"""When a decision may be made: not before what it is about has been on the screen for a moment.

Pure; the clock is the caller's. A key is judged by when it was pressed, not by when it is handled.
"""

from __future__ import annotations

__all__ = ["DEAD", "Arming"]

DEAD = 0.4
"""Seconds in which what has just appeared cannot be approved."""


class Arming:
    """Whether what is shown has been shown for long enough."""

    def __init__(self, dead: float = DEAD) -> None:
        self.dead = dead
        """Seconds."""
        self._since: float | None = None

    def hide(self) -> None:
        """Say that something else is about to be shown: nothing can be approved until it is."""
        self._since = None

    def shown(self, now: float) -> None:
        """Say that it is on the screen now."""
        self._since = now

    def seen(self, pressed: float) -> bool:
        """Tell whether a key pressed at this moment can have been meant for it."""
        return self._since is not None and pressed >= self._since

    def armed(self, pressed: float) -> bool:
        """Tell whether a key pressed at this moment may let it pass."""
        return self._since is not None and pressed - self._since >= self.dead
