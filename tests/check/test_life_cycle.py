"""Programs that hang, flood, die or leave something behind: a check ends in findings, and leaves nothing itself."""

from __future__ import annotations

import pytest

from antiphon.check import checkup
from antiphon.check.checkup import check_server
from tests.check.fault_search import PROCESSES, assert_found, start
from tests.check.faults import FAULTS


@pytest.mark.parametrize("name", sorted(PROCESSES))
async def test_a_fault_of_a_process_is_found_at_its_place(name: str, monkeypatch: pytest.MonkeyPatch):
    """A program breaks one rule; the check names the rule and the place, and no other error."""
    hangs = name.startswith("hangs")
    if hangs:
        monkeypatch.setattr(checkup, "START_WAIT", 3.0)
    revision = "auto" if name == "no fault" else "2025-11-25"
    report = await check_server(start(name), timeout=3.0 if hangs else 30.0, revision=revision)
    assert_found(report, FAULTS[name])
