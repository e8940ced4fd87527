"""What the system knows about processes."""

from __future__ import annotations

from pathlib import Path


def lives(pid: int) -> bool:
    """Tell whether a process runs; one that is dead and waits for its parent does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"
