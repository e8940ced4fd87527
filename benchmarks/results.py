"""What one run found, as a value that can be kept in a file. It measures and judges nothing."""

from __future__ import annotations

from pathlib import Path

import msgspec

from benchmarks.figures import Round

__all__ = ["Fault", "Results"]


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """An answer that was wrong, or did not come."""

    workload: str
    peer: str
    why: str


class Results(msgspec.Struct, kw_only=True):
    """All figures of a run."""

    form: str
    """``short`` or ``full``."""
    machine: dict[str, str]
    versions: dict[str, str]
    """What each peer's figures belong to: the packages that were installed."""
    minutes: float = 0.0
    rounds: dict[str, list[Round]] = msgspec.field(default_factory=dict[str, list[Round]])
    """The rounds of each workload."""
    faults: list[Fault] = msgspec.field(default_factory=list[Fault])
    missing: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    """Peers that could not be measured, and why."""

    def of(self, workload: str) -> list[Round]:
        """Return the rounds of a workload, without the peers that gave a wrong answer to it."""
        wrong = {fault.peer for fault in self.faults if fault.workload == workload}
        return [
            {peer: figures for peer, figures in turn.items() if peer not in wrong}
            for turn in self.rounds.get(workload, [])
        ]

    def values(self, workload: str, peer: str, figure: str) -> list[float]:
        """Return one figure of a peer in each round."""
        return [turn[peer][figure] for turn in self.of(workload) if figure in turn.get(peer, {})]

    def save(self, path: Path) -> None:
        """Write all of it to a file."""
        path.write_bytes(msgspec.json.encode(self))

    @classmethod
    def load(cls, path: Path) -> Results:
        """Read it again."""
        return msgspec.json.decode(path.read_bytes(), type=cls)
