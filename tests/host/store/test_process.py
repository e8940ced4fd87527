"""The name of a process, and what can be known of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from antiphon.host.store.process import is_gone, is_own, is_running, named
from antiphon.machine import running_processes


@pytest.fixture
def place() -> str:
    """Return what a name of this machine has in its middle."""
    return named().split("-")[1]


def test_a_name_is_used_once():
    """It is our own, and we are there."""
    assert named() != named()
    assert (is_own(named()), is_gone(named())) == (True, False)


def test_a_process_that_ended_is_gone(place: str):
    """And one that runs is not, whoever it belongs to; its name is not ours."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        name = f"x-{place}-{other.pid}"
        assert (is_gone(name), is_own(name)) == (False, False)
        other.communicate(b"\n")
    assert is_gone(name)


def test_one_that_runs_is_known_to_even_if_it_stands_still():
    """Stopped, it may go on at any time; killed and not yet waited for, it will not."""
    code = "from antiphon.host.store.process import named; print(named(), flush=True); input()"
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        name = other.stdout.readline().strip()
        other.send_signal(signal.SIGSTOP)
        assert (is_running(name), is_gone(name)) == (True, False)
        other.kill()
        os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
        assert (is_running(name), is_gone(name)) == (False, True)
    assert not is_running(named())


def test_a_number_that_was_given_anew_is_not_the_process(place: str):
    """It began at another moment; a name of an earlier version, which has none, is judged by its lease."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        for name, running, gone in (("xt1", False, True), ("x", False, False)):
            named_so = f"{name}-{place}-{other.pid}"
            assert (is_running(named_so), is_gone(named_so)) == (running, gone)
        other.communicate(b"\n")


def test_where_processes_are_hidden_a_number_that_is_there_is_believed(monkeypatch: pytest.MonkeyPatch):
    """As by ``hidepid``."""
    # Which also finds out where it is.
    name = named()
    monkeypatch.setattr(running_processes, "_PROCESSES", Path("nowhere"))
    assert not is_gone(name)


def test_one_that_may_not_be_asked_is_there(place: str, monkeypatch: pytest.MonkeyPatch):
    """It belongs to somebody else."""

    def denied(pid: int, signal: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", denied)
    assert not is_gone(f"x-{place}-1")


@pytest.mark.parametrize(
    "rest", ["", "-", "-00000000-1", "-{place}-", "-{place}-0", "-{place}--1", "-{place}-" + "9" * 30]
)
def test_of_others_nobody_can_say(rest: str, place: str, monkeypatch: pytest.MonkeyPatch):
    """Another machine, or no number of a process: nothing is asked."""
    monkeypatch.setattr(os, "kill", None)
    name = "x" + rest.format(place=place)
    assert (is_gone(name), is_own(name)) == (False, True)


def test_where_it_cannot_be_told_a_name_says_nothing(monkeypatch: pytest.MonkeyPatch):
    """On other systems: the lease alone counts then."""
    monkeypatch.setattr(running_processes, "place", lambda: None)
    name = named()
    assert (len(name), is_gone(name), is_own(name)) == (12, False, True)
