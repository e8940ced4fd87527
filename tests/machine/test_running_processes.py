"""Processes as others can be told of them, seen on real ones."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from pathlib import Path

import pytest

from antiphon.machine import running_processes
from antiphon.machine.running_processes import (
    find_growth,
    find_start,
    identify_place,
    is_running,
    list_listeners,
    measure_memory,
    show_command,
)


@pytest.fixture
def other() -> Iterator[subprocess.Popen[bytes]]:
    """Start a process that waits for a line once it is loaded, and end it afterwards."""
    command, pipe = [sys.executable, "-c", "print(flush=True); input()"], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        process.stdout.readline()
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


def test_what_a_process_holds_is_measured_and_named(other: subprocess.Popen[bytes]):
    """Memory of files does not count; where nothing can be seen, nothing is said."""
    held = measure_memory([other.pid])
    assert held is not None
    assert 1_000_000 < held < 100_000_000
    assert (measure_memory([other.pid, os.getpid()] * 2) or 0) > 2 * held
    assert measure_memory([2**22 + 1]) is None
    assert "input()" in show_command(other.pid)
    assert show_command(2**22 + 1) == f"process {2**22 + 1}"


@pytest.mark.usefixtures("nowhere")
def test_where_processes_cannot_be_seen_nothing_is_measured(other: subprocess.Popen[bytes]):
    """As on systems other than Linux."""
    assert measure_memory([other.pid]) is None
    assert list_listeners(80) == []


def test_who_listens_at_a_port_is_found():
    """Also at an address of IPv6; a connection to the port is no listener."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            assert list_listeners(port) == [os.getpid()]
    assert list_listeners(port) == []


async def test_growth_is_found_where_it_does_not_end():
    """What stops to grow, or is loaded once, is none; a step that fails ends the measurement."""
    kept: list[mmap] = []

    async def keep(size: int, most: int) -> bool:
        # Of the system: what the interpreter has left over from earlier tests would be taken first.
        kept.append(mmap(-1, size if len(kept) < most else 1, MAP_PRIVATE | MAP_ANONYMOUS))
        kept[-1].write(b"x" * len(kept[-1]))
        return True

    own = [os.getpid()]
    assert await find_growth(own, partial(keep, 1_000_000, 1000), 8) >= 96
    kept.clear()
    assert await find_growth(own, partial(keep, 1_000_000, 60), 8) == 0
    kept.clear()
    # The first round is not counted, and of each later one not more than 9 MB.
    assert await find_growth(own, partial(keep, 150_000_000, 1), 1) == 0
    assert await find_growth(own, partial(asyncio.sleep, 0, False), 1) == 0
