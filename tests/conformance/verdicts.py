"""What came of a scenario, by rules stricter than the suite's own, and what the baseline says of it.

A scenario has passed if at least one check of its own succeeded, none failed and none warned, and, for a client, if
the suite ended with 0 as well: so it counts exit codes and time-outs. Everything else must be in the baseline, with a
reason.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Baseline", "Verdict", "judge", "lost"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What came of one scenario in one run."""

    run: str
    side: str
    scenario: str
    passed: bool
    by: str = ""
    """What stands between the suite and the server; empty if nothing does."""
    reasons: tuple[str, ...] = ()
    succeeded: int = 0
    """Number of checks that succeeded."""


def judge(run: str, side: str, scenario: str, folder: Path, code: int = 0, by: str = "") -> Verdict:
    """Judge by the checks that the suite left in the newest folder of a scenario, and by its exit code."""
    files = sorted(folder.glob(f"**/{side}-{scenario}-2*/checks.json" if side == "server" else "**/checks.json"))
    checks = json.loads(files[-1].read_text()) if files else []
    reasons = [
        f"{check['status']} {check['id']}: {' '.join(str(check.get('errorMessage', '')).split())[:300]}"
        for check in checks
        if check["status"] in ("FAILURE", "WARNING")
    ]
    # Validity of the messages is checked along with every scenario: by itself it says nothing of this one.
    told = [check["status"] for check in checks if check["id"] != "wire-schema-valid"]
    if not any(status in ("SUCCESS", "FAILURE", "WARNING") for status in told):
        reasons.append("nothing was checked")
    if code and not any(status in ("FAILURE", "WARNING") for status in told):
        # Also where nothing was checked: a negative number is the signal that ended it.
        reasons.append(f"the suite ended with {code}")
    good = sum(check["status"] == "SUCCESS" for check in checks)
    return Verdict(
        run=run, side=side, scenario=scenario, passed=not reasons, by=by, reasons=tuple(reasons), succeeded=good
    )


def lost(verdicts: Iterable[Verdict], baseline: Baseline) -> list[str]:
    """List what has fewer successful checks behind something than directly, also if it was not played there at all."""
    seen = list(verdicts)
    direct = {(one.run, one.scenario): one.succeeded for one in seen if not one.by}
    behind = {(one.by, one.run, one.scenario): one.succeeded for one in seen if one.by}
    return [
        f"{run} {scenario} behind {by}: {succeeded} of {before} checks"
        for by, run in dict.fromkeys((one.by, one.run) for one in seen if one.by)
        for (as_run, scenario), before in direct.items()
        if as_run == run
        and (succeeded := behind.get((by, run, scenario), 0)) < before
        and (by, scenario) not in baseline.behind
    ]


class Baseline:
    """What is known not to be supported, and why."""

    def __init__(self, path: Path) -> None:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
        entries = tables["unsupported"]
        self.behind: dict[tuple[str, str], str] = {
            (entry["by"], scenario): entry["reason"]
            for entry in tables.get("behind", ())
            for scenario in entry["scenarios"]
        }
        """What only a direct connection can show, and why."""
        self._reasons: dict[tuple[str, str], str] = {
            (entry["side"], scenario): entry["reason"] for entry in entries for scenario in entry["scenarios"]
        }

    def reason(self, verdict: Verdict) -> str | None:
        """Say why a scenario is not supported; ``None`` if it is expected to pass."""
        known = self.behind.get((verdict.by, verdict.scenario))
        return self._reasons.get((verdict.side, verdict.scenario)) if known is None else known

    def stale(self, verdicts: Iterable[Verdict]) -> list[str]:
        """List the entries that are wrong: of a scenario that passed, or that was not played at all."""
        seen = list(verdicts)
        failed = {(one.side, one.scenario) for one in seen if not one.passed}
        passed = {(one.side, one.scenario) for one in seen if one.passed}
        return [
            f"{side} {name}" for side, name in self._reasons if (side, name) in passed or (side, name) not in failed
        ]
