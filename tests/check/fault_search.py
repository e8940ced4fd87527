"""Looks for one fault of a server: at its place, and no other error beside it."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from antiphon.check import checkup
from antiphon.check.checkup import check_server
from antiphon.check.report import CheckReport
from antiphon.wire.revisions import LATEST, LATEST_LEGACY
from tests.check.faults import FAULTS
from tests.check.faulty_memory import FaultyServer
from tests.check.faulty_server import Fault
from tests.check.faulty_web import WebFault

ROOT = Path(__file__).parents[2]
PROCESSES = {
    "dies at once", "hangs at start", "hangs in a list", "ends in between", "banner", "giant line", "floods", "stays",
    "leaves children", "latin", "no fault", "other tools", "pretty print",
}  # fmt: skip
"""Faults that only a process has."""
SILENT = {"silent", "no answer", "no large messages", "no batches"}
MODERN_RULES = ("discover.", "result.", "asks.modern", "notify.log-unasked")
BATCHES = "2025-03-26"


def start(name: str) -> dict[str, object]:
    """Return the entry of the program with this fault."""
    return {"command": sys.executable, "args": ["-m", "tests.check.faults", name], "cwd": str(ROOT)}


def assert_found(report: CheckReport, fault: Fault | WebFault) -> None:
    """Look for the fault at its place, and for no other error."""
    found = [(one.rule, one.place, one.seen) for one in report.findings]
    assert [one for one in found if one[0] == fault.rule and fault.place in one[1]] or not fault.rule, found
    assert [(one.rule, one.place, one.seen) for one in report.errors if one.rule != fault.rule] == []
    assert {one.level for one in report.findings if one.rule == fault.rule} <= {fault.level}


def name_faults(*subjects: str) -> Iterable[str]:
    """Name the faults in messages whose rules are of these subjects."""
    return [
        name
        for name, fault in FAULTS.items()
        if name not in PROCESSES and (fault.rule.partition(".")[0] in subjects) == bool(fault.rule)
    ]


async def look_for_fault(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check a server in memory that has this fault, on a revision that has the rule."""
    if name in SILENT:
        monkeypatch.setattr(checkup, "START_WAIT", 2.0)
    fault = FAULTS[name]
    newest = LATEST if fault.rule.startswith(MODERN_RULES) else LATEST_LEGACY
    revision = BATCHES if fault.rule == "rpc.batch" else newest.name
    wait = 2.0 if name in SILENT else 30.0
    report = await check_server(FaultyServer(name), calls=["all"], timeout=wait, revision=revision)
    assert_found(report, fault)
