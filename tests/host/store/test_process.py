"""The name of a process, and what can be known of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from antiphon.host.store import process
from antiphon.host.store.process import is_gone, is_own, named


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
    monkeypatch.setattr(process, "_BOOT", Path("nowhere"))
    process._place.cache_clear()
    name = named()
    process._place.cache_clear()
    assert (len(name), is_gone(name), is_own(name)) == (12, False, True)
