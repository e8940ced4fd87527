"""What is counted in instructions, without callgrind itself: its profiles are read, and its table is written."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks import instructions
from benchmarks.instructions import instructions_in, measured, rows, wrapped
from benchmarks.load.tally import WrongAnswer
from benchmarks.peers.catalogue import EARLIER, OURS, SERVERS


def test_the_total_is_read_from_the_profile_that_has_one(tmp_path: Path):
    """A dump that was asked for is a file of its own; the one that is written at the end may be empty."""
    (tmp_path / "profile.1").write_text("events: Ir\nsummary: 0\n0 12\ntotals: 1234\n")
    (tmp_path / "profile").write_text("events: Ir\ntotals: 0\n")
    assert instructions_in(tmp_path) == 1234


@pytest.mark.parametrize("text", ["", "totals: 0\n", "fn=(1) totals: 12\n"])
def test_a_profile_that_counted_nothing_is_no_result(tmp_path: Path, text: str):
    """Otherwise a call would cost nothing."""
    (tmp_path / "profile").write_text(text)
    with pytest.raises(WrongAnswer):
        instructions_in(tmp_path)


def test_a_command_runs_in_callgrind_with_hashes_in_order(tmp_path: Path):
    """What is no server stays none."""
    assert wrapped((), tmp_path, later=True) == ()
    peer = measured(SERVERS[OURS], tmp_path / "profile")
    assert peer.stdio[0] == "valgrind"
    assert "--instr-atstart=no" in peer.stdio
    assert peer.stdio[-2:] == SERVERS[OURS].stdio[-2:]
    assert peer.env["PYTHONHASHSEED"] == "0"


def test_a_row_that_costs_a_tenth_more_is_marked():
    """With one checkout there is nothing to compare."""
    table = rows({"one": {OURS: 111.0, EARLIER: 100.0}, "two": {OURS: 109.0, EARLIER: 100.0}})
    assert "| one | 111.0 | 100.0 | 1.110 **worse** |" in table
    assert "| two | 109.0 | 100.0 | 1.090 |" in table
    assert "before" not in rows({"one": {OURS: 111.0}})


def test_without_valgrind_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch):
    """Before anything is started."""
    monkeypatch.setattr(sys, "argv", ["instructions"])
    monkeypatch.setattr(instructions.shutil, "which", lambda _name: None)
    with pytest.raises(SystemExit, match="apt-get install valgrind"):
        instructions.main()
