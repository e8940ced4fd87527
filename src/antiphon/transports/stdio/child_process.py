"""A child process and its process group: started, signalled and reaped, with nothing left behind.

Owns the process; the caller owns its three streams. On POSIX the child leads a group (and session) of its own, so that
a signal also reaches the processes it has started: ``npx`` and similar programs start shells in between.

The end of its stderr is kept for error reports, and its lines are passed on. This text is untrusted. It is bounded
here, but may contain terminal control sequences: code that shows it must remove them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TextIO, cast

from antiphon.errors import ConfigError
from antiphon.transports.stdio.guardian import GUARDIAN, MARK, find_left_behind
from antiphon.transports.stdio.reaper import REAPER, Started

POSIX = os.name == "posix"
TERMINATE = signal.SIGTERM
KILL = signal.SIGKILL if POSIX else signal.SIGTERM
LOOK_AGAIN = 0.01
"""Seconds between two checks whether a group is empty. There is no notification, since its members are not our
children."""


class Child:
    """A running process. Its ``on_exit`` is called once, in the loop, when it has ended and has been reaped.

    Other processes of its group are then terminated, and killed after ``grace`` seconds.

    Raises:
        ConfigError: it cannot be started; the message names the command.
    """

    def __init__(self, command: Sequence[str], *, env: Mapping[str, str], cwd: str | Path | None, grace: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._grace = grace
        self.on_exit: Callable[[], None] = lambda: None
        self._exit = asyncio.Event()
        self._empty = asyncio.Event()
        self._group_gone = False
        self._pidfd: int | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._mark = GUARDIAN.new_mark()
        # If this process is killed while it starts the child, the guardian ends the child.
        with GUARDIAN.starting():
            self.process: subprocess.Popen[bytes] | Started = _start_process(
                command, {**env, MARK: self._mark}, cwd, grace
            )
            GUARDIAN.watch(self.process.pid, grace)
        self._watch()

    @property
    def returncode(self) -> int | None:
        """The exit code, ``-n`` if signal n ended it, ``None`` while it runs."""
        return self.process.returncode

    async def end(self) -> None:
        """Make sure that the child and its group have ended. Its standard input should have been closed before.

        2025-11-25 basic/lifecycle, shutdown, stdio: wait for the server to exit, "sending SIGTERM if the server does
        not exit within a reasonable time", then "SIGKILL if the server does not exit within a reasonable time after
        SIGTERM". Each wait is ``grace`` seconds. Call ``kill`` afterwards, even if this is cancelled.
        """
        for number in (TERMINATE, KILL):
            if not await self._exits():
                self._signal(number)
        if await self._exits():
            await self._empty.wait()
        if GUARDIAN.is_held:
            await self._end_left_behind()

    async def _end_left_behind(self) -> None:
        """End what has left the group. A gateway starts servers again and again, so that it would accumulate."""
        for number in (TERMINATE, KILL):
            left = [pid for pid in await asyncio.to_thread(find_left_behind, self._mark) if _send_signal(pid, number)]
            until = self._loop.time() + self._grace
            while left and self._loop.time() < until:
                await asyncio.sleep(LOOK_AGAIN)
                left = [pid for pid in left if _send_signal(pid, 0)]
            if not left:
                return

    def kill(self) -> None:
        """Kill the group and reap the child now. Blocks meanwhile, at most a second."""
        self._signal(KILL)
        if self._timer is not None:
            self._timer.cancel()
        if self.returncode is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(1.0)
                self._note_exit()
        GUARDIAN.forget(self.process.pid)

    def _watch(self) -> None:
        """Have ``_exited`` called when the child ends: by a pidfd if the system has them, else by a thread."""
        if hasattr(os, "pidfd_open"):
            with contextlib.suppress(OSError):
                self._pidfd = os.pidfd_open(self.process.pid)
                self._loop.add_reader(self._pidfd, self._note_exit)
                return
        threading.Thread(target=self._wait, name="antiphon-child", daemon=True).start()

    def _wait(self) -> None:
        self.process.wait()
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._note_exit)

    def _note_exit(self) -> None:
        if self._exit.is_set():
            return
        self._exit.set()
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
        # Until the child is reaped, its process id, which is also the group's, cannot be reused.
        self._signal(TERMINATE)
        self.process.poll()
        self._look_at_group(self._loop.time() + self._grace)
        self.on_exit()

    async def _exits(self) -> bool:
        """Wait for the child's end, up to ``grace`` seconds; return whether it ended."""
        try:
            async with asyncio.timeout(self._grace):
                await self._exit.wait()
        except TimeoutError:
            return False
        return True

    def _look_at_group(self, until: float) -> None:
        """Check repeatedly whether the group still has processes, and kill them when their time is over."""
        if not self._group_lives():
            # Its id may be reused from now on.
            GUARDIAN.forget(self.process.pid)
            self._empty.set()
        elif self._loop.time() < until:
            self._timer = self._loop.call_later(LOOK_AGAIN, self._look_at_group, until)
        else:
            self._signal(KILL)
            self._group_gone = True
            GUARDIAN.forget(self.process.pid)
            self._empty.set()

    def _signal(self, number: signal.Signals) -> None:
        """Send a signal to the group. The child is always in it, because a session leader cannot leave its group."""
        if POSIX and not self._group_gone:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, number)
        elif not POSIX and self.returncode is None:
            self.process.terminate()

    def _group_lives(self) -> bool:
        """Tell whether the group still has processes. Once it has none, its id is never used again here."""
        if not POSIX or self._group_gone:
            return False
        with contextlib.suppress(ChildProcessError):
            # As the init process of a container we inherit orphans: reap those of this group.
            while self.returncode is not None and os.waitpid(-self.process.pid, os.WNOHANG)[0]:
                pass
        try:
            os.killpg(self.process.pid, 0)
        except (ProcessLookupError, PermissionError):
            self._group_gone = True
        return not self._group_gone


def _send_signal(pid: int, number: int) -> bool:
    """Send a signal, or none (0); return whether the process is still there."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _start_process(
    command: Sequence[str], env: Mapping[str, str], cwd: str | Path | None, grace: float
) -> subprocess.Popen[bytes] | Started:
    if isinstance(command, str) or not command:
        raise ConfigError(f"a command is a list, the program and its arguments, and not {command!r}")
    # Windows finds npx.cmd and similar programs only by their full names.
    program = command[0] if POSIX else shutil.which(command[0], path=env.get("PATH")) or command[0]
    try:
        if (started := REAPER.start(command, env, cwd, grace)) is not None:
            return started
        return subprocess.Popen(
            [program, *command[1:]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            cwd=cwd,
            env=env,
            start_new_session=POSIX,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
    except (OSError, ValueError) as error:
        raise ConfigError(_why_not(command[0], cwd, error)) from error


def _why_not(program: str, cwd: str | Path | None, error: OSError | ValueError) -> str:
    if cwd is not None and not Path(cwd).is_dir():
        return f"the server {program!r} cannot be started in {str(cwd)!r}: there is no such directory"
    if isinstance(error, FileNotFoundError) and len(words := program.split()) > 1:
        return (
            f"the server {program!r} cannot be started: there is no such program; if {words[0]!r} is the program, "
            f'the rest are its arguments: give them apart from it, as "args" in a file of servers'
        )
    if isinstance(error, FileNotFoundError) and program.endswith(".py"):
        return f"the server {program!r} cannot be started: there is no such file"
    if isinstance(error, FileNotFoundError):
        return f"the server {program!r} cannot be started: there is no such program (is it installed, and in PATH?)"
    return f"the server {program!r} cannot be started: {error}"


ErrLog = Callable[[str], object] | TextIO
"""Receives the lines: a callable is called with each line without its end; a text file is written to and flushed."""

LONGEST_LINE = 8 * 1024
"""Bytes after which a line is passed on unfinished. Longer than any line a person reads."""


class StderrTail(asyncio.Protocol):
    """Keeps the last ``limit`` bytes and passes on every line; ``on_lost`` is called once, at the end."""

    def __init__(self, limit: int, errlog: ErrLog | None) -> None:
        self.on_lost: Callable[[], None] = lambda: None
        self._limit = limit
        self._errlog = errlog
        self._tail = bytearray()
        self._cut = False
        self._line = b""
        self._transport: asyncio.ReadTransport | None = None

    @property
    def text(self) -> str:
        """The kept bytes as text, beginning with a whole line. Bytes that are not UTF-8 are replaced."""
        tail = bytes(self._tail[max(0, len(self._tail) - self._limit) :])
        if self._cut or len(tail) < len(self._tail):
            tail = tail[tail.find(b"\n") + 1 :]
        return tail.decode(errors="replace").rstrip()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.ReadTransport", transport)

    def data_received(self, data: bytes) -> None:
        """Keep the last bytes, and pass on whole lines."""
        self._tail += data
        if len(self._tail) > 2 * self._limit:
            # Rarely, so that every byte is moved once on average.
            self._cut = True
            del self._tail[: len(self._tail) - self._limit]
        if self._errlog is not None:
            self._pass_on(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass on a last line without a newline, and report the end."""
        if self._line:
            self._pass_on(b"\n")
        self._transport = None
        self.on_lost()

    def close(self) -> None:
        """Stop reading; ``on_lost`` follows."""
        if self._transport is not None:
            self._transport.close()

    def _pass_on(self, data: bytes) -> None:
        *lines, rest = (self._line + data).split(b"\n")
        if len(rest) > LONGEST_LINE:
            lines.append(rest)
            rest = b""
        self._line = rest
        for line in lines:
            self._log(line.decode(errors="replace").rstrip("\r"))

    def _log(self, line: str) -> None:
        if self._errlog is None:
            return
        try:
            if callable(self._errlog):
                self._errlog(line)
            else:
                print(line, file=self._errlog, flush=True)
        except Exception as error:
            # The user's callback failed: log this once, and let the child continue.
            self._errlog = None
            context = {"message": "passing on the stderr of a server failed", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)
