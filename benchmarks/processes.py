"""The processes that are measured: started on a core, looked at, stopped. Linux, since it reads ``/proc``."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import IO

__all__ = ["ROOT", "Cores", "cpu_of", "environment", "family", "memory_of", "place", "start", "stop"]

ROOT = Path(__file__).parent.parent
PROC = Path("/proc")
PAGE = os.sysconf("SC_PAGE_SIZE")
GRACE = 3.0
"""Seconds a process gets to end by itself."""


class Cores:
    """Which core the load runs on, and which the servers: one each, so that neither takes time from the other."""

    def __init__(self) -> None:
        self.all = os.sched_getaffinity(0)
        first, *others = sorted(self.all)
        self.load, self.servers = {first}, {others[0] if others else first}
        self.apart = bool(others)
        """Whether there are two; on one core every figure is a mixture of both."""

    @contextlib.contextmanager
    def on(self, cores: set[int]) -> Generator[None, None, None]:
        """Be on these cores for a while: what is started meanwhile stays there."""
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, cores)
        try:
            yield
        finally:
            os.sched_setaffinity(0, before)


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Make the environment of a measured process: nothing of ours that changes how an interpreter or malloc works."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "MALLOC_", "NODE_"))}
    return kept | dict(more or {})


def start(
    command: Sequence[str],
    cores: Cores,
    *,
    env: Mapping[str, str],
    pipes: bool,
    log: IO[bytes] | int = subprocess.DEVNULL,
) -> subprocess.Popen[bytes]:
    """Start a server on its core, from the root of the repository; with pipes, or without any input and output."""
    end = subprocess.PIPE if pipes else subprocess.DEVNULL
    with cores.on(cores.servers):
        return subprocess.Popen(command, stdin=end, stdout=end, stderr=log, env=env, cwd=ROOT, bufsize=0)


def parents() -> dict[int, int]:
    """Map every process to its parent."""
    found: dict[int, int] = {}
    for folder in PROC.iterdir():
        if folder.name.isdecimal():
            # A process that ended meanwhile has no file any more. The name in brackets may contain anything.
            with contextlib.suppress(OSError):
                found[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    return found


def born(pid: int) -> str:
    """Say when a process started, as the kernel counts; empty if there is none."""
    try:
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def family(pid: int) -> list[int]:
    """List a process and everything it started."""
    tree = parents()
    found = [pid] if pid in tree else []
    for member in found:
        found += [child for child, parent in tree.items() if parent == member]
    return found


def cpu_of(pids: Sequence[int]) -> float:
    """Add up the seconds of CPU these processes used, threads that ended included."""
    total = 0.0
    for pid in pids:
        # The clock of another process, to the nanosecond; /proc counts in hundredths. See clock_getcpuclockid(3).
        with contextlib.suppress(OSError):
            total += time.clock_gettime((~pid << 3) | 2)
    return total


def memory_of(pids: Sequence[int]) -> int:
    """Add up the bytes of these processes that are in memory."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            total += int((PROC / str(pid) / "statm").read_text().split()[1]) * PAGE
    return total


def place(pids: Sequence[int], cores: set[int]) -> None:
    """Move processes, with all their threads, to these cores."""
    for pid in pids:
        with contextlib.suppress(OSError):
            for thread in (PROC / str(pid) / "task").iterdir():
                os.sched_setaffinity(int(thread.name), cores)


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a process and everything it started."""
    children = {pid: born(pid) for pid in family(process.pid)[1:]}
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(GRACE)
    process.kill()
    for pid, birth in children.items():
        # Children that outlived it, and not whoever has been given the number since.
        if birth and born(pid) == birth:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    process.wait()
