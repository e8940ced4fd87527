"""What the system knows about processes."""

from __future__ import annotations

from pathlib import Path


def lives(pid: int) -> bool:
    """Tell whether a process runs; one that is dead and waits for its parent does not."""
    return state_of(pid) not in "ZX"


def state_of(pid: int) -> str:
    """Return the letter that the system has for the state of a process; "X" if there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    except (FileNotFoundError, ProcessLookupError):
        return "X"
    return stat.rpartition(")")[2].split()[0]
