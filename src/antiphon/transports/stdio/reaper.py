"""Ends all children, and the processes that they have started, if *this* process is killed.

The guardian is one small shell beside all children, in a session of its own, that reads from a pipe whose other end
only we hold. It is told which process groups there are. When the pipe closes, this process is gone: the shell gives the
children time for an orderly end, terminates their groups, kills them, and then kills all processes that have the mark
of this process in their environment, even if they have left group and session, or if their server has ended before.
Without ``/bin/sh`` nothing of this happens. The shell cannot reach processes of another user, nor, without ``/proc`` or
a ``grep`` that knows ``-z``, any that have left the group.

The reaper starts children through a process of our own that adopts what they leave behind, on Linux.

A program can leave its group, its session and its environment, so that neither its group nor its mark finds it. But on
Linux what has lost its parent becomes a child of the nearest ancestor that asked for that (``PR_SET_CHILD_SUBREAPER``).
Such an ancestor must outlive us to be of use, so it is a copy of us, forked before there are threads: it starts the
children for us, and when we are gone or have ended, however that happens, it kills all its descendants. The guardian
beside it gives them time for an orderly end first.

On other systems, and in a process that has threads, children are started without it. Owns the reaper's process, and the
messages to and from it.
"""

from __future__ import annotations

import array
import contextlib
import errno
import gc
import itertools
import json
import os
import re
import secrets
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from antiphon.machine.running_processes import is_running

MARK = "ANTIPHON_CHILD"
"""Environment variable that marks a child, and what inherits its environment: the mark of the process, a point, and a
number of the child's own."""

_SHELL = "/bin/sh"

_SCRIPT = Path(__file__).with_name("guardian.sh").read_text("utf-8")

_CHILD_MARK = re.compile(r"[0-9a-f]{32}[.][0-9]+")


class Guardian:
    """Watches over the children of one process, of all its threads, as long as it has any, or is held."""

    def __init__(self) -> None:
        self.mark = secrets.token_hex(16)
        self._groups: dict[int, float] = {}
        self._marks = itertools.count(1)
        self._holders = 0
        # Two threads must not both start a shell: the one that is dropped would lose its input, take us for killed,
        # and kill all of our children by their marks.
        self._lock = threading.RLock()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_held(self) -> bool:
        """Whether processes that children leave behind are ended, too, and not only the children."""
        return self._holders > 0

    def new_mark(self) -> str:
        """Make the mark of one child."""
        return f"{self.mark}.{next(self._marks)}"

    def copied(self) -> None:
        """Begin anew in a forked copy: a pipe that the copy holds open would hide its parent's end from the shell."""
        process = self._process
        self.__init__()
        if process is not None:
            process.returncode = 0
            if process.stdin is not None:
                process.stdin.close()

    @contextlib.contextmanager
    def starting(self) -> Generator[None]:
        """Start the shell before a child: it finds the child by its mark if we are killed before ``watch``."""
        with self.held():
            with self._lock:
                # The shell ignores this word; sending it is what starts the shell.
                self._say("starting")
            yield

    def watch(self, group: int, grace: float) -> None:
        """Have a group ended when this process is killed. ``grace``: seconds for each step."""
        with self._lock:
            self._groups[group] = grace
            self._say(f"watch {group} {grace:g}")

    def forget(self, group: int) -> None:
        """Watch a group no longer, since it is empty: the system may give its id to other processes."""
        with self._lock:
            if self._groups.pop(group, None) is not None:
                self._say(f"forget {group}")
                self._end_unneeded()

    @contextlib.contextmanager
    def held(self) -> Generator[None]:
        """Keep the shell without children, too: it ends what earlier ones left behind if this process is killed."""
        with self._lock:
            self._holders += 1
        try:
            yield
        finally:
            with self._lock:
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

    Raises ``ValueError``: it is no mark of a child.
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


_SUBREAPER, _NAME = 36, 15
"""``PR_SET_CHILD_SUBREAPER`` and ``PR_SET_NAME`` of linux/prctl.h; a name, for ``ps``, has at most 15 characters."""

_LARGEST = 100_000
"""Most bytes of a message, half of what such a socket takes by default. A child with a larger environment is started
without the reaper."""

_ANSWERS = 30.0
"""Seconds in which it must answer: as long as a program on a slow file system may take to be loaded."""

_PATIENCE = 2.0
"""Seconds that children have to end after we are gone, beside twice the longest grace of any."""

_KILLING = 10.0
"""Seconds for which what remains is killed again and again, since a process can start others meanwhile."""


class Started:
    """A child of the reaper. It has those members of ``subprocess.Popen`` that are used here."""

    def __init__(self, reaper: Reaper, pid: int, stdin: int, stdout: int, stderr: int) -> None:
        self._reaper = reaper
        self.pid = pid
        self.stdin: IO[bytes] | None = os.fdopen(stdin, "wb", 0)
        self.stdout: IO[bytes] | None = os.fdopen(stdout, "rb", 0)
        self.stderr: IO[bytes] | None = os.fdopen(stderr, "rb", 0)
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return its exit code, ``-n`` if signal n ended it, ``None`` while it runs. Only then may its id be reused."""
        if self.returncode is None:
            self.returncode = self._reaper.reap(self.pid)
        return self.returncode

    def terminate(self) -> None:
        """Ask it to end."""
        os.kill(self.pid, signal.SIGTERM)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end. Raises ``subprocess.TimeoutExpired``: it still runs."""
        until = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
            with contextlib.suppress(OSError):
                ended = os.pidfd_open(self.pid)
                try:
                    select.select([ended], [], [], left)
                finally:
                    os.close(ended)
        return code


class Reaper:
    """The process that starts children, while ``running``."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._asking = threading.Lock()

    @contextlib.contextmanager
    def running(self) -> Generator[None]:
        """Start children through it within the block; call it before there are threads. Kills what is left after it."""
        forks = self._socket is None and _is_possible()
        pid = self._fork() if forks else None
        try:
            yield
        finally:
            if pid is not None:
                self.forget()
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, 0)

    def forget(self) -> None:
        """Close our end of the socket. Once no forked copy of us holds it either, the reaper takes us for gone."""
        held, self._socket = self._socket, None
        if held is not None:
            held.close()

    def start(
        self, command: Sequence[str], env: Mapping[str, str], cwd: str | Path | None, grace: float
    ) -> Started | None:
        """Start a child that leads a session of its own; ``None`` if it has to be started without the reaper.

        Raises ``OSError``: it cannot be started.
        """
        if self._socket is None:
            return None
        wanted = {"start": list(command), "env": dict(env), "cwd": str(cwd or Path.cwd()), "grace": grace}
        message = json.dumps(wanted).encode()
        if len(message) > _LARGEST:
            return None
        pipes = _make_pipes(3)
        theirs = [pipes[0][0], pipes[1][1], pipes[2][1]]
        ours = [pipes[0][1], pipes[1][0], pipes[2][0]]
        said = self._ask(message, theirs)
        for each in theirs if "pid" in said else (*theirs, *ours):
            os.close(each)
        if "errno" in said:
            raise OSError(said["errno"], said["text"], said["file"])
        return Started(self, said["pid"], *ours) if "pid" in said else None

    def reap(self, pid: int) -> int | None:
        """Return the exit code of a child, which is then gone; ``None`` while it runs."""
        said = self._ask(json.dumps({"reap": pid}).encode())
        if "code" in said:
            return said["code"]
        # Nobody knows it any more, if somebody has killed the reaper.
        return None if is_running(pid) else 255

    def _ask(self, message: bytes, pipes: Sequence[int] = ()) -> dict[str, Any]:
        """Return the answer; an empty one if there is no reaper any more."""
        with self._asking:
            held = self._socket
            if held is None:
                return {}
            try:
                rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", pipes))] if pipes else []
                held.sendmsg([message], rights)
                answer = held.recv(_LARGEST)
            except OSError as error:
                if error.errno == errno.EMSGSIZE:
                    # Nothing was sent: this system takes less at once.
                    return {}
                answer = b""
            if not answer:
                self.forget()
                return {}
            return json.loads(answer)

    def _fork(self) -> int:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        gc.freeze()
        pid = os.fork()
        if pid == 0:
            try:
                _ReaperSide(theirs).serve()
            finally:
                # Nothing of the copy's own (buffers, handlers of exit) may run twice.
                os._exit(0)
        theirs.close()
        ours.settimeout(_ANSWERS)
        self._socket = ours
        return pid


REAPER = Reaper()
"""The reaper of this process."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=GUARDIAN.copied)
    # A forked copy that holds the socket would hide our end from the reaper.
    os.register_at_fork(after_in_child=REAPER.forget)


def _make_pipes(count: int) -> list[tuple[int, int]]:
    """Make some pipes, or none if there are too many open files for all of them."""
    pipes: list[tuple[int, int]] = []
    try:
        pipes.extend(os.pipe() for _ in range(count))
    except OSError:
        for each in itertools.chain.from_iterable(pipes):
            os.close(each)
        raise
    return pipes


def _is_possible() -> bool:
    if sys.platform != "linux" or threading.active_count() > 1:
        # A copy of a process with threads has their locks, but not the threads.
        return False
    tells = hasattr(os, "pidfd_open") and Path(f"/proc/self/task/{os.getpid()}/children").exists()
    return tells and threading.current_thread() is threading.main_thread()


# --- in the process itself -------------------------------------------------------------------------------------------


class _ReaperSide:
    """The reaper's side. ``line``: to the process that it is a copy of."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._started: dict[int, subprocess.Popen[bytes]] = {}
        self._grace = 0.0
        gc.disable()
        os.setsid()
        self._woken = self._own_streams()
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
            # Install a handler instead of SIG_IGN: child processes inherit SIG_IGN but not handlers.
            if number == signal.SIGCHLD or signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, lambda _number, _frame: None)
        # Imported here, because only this process needs it.
        import ctypes

        prctl = ctypes.CDLL(None).prctl
        prctl(_SUBREAPER, 1, 0, 0, 0)
        prctl(_NAME, b"antiphon-reaper")

    def _own_streams(self) -> int:
        """Close all files of the copied process: whoever started that waits for the end of its output."""
        woken, wakes = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        kept = {0, 1, 2, self._line.fileno(), woken, wakes}
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        for file in [int(each.name) for each in Path("/proc/self/fd").iterdir()]:
            if file not in kept:
                with contextlib.suppress(OSError):
                    os.close(file)
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
        return woken

    def serve(self) -> None:
        """Serve until the other side has ended, and then end all descendants."""
        while True:
            ready, _, _ = select.select([self._line, self._woken], [], [])
            if self._woken in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._woken, 4096)
            if self._line in ready and not self._answer():
                break
            self._reap_adopted()
        self._line.close()
        self._end_all()

    def _answer(self) -> bool:
        """Answer one question; return whether there was one."""
        try:
            message, pipes, _, _ = socket.recv_fds(self._line, _LARGEST, 3)
        except OSError:
            return False
        if not message:
            return False
        asked: dict[str, Any] = json.loads(message)
        said = {"code": self._code_of(asked["reap"])} if "reap" in asked else self._start(asked, pipes)
        with contextlib.suppress(OSError):
            self._line.send(json.dumps(said).encode())
        return True

    def _start(self, asked: Mapping[str, Any], pipes: Sequence[int]) -> dict[str, Any]:
        stdin, stdout, stderr = pipes
        try:
            process = subprocess.Popen(
                asked["start"],
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                cwd=asked["cwd"],
                env=asked["env"],
                start_new_session=True,
            )
        except OSError as error:
            return {"errno": error.errno, "text": error.strerror, "file": error.filename}
        except ValueError as error:
            return {"errno": errno.EINVAL, "text": str(error), "file": None}
        finally:
            for each in pipes:
                os.close(each)
        self._started[process.pid] = process
        self._grace = max(self._grace, asked["grace"])
        return {"pid": process.pid}

    def _code_of(self, pid: int) -> int | None:
        process = self._started.get(pid)
        code = 255 if process is None else process.poll()
        if code is not None:
            self._started.pop(pid, None)
        return code

    def _reap_adopted(self) -> None:
        """Reap what was adopted and has ended. The children that were started stay until they are asked for."""
        for pid in _list_children(os.getpid()):
            if pid not in self._started:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)

    def _end_all(self) -> None:
        """Give the children time for the end that they get from the guardian, then kill all descendants."""
        until = time.monotonic() + 2 * self._grace + _PATIENCE
        while self._started and time.monotonic() < until:
            select.select([self._woken], [], [], 0.05)
            for pid in list(self._started):
                self._code_of(pid)
            self._reap_adopted()
        until = time.monotonic() + _KILLING
        while (left := _list_descendants(os.getpid())) and time.monotonic() < until:
            for pid in left:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            time.sleep(0.01)


def _list_children(pid: int) -> Iterator[int]:
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            yield from map(int, path.read_text().split())


def _list_descendants(pid: int) -> list[int]:
    found = list(_list_children(pid))
    for each in found:
        # The list grows meanwhile: one may be the child of another, at any depth.
        found.extend(_list_children(each))
    return found
