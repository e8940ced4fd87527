"""The handshake of the legacy revisions, as tables. A modern request carries its own context and needs no state.

Sources: 2025-11-25 basic/lifecycle; docs/topics/lifecycle.md settles the finer points. This module does not know which
side it is on.
"""

from __future__ import annotations

from enum import Enum

__all__ = ["ALLOWED_BEFORE_READY", "TRANSITIONS", "Phase"]


class Phase(Enum):
    """Progress of the handshake of a legacy session."""

    NEW = "new"
    """No revision was agreed."""
    ANSWERED = "answered"
    """``initialize`` was answered, ``notifications/initialized`` not yet received (over HTTP the first request may
    overtake it)."""
    READY = "ready"
    """Both sides may send what their capabilities allow."""


TRANSITIONS: dict[tuple[Phase, str], Phase] = {
    (Phase.NEW, "initialize"): Phase.ANSWERED,
    (Phase.ANSWERED, "notifications/initialized"): Phase.READY,
}
"""(phase, method) to the next phase. A missing entry is an error for ``initialize``, and no effect for the
notification."""

ALLOWED_BEFORE_READY = frozenset({"initialize", "ping", "server/discover"})
"""What a server serves in phase NEW, besides requests that carry modern ``_meta``."""
