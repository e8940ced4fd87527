"""The name of a process that uses a store, and whether that process still runs.

A name has a random part with the time the process began and, where these can be found out, the machine and the process
id. For a process of another machine, or without that information, only its lease tells; see ``lease``.
"""

from __future__ import annotations

import hashlib
import os
from secrets import token_hex

from antiphon.machine import running_processes

__all__ = ["is_gone", "is_own", "is_running", "named"]


def named() -> str:
    """Make a name for this process: ``"75a5aacde519t8823-1f2e3d4c-12345"``, or its random part alone."""
    place = _place()
    if place is None:
        return token_hex(6)
    began = running_processes.began(os.getpid())
    return f"{token_hex(6)}{'' if began is None else f't{began}'}-{place}-{os.getpid()}"


def is_own(name: str) -> bool:
    """Tell whether a name belongs to this process. A name made before a fork is the parent's."""
    pid = _pid(name)
    return pid is None or pid == os.getpid()


def is_gone(name: str) -> bool:
    """Tell whether the process of a name has certainly ended, or its id is now that of another process."""
    pid = _pid(name)
    return pid is not None and not running_processes.is_running(pid, _began(name))


def is_running(name: str) -> bool:
    """Tell whether the process of a name certainly runs on this machine, even if it is suspended.

    Not for this process's own names: it may have stopped using a store under that name and still run.
    """
    pid = _pid(name)
    began = _began(name)
    return pid is not None and pid != os.getpid() and began != "" and running_processes.is_running(pid, began)


def _began(name: str) -> str:
    """Return when the process of a name began; empty in a name that does not say it."""
    return name.partition("-")[0].partition("t")[2]


def _pid(name: str) -> int | None:
    """Return the id of the process of a name, if it is in the process namespace that this process can see."""
    _, _, rest = name.partition("-")
    place, _, number = rest.partition("-")
    # No process id has nine digits, and 0 means a whole process group.
    known = place and place == _place() and number.isascii() and number.isdigit() and 0 < len(number) < 9
    return int(number) or None if known else None


def _place() -> str | None:
    """Return the id of the process namespace, or ``None`` if it cannot be found out."""
    told = running_processes.place()
    return None if told is None else hashlib.sha256(told.encode()).hexdigest()[:8]
