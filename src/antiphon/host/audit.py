"""What happened to each ask: who, when, which step, how it ended. Metadata and hashes, never content.

Owns the records of this process, in memory and bounded. Nothing is written to disk here.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Literal

import msgspec

from antiphon.wire.origin import Origin

__all__ = ["Audit", "Record", "Step"]

Step = Literal[
    "received", "invalid", "policy", "review", "generate", "response", "answered", "refused", "failed", "withdrawn"
]

_KEPT = 10_000
"""Records kept: some thousand requests, about 5 MB."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One step of one ask."""

    at: float
    """Seconds since the epoch."""
    ask: str
    """``origin.id``."""
    identity: str
    method: str
    """``"sampling/createMessage"`` or ``"elicitation/create"``."""
    step: Step
    outcome: str = ""
    """One word: the policy's effect, the kind of a decision, the reason of a refusal, the place of what is invalid."""
    digest: str | None = None
    """SHA-256 of what was received, shown, sent or answered at this step."""


class Audit:
    """The records of one host, oldest first."""

    def __init__(self) -> None:
        self._records: deque[Record] = deque(maxlen=_KEPT)

    def note(self, origin: Origin, method: str, step: Step, outcome: str = "", digest: str | None = None) -> None:
        """Add a record."""
        self._records.append(
            Record(
                at=time.time(),
                ask=origin.id,
                identity=origin.identity,
                method=method,
                step=step,
                outcome=outcome,
                digest=digest,
            )
        )

    def records(self, ask: str | None = None) -> list[Record]:
        """Return the records, of one ask or of all."""
        return [record for record in self._records if ask is None or record.ask == ask]
