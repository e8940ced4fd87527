"""The name of a process that uses a store, and what can be said of it: that it runs, or that it is certainly gone.

Owns the name alone: a random part with the moment the process began, and where it can be known, which machine and which
process it is. Of a process of another machine, or of which nobody can say, only its lease tells; see ``lease``.
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
"""Where the moment it began stands after the name in ``/proc/PID/stat``, see proc(5): field 22, the state being 3."""


def named() -> str:
    """Make a name for this process: ``"75a5aacde519t8823-1f2e3d4c-12345"``, or its random part alone."""
    place = _place()
    if place is None:
        return token_hex(6)
    began = _began(os.getpid())
    return f"{token_hex(6)}{'' if began is None else f't{began}'}-{place}-{os.getpid()}"


def is_own(name: str) -> bool:
    """Tell whether this process may use a name: one that was made before a fork is the parent's."""
    pid = _pid(name)
    return pid is None or pid == os.getpid()


def is_gone(name: str) -> bool:
    """Tell whether the process of this name is certainly gone: it ended, or its number is another's now."""
    pid = _pid(name)
    return pid is not None and not _lives(name, pid)


def is_running(name: str) -> bool:
    """Tell whether the process of this name certainly runs on this machine, even if it stands still.

    Of this process itself that says nothing: a store that it no longer serves keeps the number of the process.
    """
    pid = _pid(name)
    return pid is not None and pid != os.getpid() and "t" in name.partition("-")[0] and _lives(name, pid)


def _lives(name: str, pid: int) -> bool:
    """Tell whether a process of this number is there and, as far as can be seen, is the one that was named."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        # It is somebody else's, and there.
        pass
    status = _status(pid)
    if status is None:
        # There, but not to be seen: /proc may be hidden (hidepid).
        return True
    _, _, began = name.partition("-")[0].partition("t")
    # A zombie waits for its parent only, and does nothing more.
    return status[0] != "Z" and began in ("", status[_BEGAN])


def _began(pid: int) -> str | None:
    """Return when a process began, in ticks since the machine did."""
    status = _status(pid)
    return None if status is None else status[_BEGAN]


def _status(pid: int) -> list[str] | None:
    """Return what follows the name of a process in its status; ``None`` where it cannot be read."""
    try:
        told = (_PROCESSES / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = told.rpartition(")")[2].split()
    return fields if len(fields) > _BEGAN else None


def _pid(name: str) -> int | None:
    """Return the number of a process that runs, or ran, among those that this one can see."""
    _, _, rest = name.partition("-")
    place, _, number = rest.partition("-")
    # A number of nine digits is no process, and 0 would be all of a group.
    known = place and place == _place() and number.isascii() and number.isdigit() and 0 < len(number) < 9
    return int(number) or None if known else None


@cache
def _place() -> str | None:
    """Name the numbering that the number of a process belongs to; ``None`` where that cannot be told.

    Linux only: one start of one machine, and one of its namespaces. Elsewhere to ask the same has side effects.
    """
    try:
        told = f"{_BOOT.read_text(encoding='ascii').strip()} {_NAMESPACE.readlink()}"
    except (OSError, ValueError):
        return None
    return hashlib.sha256(told.encode()).hexdigest()[:8]
