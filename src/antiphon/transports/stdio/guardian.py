"""Ends a child and all processes it has started if *this* process is killed; a child that ignores its input stays.

A small shell runs beside each child and reads from a pipe whose other end only we hold. If the pipe closes without a
word, this process is gone: the shell gives the child time for an orderly end, terminates its group, kills it, and then
kills all processes that carry the mark in the child's environment, even if they have left group and session. Without
``/bin/sh`` nothing of this happens. It cannot reach processes of another user, nor those that have left the group with
an environment of their own; without ``/proc``, none that have left the group.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
from pathlib import Path

__all__ = ["MARK", "Guardian", "new_mark"]

MARK = "ANTIPHON_CHILD"
"""Environment variable that marks a child and all processes that inherit its environment."""

_SHELL = "/bin/sh"

_SCRIPT = """
trap '' HUP INT TERM
read -r word && exit 0
sleep "$3"
kill -TERM -- "-$1" 2>/dev/null
sleep "$3"
kill -KILL -- "-$1" 2>/dev/null
for process in /proc/[0-9]*; do
  grep -qs -- "$2" "$process/environ" 2>/dev/null && kill -KILL "${process#/proc/}" 2>/dev/null
done
exit 0
"""
"""Its arguments: the group, the mark and the seconds between two steps."""


def new_mark() -> str:
    """Make a mark that no other child has."""
    return secrets.token_hex(16)


class Guardian:
    """Watches over one child. Call ``dismiss`` when nothing is left of the child's group."""

    __slots__ = ("_process",)

    def __init__(self, group: int, mark: str, grace: float) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        if os.name != "posix" or not Path(_SHELL).exists():
            return
        with contextlib.suppress(OSError):
            self._process = subprocess.Popen(
                [_SHELL, "-c", _SCRIPT, "guardian", str(group), f"{MARK}={mark}", f"{grace:g}"],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                cwd="/",
                env={"PATH": "/usr/local/bin:/usr/bin:/bin"},
                # A signal that ends our terminal's session must not end the shell before it has done
                # its work.
                start_new_session=True,
            )

    def dismiss(self) -> None:
        """End the watch, because the id of the group may be reused soon."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        if process.stdin is not None:
            process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(1.0)
