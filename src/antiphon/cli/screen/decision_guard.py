"""When a decision may be made: only after its subject has been on the screen for a moment.

Pure; the clock is the caller's. The time at which a key was pressed counts, not when it is handled.
"""

from __future__ import annotations

__all__ = ["DEAD", "Arming"]

DEAD = 0.4
"""Seconds during which what was just shown cannot be approved."""


class Arming:
    """Whether what is shown has been visible for long enough."""

    def __init__(self, dead: float = DEAD) -> None:
        self.dead = dead
        """Seconds."""
        self._since: float | None = None

    def hide(self) -> None:
        """Note that something else is about to be shown: nothing can be approved until then."""
        self._since = None

    def shown(self, now: float) -> None:
        """Note that it is on the screen now."""
        self._since = now

    def seen(self, pressed: float) -> bool:
        """Tell whether a key pressed at this time can have been meant for it."""
        return self._since is not None and pressed >= self._since

    def armed(self, pressed: float) -> bool:
        """Tell whether a key pressed at this time may approve it."""
        return self._since is not None and pressed - self._since >= self.dead
