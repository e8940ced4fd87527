"""The name of a process that uses a store, and whether that process still runs.

A name has a random part with the time the process began and, where these can be found out, the machine and the process
id. For a process of another machine, or without that information, only its lease tells; see ``lease``.
"""

from __future__ import annotations

import hashlib
import os
from functools import cache
from pathlib import Path
from secrets import token_hex

__all__ = ["is_gone", "is_own", "is_running", "named"]

_PROCESSES = Path("/proc")
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE = Path("/proc/self/ns/pid")
_BEGAN = 19
"""Index of the start time after the name in ``/proc/PID/stat``; see proc(5): field 22, where the state is field 3."""


def named() -> str:
    """Make a name for this process: ``"75a5aacde519t8823-1f2e3d4c-12345"``, or its random part alone."""
    place = _place()
    if place is None:
        return token_hex(6)
    began = _began(os.getpid())
    return f"{token_hex(6)}{'' if began is None else f't{began}'}-{place}-{os.getpid()}"


def is_own(name: str) -> bool:
    """Tell whether a name belongs to this process. A name made before a fork is the parent's."""
    pid = _pid(name)
    return pid is None or pid == os.getpid()


def is_gone(name: str) -> bool:
    """Tell whether the process of a name has certainly ended, or its id is now that of another process."""
    pid = _pid(name)
    return pid is not None and not _lives(name, pid)


def is_running(name: str) -> bool:
    """Tell whether the process of a name certainly runs on this machine, even if it is suspended.

    Not for this process's own names: it may have stopped using a store under that name and still run.
    """
    pid = _pid(name)
    return pid is not None and pid != os.getpid() and "t" in name.partition("-")[0] and _lives(name, pid)


def _lives(name: str, pid: int) -> bool:
    """Tell whether a process with this id exists and, as far as can be seen, is the one that was named."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        # The process exists and belongs to another user.
        pass
    status = _status(pid)
    if status is None:
        # The process exists but its status is hidden (/proc with hidepid).
        return True
    _, _, began = name.partition("-")[0].partition("t")
    # A zombie only waits for its parent, and does nothing more.
    return status[0] != "Z" and began in ("", status[_BEGAN])


def _began(pid: int) -> str | None:
    """Return when a process began, in clock ticks since the machine started."""
    status = _status(pid)
    return None if status is None else status[_BEGAN]


def _status(pid: int) -> list[str] | None:
    """Return the fields after the process's name in its status, or ``None`` if it cannot be read."""
    try:
        told = (_PROCESSES / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = told.rpartition(")")[2].split()
    return fields if len(fields) > _BEGAN else None


def _pid(name: str) -> int | None:
    """Return the id of the process of a name, if it is in the process namespace that this process can see."""
    _, _, rest = name.partition("-")
    place, _, number = rest.partition("-")
    # No process id has nine digits, and 0 means a whole process group.
    known = place and place == _place() and number.isascii() and number.isdigit() and 0 < len(number) < 9
    return int(number) or None if known else None


@cache
def _place() -> str | None:
    """Return the id of the process namespace, or ``None`` if it cannot be found out.

    Linux only: one boot of one machine and one of its namespaces. On other systems, testing a process id can have side
    effects.
    """
    try:
        told = f"{_BOOT.read_text(encoding='ascii').strip()} {_NAMESPACE.readlink()}"
    except (OSError, ValueError):
        return None
    return hashlib.sha256(told.encode()).hexdigest()[:8]
