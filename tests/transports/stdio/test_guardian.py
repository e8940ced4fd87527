"""What becomes of a server when the process that started it is killed: real processes, not asked kindly."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from antiphon.transports.stdio.client import StdioClientChannel
from antiphon.transports.stdio.reaper import GUARDIAN, MARK, Guardian, find_left_behind
from tests.support.network import until
from tests.support.processes import lives

STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
if "leave" in sys.argv and os.fork() == 0:
    os.setsid()
    for stream in (0, 1, 2):
        os.close(stream)
open(sys.argv[1], "a").write(f"{os.getpid()}\\n")
while True:
    time.sleep(1)
"""

PARENT = """
import asyncio, os, sys
from antiphon.transports.stdio.client import StdioClientChannel

async def main():
    await StdioClientChannel.spawn([sys.executable, "-ISc", *sys.argv[1:]], grace=0.2)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def noted(notes: Path) -> list[int]:
    """Return the processes that have written themselves down."""
    return [int(line) for line in notes.read_text(encoding="ascii").splitlines()] if notes.exists() else []


@pytest.mark.parametrize("how", [[], ["leave"]], ids=["blocks and ignores SIGTERM", "has left the session as well"])
async def test_a_server_ends_with_the_killed_process_that_started_it(tmp_path: Path, how: list[str]) -> None:
    """It never reads its input, ignores what it can, and even leaves its group: it is gone all the same."""
    notes = tmp_path / "notes"
    command = [sys.executable, "-c", PARENT, STUBBORN, str(notes), *how]
    parent = await asyncio.to_thread(subprocess.Popen, command, stderr=subprocess.DEVNULL)
    try:
        await until(lambda: len(noted(notes)) == 1 + len(how), 60)
    finally:
        parent.send_signal(signal.SIGKILL)
        await asyncio.to_thread(parent.wait)
    await until(lambda: not any(lives(pid) for pid in noted(notes)), 30)


KILLED_BETWEEN = f"""
import os
from antiphon.transports.stdio.reaper import Guardian
Guardian.watch = lambda *_: os.kill(os.getpid(), 9)
{PARENT}"""


def naming(text: str) -> list[int]:
    """Return the processes whose command line has a text in it."""
    found: list[int] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if text.encode() in path.read_bytes():
                found.append(int(path.parent.name))
    return found


async def test_a_server_ends_with_a_process_that_is_killed_while_it_starts_it(tmp_path: Path) -> None:
    """Before anybody was told of the server's group: it is found by its mark."""
    notes = str(tmp_path / "notes")
    command = [sys.executable, "-c", KILLED_BETWEEN, STUBBORN, notes]
    parent = await asyncio.to_thread(subprocess.Popen, command, stderr=subprocess.DEVNULL)
    try:
        assert await asyncio.to_thread(parent.wait) == -signal.SIGKILL
        await until(lambda: not naming(notes), 30)
    finally:
        for pid in naming(notes):
            os.kill(pid, signal.SIGKILL)


SLEEPING = [sys.executable, "-c", "import time; time.sleep(600)"]


def shell(guardian: Guardian) -> subprocess.Popen[bytes]:
    """Return the process that watches."""
    process = guardian._process
    assert process is not None
    return process


def environment(process: subprocess.Popen[bytes]) -> bytes:
    """Return the variables that a process was started with."""
    return Path(f"/proc/{process.pid}/environ").read_bytes()


async def test_a_group_that_is_forgotten_is_left_alone() -> None:
    """Its number may be another's by then; and without any group nobody watches."""
    other = await asyncio.to_thread(subprocess.Popen, SLEEPING, start_new_session=True)
    watched = await asyncio.to_thread(subprocess.Popen, SLEEPING, start_new_session=True)
    try:
        guardian = Guardian()
        guardian.watch(other.pid, 0.0)
        guardian.watch(watched.pid, 0.0)
        process = shell(guardian)
        guardian.forget(other.pid)
        guardian.forget(other.pid)
        assert process.stdin is not None
        process.stdin.close()
        await asyncio.to_thread(process.wait)
        assert await asyncio.to_thread(watched.wait) == -signal.SIGTERM
        assert lives(other.pid)
        guardian.forget(watched.pid)
        assert guardian._process is None
    finally:
        for each in (other, watched):
            each.kill()
            await asyncio.to_thread(each.wait)


async def test_one_shell_watches_all_and_is_started_again() -> None:
    """Somebody may end it; the next word finds out."""
    guardian = Guardian()
    guardian.watch(2**22 + 1, 0.0)
    first = shell(guardian)
    guardian.watch(2**22 + 2, 0.0)
    assert shell(guardian) is first
    first.kill()
    await asyncio.to_thread(first.wait)
    guardian.watch(2**22 + 3, 0.0)
    assert shell(guardian) is not first
    with guardian.held():
        for number in (1, 2, 3):
            guardian.forget(2**22 + number)
        assert guardian._process is not None
    assert guardian._process is None


class CountingGuardian(Guardian):
    """Counts the shells that it starts."""

    shells = 0

    def _start(self) -> None:
        self.shells += 1
        super()._start()


def test_threads_that_start_children_at_once_share_one_shell() -> None:
    """A second shell that is dropped takes the process for killed, and kills the children of all threads."""
    guardian, together = CountingGuardian(), threading.Barrier(8)

    def start(group: int) -> None:
        together.wait()
        with guardian.starting():
            guardian.watch(group, 0.0)
            together.wait()
        guardian.forget(group)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(start, range(2**22 + 1, 2**22 + 9)))
    assert (guardian.shells, guardian._process) == (1, None)


async def test_a_guardian_reaches_those_that_carry_the_mark_and_no_others() -> None:
    """The mark has to be the whole value of the whole variable: a part of another is no mark."""
    guardian = Guardian()
    own = guardian.new_mark()
    others = [
        {},
        {MARK: ""},
        {MARK: own[:-3]},
        {MARK: f"{own} "},
        {f"OTHER_{MARK}": own},
        {"TEXT": f"{MARK}={own}"},
        {MARK: Guardian().new_mark()},
    ]
    started = [
        await asyncio.to_thread(subprocess.Popen, SLEEPING, env={**os.environ, **env}, start_new_session=True)
        for env in [{MARK: own}, *others]
    ]
    marked = started[0]
    try:
        await until(lambda: all(MARK.encode() in environment(each) for each in (*started[:1], *started[2:])), 60)
        # No process has this number: it is beyond the largest there can be.
        guardian.watch(2**22 + 1, 0.0)
        process = shell(guardian)
        assert process.stdin is not None
        process.stdin.close()
        assert await asyncio.to_thread(process.wait) == 0
        assert await asyncio.to_thread(marked.wait) == -signal.SIGKILL
        assert [each.poll() for each in started[1:]] == [None] * len(others)
        guardian.forget(2**22 + 1)
    finally:
        for each in started:
            each.kill()
            await asyncio.to_thread(each.wait)


@pytest.mark.parametrize("mark", ["", ".", "0" * 31, "0" * 31 + "*", "0" * 31 + "\n", "0" * 33, "0" * 32 + ".1"])
async def test_nothing_is_looked_for_with_what_is_no_mark(mark: str) -> None:
    """An empty mark, or a part of one, would fit processes that are nobody's children."""
    guardian = Guardian()
    guardian.mark = mark
    guardian.watch(2**22 + 1, 0.0)
    process = shell(guardian)
    assert process.stdin is not None
    process.stdin.close()
    assert await asyncio.to_thread(process.wait) == 1
    guardian.forget(2**22 + 1)


@pytest.mark.parametrize("mark", ["", ".1", "0" * 32, "0" * 31 + ".1", "0" * 32 + ".", "0" * 32 + ".1\n"])
def test_a_child_is_not_looked_for_without_a_mark_of_its_own(mark: str) -> None:
    """What is left behind is killed, so a mark that others could carry is refused."""
    with pytest.raises(ValueError, match="is no mark of a child"):
        find_left_behind(mark)


async def test_a_process_that_is_held_answers_for_what_a_child_left_behind(tmp_path: Path) -> None:
    """As a gateway does, which starts servers again and again; of another child nothing is touched."""
    notes = [tmp_path / "one", tmp_path / "other"]
    with GUARDIAN.held():
        one, other = [
            await StdioClientChannel.spawn([sys.executable, "-ISc", STUBBORN, str(note), "leave"], grace=0.1)
            for note in notes
        ]
        await until(lambda: all(len(noted(note)) == 2 for note in notes), 60)
        await one.close()
        await until(lambda: not any(lives(pid) for pid in noted(notes[0])))
        assert all(lives(pid) for pid in noted(notes[1]))
        await other.close()
        await until(lambda: not any(lives(pid) for pid in noted(notes[1])))


async def test_a_forked_copy_does_not_keep_the_shell_waiting() -> None:
    """As in a program that forks workers: the end of its parent is noticed all the same."""
    guardian = Guardian()
    guardian.watch(2**22 + 1, 0.0)
    process, mark = shell(guardian), guardian.mark
    guardian.copied()
    assert (guardian._process, guardian.mark == mark) == (None, False)
    await asyncio.to_thread(os.waitpid, process.pid, 0)
