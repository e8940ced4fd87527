"""Ends all children and what they have started if *this* process is killed; a child that ignores its input stays.

One small shell runs beside all children, in a session of its own, and reads from a pipe whose other end only we hold.
It is told which groups there are. If the pipe closes without a word, this process is gone: the shell gives the children
time for an orderly end, terminates their groups, kills them, and then kills all processes that carry this process's
mark in their environment, even if they have left group and session, or if their server has ended before. Without
``/bin/sh`` nothing of this happens. It cannot reach processes of another user, nor those that have left the group with
an environment of their own (``reaper`` does); without ``/proc``, or a ``grep`` that knows ``-z``, none that have left
the group.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import subprocess
from collections.abc import Generator
from pathlib import Path

__all__ = ["GUARDIAN", "MARK", "Guardian", "left_behind"]

MARK = "ANTIPHON_CHILD"
"""Environment variable that marks a child, and what inherits its environment: the mark of the process, a point, and a
number of the child's own."""

_SHELL = "/bin/sh"

_SCRIPT = """
trap '' HUP INT TERM
groups=
grace=1
while read -r word group seconds; do
  case $word in
    watch) groups="$groups $group"; grace=$seconds ;;
    forget) kept=; for each in $groups; do [ "$each" = "$group" ] || kept="$kept $each"; done; groups=$kept ;;
    end) exit 0 ;;
  esac
done
sleep "$grace"
for each in $groups; do kill -s TERM -- "-$each" 2>/dev/null; done
sleep "$grace"
for each in $groups; do kill -s KILL -- "-$each" 2>/dev/null; done
case $1 in *[!0-9a-f]*) exit 1 ;; esac
[ "${#1}" -eq 32 ] || exit 1
for process in /proc/[0-9]*; do
  grep -qsz -- "^ANTIPHON_CHILD=$1[.][0-9][0-9]*$" "$process/environ" 2>/dev/null &&
    kill -s KILL "${process#/proc/}" 2>/dev/null
done
exit 0
"""
"""Its argument is the mark of the process. In a line: a group, and the seconds between two steps.

Only a whole variable with a whole mark counts (``-z``: an environment consists of texts that end with a zero byte), and
nothing is looked for with what is no mark: an empty one would fit processes of anybody.
"""

_CHILD_MARK = re.compile(r"[0-9a-f]{32}[.][0-9]+")


class Guardian:
    """Watches over the children of one process, as long as it has any, or is held."""

    def __init__(self) -> None:
        self._forget_all()

    @property
    def is_held(self) -> bool:
        """Whether this process answers for what its children leave behind, and not only for the children."""
        return self._holders > 0

    def new_mark(self) -> str:
        """Make the mark of one child."""
        self._marks += 1
        return f"{self.mark}.{self._marks}"

    def _forget_all(self) -> None:
        """Begin anew: in a process that was forked, the shell and the children are its parent's."""
        self.mark = secrets.token_hex(16)
        self._groups: dict[int, float] = {}
        self._marks = 0
        self._holders = 0
        self._process: subprocess.Popen[bytes] | None = None

    def copied(self) -> None:
        """Take note that this is a forked copy, which must not keep the shell from noticing its parent's end."""
        process = self._process
        self._forget_all()
        if process is not None:
            process.returncode = 0
            if process.stdin is not None:
                process.stdin.close()

    @contextlib.contextmanager
    def starting(self) -> Generator[None]:
        """Have the shell run before a child does: killed before ``watch``, this process leaves it to its mark."""
        with self.held():
            # The shell ignores this word; but it is started to be told.
            self._say("starting")
            yield

    def watch(self, group: int, grace: float) -> None:
        """Have a group ended when this process is killed. ``grace``: seconds for each step."""
        self._groups[group] = grace
        self._say(f"watch {group} {grace:g}")

    def forget(self, group: int) -> None:
        """Take note that a group is empty; its id may be another's soon."""
        if self._groups.pop(group, None) is not None:
            self._say(f"forget {group}")
            self._end_unneeded()

    @contextlib.contextmanager
    def held(self) -> Generator[None]:
        """Go on without children: what earlier ones have left behind is ended, too, when this process is killed."""
        self._holders += 1
        try:
            yield
        finally:
            self._holders -= 1
            self._end_unneeded()

    def _say(self, line: str) -> None:
        # A shell that somebody has ended is started again, and told of all groups there are.
        if not self._tell(line) and (self._groups or self._holders):
            self._start()
            for group, grace in self._groups.items():
                self._tell(f"watch {group} {grace:g}")

    def _tell(self, line: str) -> bool:
        process = self._process
        if process is None or process.stdin is None:
            return False
        try:
            process.stdin.write(f"{line}\n".encode())
        except (OSError, ValueError):
            # It has ended, or its pipe was closed.
            self._reap()
            return False
        return True

    def _start(self) -> None:
        if os.name != "posix" or not Path(_SHELL).exists():
            return
        with contextlib.suppress(OSError):
            self._process = subprocess.Popen(
                [_SHELL, "-c", _SCRIPT, "guardian", self.mark],
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

    def _end_unneeded(self) -> None:
        if not self._groups and not self._holders:
            self._reap()

    def _reap(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        if process.stdin is not None:
            process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(1.0)


def left_behind(mark: str) -> list[int]:
    """Return the processes that carry the mark of a child, where the system tells; reads each environment there is.

    Raises:
        ValueError: it is no mark of a child.
    """
    if not _CHILD_MARK.fullmatch(mark):
        raise ValueError(f"{mark!r} is no mark of a child")
    wanted = f"{MARK}={mark}".encode()
    found: list[int] = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if wanted in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found


GUARDIAN = Guardian()
"""That of this process."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=GUARDIAN.copied)
