"""Looks for one fault of a server: at its place, and for no other finding."""

from __future__ import annotations

import sys
from pathlib import Path

from antiphon.check.check_report import CheckReport
from antiphon.check.checkup import check_server
from antiphon.wire.revisions import LATEST, LATEST_LEGACY
from tests.check.faults import FAULTS
from tests.check.faulty_memory import FaultyServer
from tests.check.faulty_server import Fault
from tests.check.faulty_web import WebFault

ROOT = Path(__file__).parents[2]
PROCESSES = {
    "dies at once", "hangs at start", "hangs in a list", "ends in between", "banner", "giant line", "floods", "stays",
    "ignores the signal", "leaves a child", "leaves a daemon", "grows with each request", "grows with a list",
    "grows at first", "starts slowly", "latin", "no fault", "other tools", "pretty print", "tells its environment",
    "ends when cancelled", "hangs when cancelled", "takes a lock", "takes a port", "needs a network",
    "dies late of a broken line",
}  # fmt: skip
"""Faults that only a process has."""
SILENT = {"silent", "no answer", "no large messages", "no batches", "hangs at start", "hangs in a list",
          "hangs when cancelled", "dies late of a broken line",
          "no end of line when cancelled"}  # fmt: skip
_MODERN_RULES = ("discover.", "result.", "asks.modern", "notify.unasked-log")
_BATCHES = "2025-03-26"


def start_faulty(name: str) -> dict[str, object]:
    """Return the entry of the program with this fault."""
    return {"command": sys.executable, "args": ["-m", "tests.check.faults", name], "cwd": str(ROOT)}


def assert_found(report: CheckReport, fault: Fault | WebFault) -> None:
    """Look for the fault at its place, and for nothing else."""
    found = [(one.rule.id, one.place, one.seen) for one in report.findings]
    assert not fault.rule or [one for one in found if one[0] == fault.rule and fault.place in one[1]], found
    assert [one for one in found if one[0] != fault.rule] == []
    assert {one.rule.severity for one in report.findings} <= {fault.level}


async def look_for_fault(name: str, *, in_process: bool) -> None:
    """Check a server that has this fault, on a revision that has the rule."""
    fault = FAULTS[name]
    newest = LATEST if fault.rule.startswith(_MODERN_RULES) else LATEST_LEGACY
    revision = _BATCHES if fault.rule == "rpc.batch" else newest.name
    target = start_faulty(name) if in_process else FaultyServer(name)
    calls = ['count={"text": "abc"}', "greet"]
    # The last tool that may be called is the one whose call is cancelled.
    report = await check_server(target, calls=calls, timeout=2.0 if name in SILENT else 30.0, revision=revision)
    assert_found(report, fault)
