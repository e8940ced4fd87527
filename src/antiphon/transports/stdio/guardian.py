"""Ends a child process and all it has started when *we* are killed: nobody else would, if it reads no end of its input.

A small shell stands beside each child and reads from a pipe whose other end only we hold. When that closes without a
word, we are gone: it gives the child the time of an orderly end, terminates its group, kills it, and then whatever
carries the mark that the child was started with, also if it has left group and session. Nothing of that happens where
there is no ``/bin/sh``. What it cannot reach: processes of another user, and those that were started with an
environment of their own and have left the group; without ``/proc`` all that have left it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
from pathlib import Path

__all__ = ["MARK", "Guardian", "new_mark"]

MARK = "ANTIPHON_CHILD"
"""Variable that marks a child and all that inherit its environment."""

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
"""Takes the group, the mark and the seconds between two steps."""


def new_mark() -> str:
    """Make a mark that no other child has."""
    return secrets.token_hex(16)


class Guardian:
    """Watches over one child. ``dismiss`` it once nothing is left of the child's group."""

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
                # What ends our terminal's session must not end it before it has done its work.
                start_new_session=True,
            )

    def dismiss(self) -> None:
        """End the watch. Its number may belong to another group soon."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        if process.stdin is not None:
            process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(1.0)
