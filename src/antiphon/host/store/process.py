"""The name of a process that uses a store, and whether it is certainly gone.

Owns the name alone: a random part, and where it can be known, which machine and which process it is. A process that is
of another machine, or of which nobody can say, counts as gone when its lease has ended; see ``recovery``.
"""

from __future__ import annotations

import hashlib
import os
from functools import cache
from pathlib import Path
from secrets import token_hex

__all__ = ["is_gone", "is_own", "named"]

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE = Path("/proc/self/ns/pid")


def named() -> str:
    """Make a name for this process: ``"75a5aacde519-1f2e3d4c-12345"``, or its random part alone."""
    place = _place()
    return token_hex(6) if place is None else f"{token_hex(6)}-{place}-{os.getpid()}"


def is_own(name: str) -> bool:
    """Tell whether this process may use a name: one that was made before a fork is the parent's."""
    pid = _pid(name)
    return pid is None or pid == os.getpid()


def is_gone(name: str) -> bool:
    """Tell whether the process of this name is certainly gone; where its number was given anew, it is not certain."""
    pid = _pid(name)
    if pid is None:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        # It is somebody else's, and there.
        return False
    return False


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
