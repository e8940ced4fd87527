"""The rules by which the official suite's findings are judged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conformance.verdicts import Baseline, Verdict, judge, lost


def found(folder: Path, *checks: tuple[str, str]) -> Path:
    """Leave findings as the suite does."""
    place = folder / "server-ping-2026-01-01T00-00-00-000Z"
    place.mkdir()
    (place / "checks.json").write_text(json.dumps([{"id": id, "status": status} for id, status in checks]))
    return folder


def verdict(*, passed: bool) -> Verdict:
    """Make a verdict on the scenario of the baseline below."""
    return Verdict(run="r", side="server", scenario="ping", passed=passed)


@pytest.fixture
def baseline(tmp_path) -> Baseline:
    """Say of one scenario that it is not supported."""
    file = tmp_path / "baseline.toml"
    file.write_text('[[unsupported]]\nside = "server"\nreason = "why"\nscenarios = ["ping"]\n')
    return Baseline(file)


def test_success_passes(tmp_path):
    """What only informs or was skipped beside it changes nothing."""
    checks = (("ping", "SUCCESS"), ("more", "INFO"), ("other", "SKIPPED"))
    assert judge("r", "server", "ping", found(tmp_path, *checks)).passed


@pytest.mark.parametrize("status", ["FAILURE", "WARNING"])
def test_a_failure_and_a_warning_count(tmp_path, status):
    """The suite itself lets warnings pass."""
    assert not judge("r", "server", "ping", found(tmp_path, ("a", "SUCCESS"), ("b", status))).passed


def test_nothing_checked_is_no_success(tmp_path):
    """Valid messages say nothing of a scenario whose own checks were skipped."""
    checks = (("wire-schema-valid", "SUCCESS"), ("own", "SKIPPED"))
    assert judge("r", "server", "ping", found(tmp_path, *checks)).reasons == ("nothing was checked",)


def test_a_suite_that_was_ended_says_by_what(tmp_path):
    """Nothing was checked because it was killed, not because it skipped."""
    assert judge("r", "client", "ping", tmp_path, -9).reasons == ("nothing was checked", "the suite ended with -9")


def test_no_findings_are_no_success(tmp_path):
    """A scenario that was cut short leaves none."""
    assert not judge("r", "server", "ping", tmp_path).passed


def test_the_exit_code_counts(tmp_path):
    """A client may do everything right and then end badly."""
    assert judge("r", "server", "ping", found(tmp_path, ("a", "SUCCESS")), 1).reasons == ("the suite ended with 1",)


def test_a_reason_is_looked_up(baseline):
    """By side and scenario."""
    assert baseline.reason(verdict(passed=False)) == "why"


def test_an_entry_that_is_needed_stays(baseline):
    """While its scenario fails."""
    assert baseline.stale([verdict(passed=False)]) == []


@pytest.mark.parametrize("verdicts", [[], [verdict(passed=True)], [verdict(passed=True), verdict(passed=False)]])
def test_an_entry_that_is_wrong_is_stale(baseline, verdicts):
    """Its scenario passes, in one run at least, or is gone."""
    assert baseline.stale(verdicts) == ["server ping"]


def seen(scenario: str, succeeded: int, by: str = "") -> Verdict:
    """Make a verdict with a number of checks."""
    return Verdict(run="r", side="server", scenario=scenario, passed=True, by=by, succeeded=succeeded)


def test_a_check_that_is_lost_behind_something_is_said(baseline):
    """As many as directly are enough."""
    verdicts = [seen("ping", 2), seen("log", 3), seen("ping", 1, "gateway"), seen("log", 3, "gateway")]
    assert lost(verdicts, baseline) == ["r ping behind gateway: 1 of 2 checks"]


def test_a_scenario_that_is_not_played_there_has_lost_its_checks(baseline):
    """Where others of the same run are."""
    verdicts = [seen("ping", 2), seen("log", 3), seen("log", 3, "replicas")]
    assert lost(verdicts, baseline) == ["r ping behind replicas: 0 of 2 checks"]


def test_what_only_a_direct_connection_shows_is_not_lost(tmp_path):
    """The baseline names it, for one place."""
    file = tmp_path / "baseline.toml"
    file.write_text('unsupported = []\n[[behind]]\nby = "gateway"\nreason = "why"\nscenarios = ["ping"]\n')
    verdicts = [seen("ping", 2), seen("ping", 1, "gateway"), seen("ping", 1, "replicas")]
    assert lost(verdicts, Baseline(file)) == ["r ping behind replicas: 1 of 2 checks"]
    assert Baseline(file).reason(verdicts[1]) == "why"
