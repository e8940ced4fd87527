"""Ends all children, and the processes that they have started, if *this* process is killed.

A child that does not notice the end of its input would otherwise go on. One small shell runs beside all children, in a
session of its own, and reads from a pipe whose other end only we hold. It is told which process groups there are. When
the pipe closes, this process is gone: the shell gives the children time for an orderly end, terminates their groups,
kills them, and then kills all processes that have the mark of this process in their environment, even if they have left
group and session, or if their server has ended before. Without ``/bin/sh`` nothing of this happens. The shell cannot
reach processes of another user, nor those that have left the group and have another environment (``reaper`` does).
Without ``/proc``, or a ``grep`` that knows ``-z``, it reaches none that have left the group.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import subprocess
from collections.abc import Generator
from pathlib import Path

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
        """Whether processes that children leave behind are ended, too, and not only the children."""
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
        """Forget the shell in a forked copy: a pipe that the copy holds open would hide its parent's end from it."""
        process = self._process
        self._forget_all()
        if process is not None:
            process.returncode = 0
            if process.stdin is not None:
                process.stdin.close()

    @contextlib.contextmanager
    def starting(self) -> Generator[None]:
        """Start the shell before a child: it finds the child by its mark if we are killed before ``watch``."""
        with self.held():
            # The shell ignores this word; sending it is what starts the shell.
            self._say("starting")
            yield

    def watch(self, group: int, grace: float) -> None:
        """Have a group ended when this process is killed. ``grace``: seconds for each step."""
        self._groups[group] = grace
        self._say(f"watch {group} {grace:g}")

    def forget(self, group: int) -> None:
        """Watch a group no longer, since it is empty: the system may give its id to other processes."""
        if self._groups.pop(group, None) is not None:
            self._say(f"forget {group}")
            self._end_unneeded()

    @contextlib.contextmanager
    def held(self) -> Generator[None]:
        """Keep the shell without children, too: it ends what earlier ones left behind if this process is killed."""
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


def find_left_behind(mark: str) -> list[int]:
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
"""The guardian of this process."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=GUARDIAN.copied)
