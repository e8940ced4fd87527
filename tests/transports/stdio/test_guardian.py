"""What becomes of a server when the process that started it is killed: real processes, not asked kindly."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from antiphon.transports.stdio.client import StdioClientChannel
from antiphon.transports.stdio.guardian import GUARDIAN, MARK, Guardian
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


SLEEPING = [sys.executable, "-c", "import time; time.sleep(20)"]


def shell(guardian: Guardian) -> subprocess.Popen[bytes]:
    """Return the process that watches."""
    process = guardian._process
    assert process is not None
    return process


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


async def test_a_guardian_reaches_those_that_carry_the_mark() -> None:
    """And no others: an empty group, one process with the mark, one without."""
    guardian = Guardian()
    marked = await asyncio.to_thread(
        subprocess.Popen, SLEEPING, env={**os.environ, MARK: guardian.mark}, start_new_session=True
    )
    other = await asyncio.to_thread(subprocess.Popen, SLEEPING, start_new_session=True)
    try:
        await until(lambda: guardian.mark.encode() in Path(f"/proc/{marked.pid}/environ").read_bytes(), 60)
        # No process has this number: it is beyond the largest there can be.
        guardian.watch(2**22 + 1, 0.0)
        process = shell(guardian)
        assert process.stdin is not None
        process.stdin.close()
        await asyncio.to_thread(process.wait)
        assert await asyncio.to_thread(marked.wait) == -signal.SIGKILL
        assert lives(other.pid)
        guardian.forget(2**22 + 1)
    finally:
        for each in (marked, other):
            each.kill()
            await asyncio.to_thread(each.wait)


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
