"""What children leave behind ends with the process that started them, whatever it did to hide: real processes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from antiphon.transports.stdio.reaper import Reaper
from tests.support import hiding
from tests.support.network import until
from tests.support.processes import lives

PARENT = """
import asyncio, json, os, sys
from antiphon.transports.stdio.client import Child
from antiphon.transports.stdio.reaper import REAPER

async def main():
    child = Child(sys.argv[2:], env=dict(os.environ), cwd=None, grace=0.3)
    ended = asyncio.Event()
    child.on_exit = ended.set
    child.process.stdout.readline()
    print(child.process.pid, flush=True)
    if sys.argv[1] == "waits":
        await asyncio.Event().wait()
    child.process.stdin.close()
    await ended.wait()
    await child.end()
    child.kill()
    print(json.dumps({"code": child.returncode, "is": type(child.process).__name__}), flush=True)

with REAPER.running():
    asyncio.run(main())
"""


def parent(folder: Path, how: str) -> subprocess.Popen[str]:
    """Start a process whose child leaves another one behind."""
    hides = [sys.executable, "-IS", hiding.__file__, str(folder / "note"), "started"]
    command = [sys.executable, "-c", PARENT, how, *hides]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)


async def hidden(folder: Path) -> int:
    """Return the process that was left behind, once it runs."""
    note = folder / "note"
    await until(lambda: note.exists() and note.read_text().endswith("\n"), 60)
    return int(note.read_text())


async def test_what_hides_ends_with_the_killed_process(tmp_path: Path) -> None:
    """Nothing leads to it but its parent, which is the process that adopts; and the child itself is gone, too."""
    process = await asyncio.to_thread(parent, tmp_path, "waits")
    try:
        assert process.stdout is not None
        child = int(await asyncio.to_thread(process.stdout.readline))
        left = await hidden(tmp_path)
        assert lives(left)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        # Its output ends with it: nobody else holds it open.
        await asyncio.to_thread(process.communicate)
    await until(lambda: not lives(left) and not lives(child), 60)


async def test_an_orderly_end_leaves_nothing_either(tmp_path: Path) -> None:
    """The exit code of the child is known, and the process that adopts has ended before we have."""
    process = await asyncio.to_thread(parent, tmp_path, "ends")
    try:
        assert process.stdout is not None
        await asyncio.to_thread(process.stdout.readline)
        said: dict[str, Any] = json.loads(await asyncio.to_thread(process.stdout.readline))
        assert said == {"code": 7, "is": "Started"}
        left = await hidden(tmp_path)
        assert await asyncio.to_thread(process.wait, 60) == 0
        assert not lives(left)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        await asyncio.to_thread(process.communicate)


STARTS = """
import os, sys
from antiphon.transports.stdio.reaper import REAPER

with REAPER.running():
    if sys.argv[1] == "killed":
        reaper = int(open(f"/proc/self/task/{os.getpid()}/children").read().split()[0])
        os.kill(reaper, 9)
    variables = dict(os.environ, LONG="x" * (120_000 if sys.argv[1] == "long" else 1))
    try:
        started = REAPER.start(sys.argv[2:], variables, None, 0.1)
    except OSError as error:
        print(type(error).__name__, error.filename)
    else:
        print(started and (started.stdout.read(), started.wait(60), started.wait(60)))
"""


@pytest.mark.parametrize(
    ("how", "command", "said"),
    [
        ("", ["/bin/sh", "-c", "echo hi; exit 3"], "(b'hi\\n', 3, 3)"),
        ("", ["/bin/sh", "-c", "kill -9 $$"], "(b'', -9, -9)"),
        ("", ["/nowhere/program"], "FileNotFoundError /nowhere/program"),
        ("long", ["/bin/true"], "None"),
        ("killed", ["/bin/true"], "None"),
    ],
    ids=["ends", "is killed", "is not there", "has a large environment", "nobody adopts any more"],
)
async def test_a_child_is_as_any_child(how: str, command: list[str], said: str) -> None:
    """Its output, its end and its errors; ``None`` where it has to be started without."""
    words = [sys.executable, "-c", STARTS, how, *command]
    done = await asyncio.to_thread(subprocess.run, words, capture_output=True, text=True, timeout=120)
    assert (done.stdout.strip(), done.stderr) == (said, "")


FULL = """
import os, resource
from antiphon.transports.stdio.reaper import REAPER

with REAPER.running():
    used = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 4, used + 4))
    try:
        REAPER.start(["/bin/true"], {}, None, 0.1)
    except OSError as error:
        print(error.strerror, len(os.listdir("/proc/self/fd")) - used)
"""


async def test_what_cannot_be_started_for_open_files_leaves_none() -> None:
    """Otherwise each attempt would leave fewer for the next."""
    words = [sys.executable, "-c", FULL]
    done = await asyncio.to_thread(subprocess.run, words, capture_output=True, text=True, timeout=120)
    assert (done.stdout.strip(), done.stderr) == ("Too many open files 0", "")


def test_a_process_with_threads_is_not_copied() -> None:
    """Its copy would have their locks, and not them."""
    go_on = threading.Event()
    other = threading.Thread(target=go_on.wait)
    other.start()
    try:
        with Reaper().running() as _:
            reaper = Reaper()
            with reaper.running():
                assert reaper.start(["/bin/true"], {}, None, 1.0) is None
    finally:
        go_on.set()
        other.join()
