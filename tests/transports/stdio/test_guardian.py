"""What becomes of a server when the process that started it is killed: real processes, not asked kindly."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from antiphon.transports.stdio.guardian import MARK, Guardian, new_mark
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


async def test_a_guardian_that_is_dismissed_does_nothing() -> None:
    """The number of the group may be another's by then."""
    other = await asyncio.to_thread(
        subprocess.Popen, [sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True
    )
    try:
        guardian = Guardian(other.pid, new_mark(), 0.0)
        process = guardian._process
        assert process is not None
        guardian.dismiss()
        guardian.dismiss()
        assert process.returncode is not None
        assert lives(other.pid)
    finally:
        other.kill()
        await asyncio.to_thread(other.wait)


async def test_a_guardian_reaches_those_that_carry_the_mark() -> None:
    """And no others: an empty group, one process with the mark, one without."""
    mark = new_mark()
    sleeping = [sys.executable, "-c", "import time; time.sleep(60)"]
    marked = await asyncio.to_thread(subprocess.Popen, sleeping, env={**os.environ, MARK: mark}, start_new_session=True)
    other = await asyncio.to_thread(subprocess.Popen, sleeping, start_new_session=True)
    try:
        await until(lambda: mark.encode() in Path(f"/proc/{marked.pid}/environ").read_bytes(), 60)
        # No process has this number: it is beyond the largest there can be.
        guardian = Guardian(2**22 + 1, mark, 0.0)
        process = guardian._process
        assert process is not None
        assert process.stdin is not None
        process.stdin.close()
        await asyncio.to_thread(process.wait)
        assert await asyncio.to_thread(marked.wait) == -signal.SIGKILL
        assert lives(other.pid)
    finally:
        for each in (marked, other):
            each.kill()
            await asyncio.to_thread(each.wait)
