"""Targets, verdicts, the page, the exit status; on figures that were made up."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import run
from benchmarks.figures import Round
from benchmarks.forms import FULL, SHORT, turns
from benchmarks.peers.catalogue import EARLIER, OURS, Peer
from benchmarks.report import change, render
from benchmarks.results import Fault, Results
from benchmarks.targets import TARGETS, Target
from benchmarks.workloads.clients import CLIENT_KEYS
from benchmarks.workloads.wire import WORKLOADS

MACHINE = {"processor": "Some CPU", "cores": "2", "memory": "8 GiB", "system": "Linux 6", "python": "3.11.7"}
ECHO = Target(row="echo", workload="http-legacy-echo-16", other="python2", at_least=20)
TAIL = Target(row="tail", workload="http-legacy-echo-16", other="python2", figure="p99_us", at_most=0.05)


def figures(rate: float, *, load: float = 0.5) -> dict[str, float]:
    """Make up one measurement."""
    return {
        "rate": rate,
        "p50_us": 1e6 / rate,
        "p99_us": 2e6 / rate,
        "server_cpu_us": 1e6 / rate,
        "server_share": 1.0,
        "load_share": load,
        "others": 0.01,
        "stolen": 0.0,
        "slowed": 0.1,
        "tries": 1.0,
    }


def results(*rounds: Round, key: str = "http-legacy-echo-16", **more: object) -> Results:
    """Make up a run with one workload."""
    machine = {**MACHINE, "date": "2026-11-21"}
    return Results(form="short", machine=machine, versions={"python2": "mcp==2.3.0"}, rounds={key: [*rounds]}, **more)


def of_two(ours: float, theirs: float) -> Round:
    """Make up a round."""
    return {OURS: figures(ours), "python2": figures(theirs)}


@pytest.mark.parametrize(
    ("ours", "verdict"), [(2000, "met"), (2500, "met"), (1500, "missed by 25 %"), (1999, "missed by 1 %")]
)
def test_a_target_says_by_how_much_it_is_missed(ours: float, verdict: str):
    """In hundredths of the target, at least one."""
    assert ECHO.verdict(results(of_two(ours, 100))) == verdict


@pytest.mark.parametrize(("ours", "verdict"), [(2000, "met"), (1000, "missed by 100 %")])
def test_what_shall_be_small_is_missed_upwards(ours: float, verdict: str):
    """A tail of 0.1 where 0.05 is wanted is twice as long."""
    assert TAIL.verdict(results(of_two(ours, 100))) == verdict


def test_the_median_of_the_rounds_decides():
    """One bad round does not."""
    assert ECHO.verdict(results(of_two(2000, 100), of_two(100, 100), of_two(2100, 100))) == "met"


def test_a_row_without_the_other_is_not_measured():
    """Rather than met."""
    assert ECHO.verdict(results({OURS: figures(100)})) == "not measured"


def test_a_wrong_answer_takes_its_peer_out_of_the_row():
    """In every round, not only in that one."""
    fault = Fault(workload="http-legacy-echo-16", peer="python2", why="hello 8")
    found = results(of_two(2000, 100), of_two(2000, 100), faults=[fault])
    assert ECHO.verdict(found) == "not measured"
    page = render(found)
    assert "**Wrong or no answer**: official Python SDK 2 in `http-legacy-echo-16`" in page


def test_a_rate_that_the_load_bounds_is_marked():
    """The reader shall know."""
    saturated = {OURS: figures(3000, load=0.97), "python2": figures(100)}
    assert ECHO.bounded_by_load(results(saturated))
    assert "†" in next(line for line in render(results(saturated)).splitlines() if ">= 20" in line)
    assert not ECHO.bounded_by_load(results(of_two(2000, 100)))


def test_processor_time_is_shown_the_same_way_up():
    """More is better in both columns."""
    found = ECHO.by_cpu(results(of_two(2000, 100)))
    assert found is not None
    assert found.median == pytest.approx(20)


def test_the_page_begins_with_ratios_and_names_the_machine():
    """In general terms."""
    page = render(results(of_two(2100, 100), minutes=3.6))
    assert "Some CPU, 2 cores, 8 GiB, Linux 6, Python 3.11.7; 2026-11-21, short form, 4 minutes." in page
    assert "Peers: mcp==2.3.0." in page
    assert "21.0 (21.0 to 21.0) | 21.0 | met |" in page
    assert page.index("## Targets") < page.index("## Figures")
    assert "| official Python SDK 2 | 100 |" in page


@pytest.mark.parametrize(
    ("rate", "row"), [(95, "0.95 (0.95 to 0.95) | 1.05"), (80, "0.80 (0.80 to 0.80) **worse** | 1.25")]
)
def test_a_change_is_set_against_the_state_before_it(rate: float, row: str):
    """Both columns are now divided by before; more than a tenth slower is marked."""
    table = change(results({OURS: figures(rate), EARLIER: figures(100)}))
    assert f"| Streamable HTTP echo, 2025-11-25, 16 connections | {row} |" in table


def test_a_start_that_takes_longer_than_before_is_worse():
    """Of times and sizes, less is better."""
    rounds: Round = {OURS: {"load_ms": 120.0}, EARLIER: {"load_ms": 100.0}}
    assert "1.20 (1.20 to 1.20) **worse** |  |" in change(results(rounds, key="start"))


def test_being_behind_is_said():
    """Of the TypeScript SDKs."""
    page = render(results({OURS: figures(90), "ts1": figures(100), "ts2": figures(10)}))
    assert "0.90 (0.90 to 0.90) **behind** | 9.00 (9.00 to 9.00) |" in page
    assert "Ahead in 1 of 2." in page


def test_a_busy_machine_is_said():
    """Ratios by the clock are worth little then."""
    busy = {OURS: figures(100) | {"others": 0.4, "slowed": 0.8, "tries": 6.0}}
    page = render(results(busy, busy, busy, of_two(2000, 100)))
    assert "Other work took 40% of the machine meanwhile (at most 40%), and the same loop took 80% more" in page
    assert "a measurement was repeated: 3 of 5 were, and 3 stayed disturbed.\n**Too much" in page
    assert "Too much" not in render(results(of_two(2000, 100)))


def test_what_is_missing_is_said():
    """By name."""
    assert "Not measured: FastMCP 4 (not installed)." in render(results(missing={"fastmcp4": "not installed"}))


def test_every_target_is_of_something_that_is_measured():
    """No row can stay empty because of a name."""
    keys = {*(workload.key for workload in WORKLOADS), *CLIENT_KEYS, "start", "sessions"}
    assert {target.workload for target in TARGETS} | {target.under for target in TARGETS} - {""} <= keys
    assert len({workload.key for workload in WORKLOADS}) == len(WORKLOADS)


def test_a_part_of_a_run_shows_its_own_rows_only():
    """The others were not asked for."""
    page = render(results(of_two(2000, 100)))
    assert "Streamable HTTP echo, 2025-11-25, 16 connections" in page
    assert "1 MiB" not in page


def test_results_are_kept_in_a_file(tmp_path: Path):
    """A page can be written from it later."""
    kept = results(of_two(2000, 100), faults=[Fault(workload="w", peer="ts1", why="no")])
    kept.save(tmp_path / "kept.json")
    assert Results.load(tmp_path / "kept.json") == kept


def test_a_clean_run_writes_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """And says so by its status."""
    monkeypatch.setattr(run, "PAGE", tmp_path / "RESULTS.md")
    assert run.publish(results(of_two(2000, 100)), partly=False) == 0
    assert (tmp_path / "RESULTS.md").read_text(encoding="utf-8").startswith("# Results")


@pytest.mark.parametrize(("peer", "written"), [("ts1", True), (OURS, False), ("uvicorn", False)])
def test_a_wrong_answer_fails_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, peer: str, *, written: bool):
    """A peer's leaves the page with a gap; one of ours, or of a limit, leaves no page at all."""
    monkeypatch.setattr(run, "PAGE", tmp_path / "RESULTS.md")
    fault = Fault(workload="http-legacy-echo-16", peer=peer, why="hello 8")
    assert run.publish(results(of_two(2000, 100), faults=[fault]), partly=False) == 1
    assert (tmp_path / "RESULTS.md").exists() is written


def test_peers_take_turns():
    """Each round begins with the next; some come once only in the short form, and some not at all."""
    peers = {
        "a": Peer(title="A"),
        "b": Peer(title="B"),
        "late": Peer(title="Late", late=True),
        "full": Peer(title="Full", full=True),
    }
    assert [turns(peers, SHORT, number) for number in range(3)] == [["a", "b", "late"], ["b", "a"], ["a", "b"]]
    assert turns(peers, FULL, 1) == ["b", "late", "full", "a"]
