"""Facts about processes of this machine: where one runs, when it began, whether it still runs, what memory it takes.

They come from Linux's ``/proc``. On other systems nothing is known, because testing a process id there can have side
effects.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

_PROCESSES = Path("/proc")
_GROWTH, MAX_GROWTH = 3 * 2**20, 96 * 2**20
"""Bytes that processes must grow by in each round to be looked at further, and in all: Node holds less garbage."""
_BEGAN = 19
"""Index of the start time after the name in ``/proc/PID/stat``; see proc(5): field 22, where the state is field 3."""


@cache
def identify_place() -> str | None:
    """Return a text for this boot of this machine and container, ``None`` if that cannot be found out."""
    try:
        boot = (_PROCESSES / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {(_PROCESSES / 'self/ns/pid').readlink()}"
    except (OSError, ValueError):
        return None


def find_start(pid: int) -> str | None:
    """Return when a process began, in clock ticks since the machine started; ``None`` if that is unknown."""
    status = _read_status(pid)
    return None if status is None else status[_BEGAN]


def is_running(pid: int, since: str = "") -> bool:
    """Return whether a process of this ``identify_place`` runs; ``since`` tells it from a later one with its id."""
    if not 0 < pid < 2**31:
        # No process, but a group of them, or more than the system takes.
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        # The process exists and belongs to another user.
        pass
    status = _read_status(pid)
    if status is None:
        # The process exists but its status is hidden (/proc with hidepid).
        return True
    # A zombie only waits for its parent, and does nothing more.
    return status[0] != "Z" and since in ("", status[_BEGAN])


def show_command(pid: int) -> str:
    """Return the beginning of the command line of a process; its id where that cannot be read."""
    with suppress(OSError):
        line = (_PROCESSES / str(pid) / "cmdline").read_bytes()[:200]
        return line.decode(errors="replace").replace("\0", " ").strip()
    return f"process {pid}"


def list_listeners(port: int) -> list[int]:
    """Return the ids of the processes that listen at a TCP port of this machine, as far as we may see them."""
    sockets, found = set[str](), list[int]()
    for path in (_PROCESSES / "net/tcp", _PROCESSES / "net/tcp6"):
        with suppress(OSError):
            rows = [line.split() for line in path.read_text(encoding="ascii").splitlines()[1:]]
            sockets |= {f"socket:[{row[9]}]" for row in rows if row[1].endswith(f":{port:04X}") and row[3] == "0A"}
    for folder in _PROCESSES.glob("[0-9]*"):
        with suppress(OSError):
            found += [int(folder.name)] * any(str(file.readlink()) in sockets for file in (folder / "fd").iterdir())
    return found


def measure_memory(pids: Sequence[int]) -> int | None:
    """Return the bytes that processes hold for themselves alone, or ``None`` if that is unknown or says nothing.

    It says nothing of runtimes that let hundreds of megabytes become garbage before they look at it.
    """
    total = 0
    for folder in [_PROCESSES / str(pid) for pid in pids]:
        with suppress(OSError):
            if any(name in (folder / "maps").read_bytes() for name in (b"/libjvm.so", b"/libcoreclr.so")):
                return None
            _, resident, shared, *_ = (folder / "statm").read_text(encoding="ascii").split()
            total += (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")
    return total or None


async def find_growth(pids: Sequence[int], step: Callable[[], Awaitable[object]], count: int) -> int:
    """Repeat a step in rounds of ``count`` while processes grow; return how often, or 0 if they stop, or it fails."""
    last, grown, rounds = 0, 0, -1
    while rounds * _GROWTH <= grown < MAX_GROWTH:
        for _ in range(count):
            if not await step():
                return 0
        size = measure_memory(pids) or 0
        # The first round loads code, and a later one may load a model: neither is growth.
        grown += min(size - last, 3 * _GROWTH) if rounds >= 0 else 0
        last, rounds = size, rounds + 1
    return rounds * count if grown >= MAX_GROWTH else 0


def _read_status(pid: int) -> list[str] | None:
    """Return the fields after the process's name in its status, or ``None`` if it cannot be read."""
    try:
        told = (_PROCESSES / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The name may contain spaces and brackets.
    fields = told.rpartition(")")[2].split()
    return fields if len(fields) > _BEGAN else None
