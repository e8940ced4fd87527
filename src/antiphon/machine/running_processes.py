"""Facts about processes of this machine that can be stored: where one runs, when it began, whether it still runs.

They come from Linux's ``/proc``. On other systems nothing is known, because testing a process id there can have side
effects.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

_PROCESSES = Path("/proc")
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


def _read_status(pid: int) -> list[str] | None:
    """Return the fields after the process's name in its status, or ``None`` if it cannot be read."""
    try:
        told = (_PROCESSES / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The name may contain spaces and brackets.
    fields = told.rpartition(")")[2].split()
    return fields if len(fields) > _BEGAN else None
