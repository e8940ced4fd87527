"""The handshake of the legacy revisions, as tables. A modern request carries its own context and needs no state.

Sources: 2025-11-25 basic/lifecycle; the finer points are settled in docs/topics/lifecycle.md.
This module does not know which side it is on.
"""

from __future__ import annotations

from enum import Enum

__all__ = ["ALLOWED_BEFORE_READY", "TRANSITIONS", "Phase"]


class Phase(Enum):
    """How far the handshake of a legacy session has come."""

    NEW = "new"
    """Nothing was agreed."""
    ANSWERED = "answered"
    """``initialize`` was answered; ``notifications/initialized`` is to come (over HTTP it races the first request)."""
    READY = "ready"
    """Both sides may send what their capabilities allow."""


TRANSITIONS: dict[tuple[Phase, str], Phase] = {
    (Phase.NEW, "initialize"): Phase.ANSWERED,
    (Phase.ANSWERED, "notifications/initialized"): Phase.READY,
}
"""(phase, method) to the next phase. A miss is an error for ``initialize`` and without effect for the notification."""

ALLOWED_BEFORE_READY = frozenset({"initialize", "ping", "server/discover"})
"""What a server serves while the phase is NEW, besides requests that carry modern ``_meta``."""
