"""Which process is at the other end of a connection on this machine, as far as Linux tells.

A token that leaks to another process of the same user is worth nothing there: its connections do not come from the
process that the token was given to, nor from one that this has started. That is no sandbox: a process of the same user
has other ways to act as another one. Elsewhere than on Linux nothing is known, and the token alone counts.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections.abc import Iterator
from pathlib import Path

__all__ = ["has_other_peer", "protect_memory"]

_PROC = Path("/proc")
_SET_DUMPABLE = 4
"""``PR_SET_DUMPABLE`` of ``linux/prctl.h``."""


def protect_memory() -> None:
    """Keep other processes of the same user from reading the memory and the environment of this one, on Linux.

    The environment holds the vendors' keys that a server is not to have.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_SET_DUMPABLE, 0, 0, 0, 0)


def has_other_peer(port: int, ours: int, pid: int, *, proc: Path = _PROC) -> bool:
    """Tell whether a connection certainly comes from none of a process and those that it has started.

    Reads as many small files as there are processes: call it in a thread, once for each connection.

    Args:
        port: the port of the other end.
        ours: the port of this end.
        pid: the process.
        proc: the folder of processes.
    """
    inode = _inode(port, ours, proc)
    if inode is None:
        return False
    wanted = f"socket:[{inode}]"
    for each in _family(pid, proc):
        held = _sockets(proc / str(each))
        if held is None or wanted in held:
            return False
    return True


def _inode(port: int, ours: int, proc: Path) -> str | None:
    """Return the number of the socket that is the other end of a connection."""
    ends = (f":{port:04X}", f":{ours:04X}")
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in (proc / "net" / table).read_text().splitlines()[1:]:
                words = line.split()
                if len(words) > 9 and words[1].endswith(ends[0]) and words[2].endswith(ends[1]):
                    return words[9]
    return None


def _family(pid: int, proc: Path) -> Iterator[int]:
    """Yield a process, those below it, and those of the session that it leads."""
    parents: dict[int, int] = {}
    sessions: dict[int, int] = {}
    for folder in proc.glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            # The name of the program, in brackets, may hold anything.
            words = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
            parents[int(folder.name)], sessions[int(folder.name)] = int(words[1]), int(words[3])
    for each in parents:
        above = each
        for _ in range(len(parents)):
            if above == pid or sessions.get(above) == pid:
                yield each
                break
            above = parents.get(above, 0)
            if above == 0:
                break


def _sockets(folder: Path) -> set[str] | None:
    """Return what the files of a process are; ``None`` if it does not let others look, as one with secrets does."""
    found: set[str] = set()
    try:
        for each in (folder / "fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                found.add(str(each.readlink()))
    except PermissionError:
        return None
    except OSError:
        # It has ended.
        return found
    return found
