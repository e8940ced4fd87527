"""The two forms of a run: how many rounds, how long, and whose turn it is. It runs nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.peers.catalogue import Peer

__all__ = ["FULL", "SHORT", "Form", "turns"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """How thoroughly all is measured."""

    name: str
    rounds: int
    seconds: float
    """Seconds for each measurement of a server."""
    warm: float
    """Seconds before that."""
    tries: int
    """How often a measurement is taken that others disturbed."""
    client_rounds: int
    client_seconds: float
    start_rounds: int
    session_rounds: int
    sessions: int
    """Idle sessions that are opened to see what one weighs."""


SHORT = Form(
    name="short",
    rounds=3,
    seconds=0.2,
    warm=0.05,
    tries=3,
    client_rounds=3,
    client_seconds=0.2,
    start_rounds=2,
    session_rounds=1,
    sessions=300,
)
FULL = Form(
    name="full",
    rounds=5,
    seconds=1.0,
    warm=0.2,
    tries=3,
    client_rounds=5,
    client_seconds=1.0,
    start_rounds=5,
    session_rounds=3,
    sessions=1_000,
)


def turns(peers: Mapping[str, Peer], form: Form, number: int) -> list[str]:
    """Order the peers of a round.

    Each round begins with another one, so that nobody is always measured after the same neighbour; in the short form,
    those that come late in it are measured in the first round only.
    """
    names = [name for name, peer in peers.items() if form is FULL or (not peer.full and not (peer.late and number))]
    first = number % len(names) if names else 0
    return names[first:] + names[:first]
