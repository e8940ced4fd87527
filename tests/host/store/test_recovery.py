"""What is put in order every few seconds, whether anything is out of it or not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, event

from antiphon.host.budget import Cap
from antiphon.host.store import recovery
from antiphon.host.store.base import BlockRow, Change
from antiphon.host.store.recovery import BEATS, LEASE, LeaseWatch, is_gone, is_own, is_running, name_process
from antiphon.host.store.tables import metadata
from antiphon.machine import running_processes
from tests.host.store.stores import Place, hold


def test_old_reviews_are_found_without_reading_all_of_them():
    """A store of 100,000 reviews is tidied by every process every few seconds: an index leads to what is too old."""
    plans: list[str] = []
    engine = create_engine("sqlite://")

    def explained(connection: Any, cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if statement.startswith("DELETE FROM reviews"):
            cursor.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)
            plans.extend(row[3] for row in cursor.fetchall())

    with engine.begin() as connection:
        metadata.create_all(connection)
        event.listen(engine, "before_cursor_execute", explained)
        recovery._tidy_store(connection, 1e9)
    engine.dispose()
    assert plans
    assert all("SEARCH reviews USING INDEX reviews_by_state" in plan for plan in plans), plans


async def test_what_many_ended_processes_left_is_settled_a_part_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One transaction reads and settles so many reservations; the next beat goes on."""
    monkeypatch.setattr("antiphon.host.store.recovery.SWEPT_AT_ONCE", 2)
    async with Place("sqlite", tmp_path) as place:
        async with place.open() as ended:
            for number in range(5):
                await ended.commit(Change(hold=hold(id=f"h{number}", money=1, tokens=1)))
        async with place.open() as store:
            left = [len(await store.holds())]
            for _ in range(2):
                await store.recover()
                left.append(len(await store.holds()))
            assert left == [3, 1, 0]


async def test_a_read_returns_so_many_rows_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever can write to a store fills no memory of those who read it; a block is found all the same."""
    for module in ("grant_tables", "money"):
        monkeypatch.setattr(f"antiphon.host.store.{module}.MAX_LISTED", 2)
    async with Place("sqlite", tmp_path) as place, place.open() as store:
        for number in range(3):
            await store.block(BlockRow(identity=f"command:{number}", target="x", since=float(number)))
            account = {f"total{number}": Cap(money=100)}
            await store.commit(Change(hold=hold(id=f"h{number}", caps=account)))
        assert [len(rows) for rows in (await store.blocks(), await store.holds(), await store.balances())] == [2, 2, 2]
        assert [row.identity for row in await store.blocks("command:2")] == ["command:2"]


@pytest.fixture
def place() -> str:
    """Return what a name of this machine has in its middle."""
    return name_process().split("-")[1]


def test_a_name_is_used_once():
    """It is our own, and we are there."""
    assert name_process() != name_process()
    assert (is_own(name_process()), is_gone(name_process())) == (True, False)


def test_a_process_that_ended_is_gone(place: str):
    """And one that runs is not, whoever it belongs to; its name is not ours."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        name = f"x-{place}-{other.pid}"
        assert (is_gone(name), is_own(name)) == (False, False)
        other.communicate(b"\n")
    assert is_gone(name)


def test_one_that_runs_is_known_to_even_if_it_stands_still():
    """Stopped, it may go on at any time; killed and not yet waited for, it will not."""
    code = "from antiphon.host.store.recovery import name_process; print(name_process(), flush=True); input()"
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        name = other.stdout.readline().strip()
        other.send_signal(signal.SIGSTOP)
        assert (is_running(name), is_gone(name)) == (True, False)
        other.kill()
        os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
        assert (is_running(name), is_gone(name)) == (False, True)
    assert not is_running(name_process())


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
    name = name_process()
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
    monkeypatch.setattr(running_processes, "identify_place", lambda: None)
    name = name_process()
    assert (len(name), is_gone(name), is_own(name)) == (12, False, True)


BEAT = LEASE / BEATS


def test_a_mark_that_stands_still_for_a_lease_is_silent():
    """Not before, and not at the first sight of it, however old it looks."""
    watch = LeaseWatch(LEASE)
    looks = [watch.silent({"a": -1e9}, BEAT * look) for look in range(BEATS + 1)]
    assert looks == [frozenset()] * BEATS + [{"a"}]


def test_a_mark_that_moves_begins_anew():
    """Forwards or backwards: the clock of the other may be set."""
    watch = LeaseWatch(LEASE)
    for look in range(BEATS):
        watch.silent({"a": 5.0, "b": 5.0}, BEAT * look)
    assert watch.silent({"a": 5.0, "b": 4.0}, BEAT * BEATS) == {"a"}
    assert watch.silent({"a": 5.0, "b": 4.0}, BEAT * BEATS * 2 - BEAT) == {"a"}


def test_the_time_in_which_the_one_that_looks_stood_still_does_not_count():
    """Both may have been stopped together, and this one be the first to wake."""
    watch = LeaseWatch(LEASE)
    watch.silent({"a": 1.0}, 0.0)
    assert watch.silent({"a": 1.0}, 3600.0) == frozenset()


def test_who_is_not_there_any_more_is_forgotten():
    """A name that comes back is new."""
    watch = LeaseWatch(LEASE)
    for look in range(BEATS):
        watch.silent({"a": 1.0}, BEAT * look)
    assert watch.silent({}, BEAT * BEATS) == frozenset()
    assert watch.silent({"a": 1.0}, BEAT * (BEATS + 1)) == frozenset()
