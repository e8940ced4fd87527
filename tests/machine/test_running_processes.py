"""Processes as others can be told of them, seen on real ones."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from antiphon.machine import running_processes
from antiphon.machine.running_processes import find_start, identify_place, is_running


@pytest.fixture
def other() -> Iterator[subprocess.Popen[bytes]]:
    """Start a process that waits for a line, and end it afterwards."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Take ``/proc`` away, as on another system or where it is hidden."""
    monkeypatch.setattr(running_processes, "_PROCESSES", Path("nowhere"))
    identify_place.cache_clear()
    yield
    identify_place.cache_clear()


def test_one_that_runs_is_the_one_that_began_then(other: subprocess.Popen[bytes]):
    """Another moment is another process, which had the number before."""
    since = find_start(other.pid)
    assert since is not None
    assert since.isdigit()
    assert [is_running(other.pid, each) for each in (since, "", "1")] == [True, True, False]


def test_one_that_stands_still_runs_and_one_that_was_killed_does_not(other: subprocess.Popen[bytes]):
    """Also before its parent has waited for it: it does nothing more."""
    other.send_signal(signal.SIGSTOP)
    assert is_running(other.pid)
    other.kill()
    os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
    assert not is_running(other.pid)
    other.wait()
    assert (is_running(other.pid), find_start(other.pid)) == (False, None)


@pytest.mark.parametrize("pid", [0, -1, -(2**40), 2**31, 2**70])
def test_a_number_of_no_process_is_none(pid: int, monkeypatch: pytest.MonkeyPatch):
    """Nothing is asked: it may mean all processes, or more than the system takes."""
    monkeypatch.setattr(os, "kill", None)
    assert not is_running(pid)


@pytest.mark.usefixtures("nowhere")
def test_where_nothing_can_be_seen_a_process_that_is_there_is_believed():
    """Its start and its place are not known then."""
    assert (is_running(os.getpid(), "1"), find_start(os.getpid()), identify_place()) == (True, None, None)


def test_a_place_is_the_same_for_all_its_processes():
    """It has the boot and the namespace of process ids."""
    code = "from antiphon.machine.running_processes import identify_place; print(identify_place())"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert told.stdout.strip() == identify_place()
