"""The client's side of stdio: a child process, and a channel over its standard input and output.

2025-11-25 basic/transports, "stdio". Owns the channel: lines that are no frames, waiting for the last output of a
server that has ended, and the order in which everything is closed.

Owns the process, too, and its group: started, signalled and reaped, with nothing left behind. On POSIX the child leads
a group (and session) of its own, so that a signal also reaches the processes it has started: ``npx`` and similar
programs start shells in between. The end of its stderr is kept for error reports, and its lines are passed on. This
text is untrusted. It is bounded here, but may contain terminal control sequences: code that shows it must remove them.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import shutil
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, TextIO, cast

from antiphon.channel import MAX_FRAME, Frame, Oversized
from antiphon.errors import ConfigError, ConnectionClosed
from antiphon.machine.asyncio_tasks import wait_at_most
from antiphon.machine.running_processes import show_command
from antiphon.transports.inbox import ClosedOnce, Frames, Receiving
from antiphon.transports.stdio.reaper import GUARDIAN, MARK, REAPER, Started, find_left_behind
from antiphon.transports.stdio.threads import FrameReader, FrameWriter, ReadProtocol, connect_reader, connect_writer
from antiphon.wire.origin import Equipment

_IS_POSIX = os.name == "posix"
TERMINATE = signal.SIGTERM
KILL = signal.SIGKILL if _IS_POSIX else signal.SIGTERM
LOOK_AGAIN = 0.01
"""Seconds between two checks whether a group is empty. There is no notification, since its members are not our
children."""


class Child:
    """A running process. Its ``on_exit`` is called once, in the loop, when it has ended and has been reaped.

    Other processes of its group are then terminated, and killed after ``grace`` seconds. Raises ``ConfigError``: it
    cannot be started; the message names the command.
    """

    def __init__(self, command: Sequence[str], *, env: Mapping[str, str], cwd: str | Path | None, grace: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._grace = grace
        self.on_exit: Callable[[], None] = lambda: None
        self._spares_group = False
        self._exit = asyncio.Event()
        self._empty = asyncio.Event()
        self._group_gone = False
        self._pidfd: int | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.mark = GUARDIAN.new_mark()
        # If this process is killed while it starts the child, the guardian ends the child.
        with GUARDIAN.starting():
            self.process: subprocess.Popen[bytes] | Started = _start_process(
                command, {**env, MARK: self.mark}, cwd, grace
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

    async def find_survivors(self) -> list[str]:
        """Wait for the child's end, and return what goes on ``grace`` seconds longer; only then is its group ended."""
        self._spares_group = not self._exit.is_set()
        if not self._spares_group or not await self._exits():
            self._spares_group = False
            return []
        until, left = self._loop.time() + self._grace, [0]
        try:
            while left and self._loop.time() < until:
                await asyncio.sleep(10 * LOOK_AGAIN)
                left = await asyncio.to_thread(find_left_behind, self.mark)
            return [show_command(pid) for pid in left]
        finally:
            self._end_group()

    async def _end_left_behind(self) -> None:
        """End what has left the group. A gateway starts servers again and again, so that it would accumulate."""
        for number in (TERMINATE, KILL):
            left = [pid for pid in await asyncio.to_thread(find_left_behind, self.mark) if _send_signal(pid, number)]
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
        """Have ``_note_exit`` called when the child ends: by a pidfd if the system has them, else by a thread."""
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
        if not self._spares_group:
            self._end_group()
        self.on_exit()

    def _end_group(self) -> None:
        # Until the child is reaped, its process id, which is also the group's, cannot be reused.
        self._signal(TERMINATE)
        self.process.poll()
        self._look_at_group(self._loop.time() + self._grace)

    async def _exits(self) -> bool:
        """Wait for the child's end, up to ``grace`` seconds; return whether it ended."""
        await wait_at_most(self._grace, self._exit.wait())
        return self._exit.is_set()

    def _look_at_group(self, until: float) -> None:
        """Check repeatedly whether the group still has processes, and kill them when their time is over."""
        if self._group_lives():
            if self._loop.time() < until:
                self._timer = self._loop.call_later(LOOK_AGAIN, self._look_at_group, until)
                return
            self._signal(KILL)
            self._group_gone = True
        # Its id may be reused from now on.
        GUARDIAN.forget(self.process.pid)
        self._empty.set()

    def _signal(self, number: signal.Signals) -> None:
        """Send a signal to the group. The child is always in it, because a session leader cannot leave its group."""
        if _IS_POSIX and not self._group_gone:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, number)
        elif not _IS_POSIX and self.returncode is None:
            self.process.terminate()

    def _group_lives(self) -> bool:
        """Tell whether the group still has processes. Once it has none, its id is never used again here."""
        if not _IS_POSIX or self._group_gone:
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
    program = command[0] if _IS_POSIX else shutil.which(command[0], path=env.get("PATH")) or command[0]
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
            start_new_session=_IS_POSIX,
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


class StderrTail(ReadProtocol):
    """Keeps the last ``limit`` bytes and passes on every line; ``on_lost`` is called once, at the end."""

    def __init__(self, limit: int, errlog: ErrLog | None) -> None:
        self.on_lost: Callable[[], None] = lambda: None
        self._limit = limit
        self._errlog = errlog
        self._tail = bytearray()
        self._cut = False
        self._line = b""

    @property
    def text(self) -> str:
        """The kept bytes as text, beginning with a whole line. Bytes that are not UTF-8 are replaced."""
        tail = bytes(self._tail[max(0, len(self._tail) - self._limit) :])
        if self._cut or len(tail) < len(self._tail):
            tail = tail[tail.find(b"\n") + 1 :]
        return tail.decode(errors="replace").rstrip()

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


POSIX_VARIABLES = frozenset({"HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"})

SECRETS = frozenset({"ANTIPHON_CLIENT_SECRET", "ANTIPHON_TLS_PASSWORD", "ANTIPHON_TOKEN"})
"""Variables that the commands of this library read, and no child needs."""

WINDOWS_VARIABLES = frozenset({
    "APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT", "PROCESSOR_ARCHITECTURE",
    "PROGRAMDATA", "PROGRAMFILES", "PROGRAMFILES(X86)", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "USERNAME",
    "USERPROFILE", "WINDIR",
})  # fmt: skip


def child_environment(
    extra: Mapping[str, str] | None, *, inherit: bool = False, ours: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return the environment of a child: a safe part of ``ours`` (all with ``inherit``), updated with ``extra``.

    The secrets of this program's own commands are never among them.
    """
    kept = {name: value for name, value in ours.items() if (inherit and name not in SECRETS) or _is_safe(name, value)}
    return kept | dict(extra or {})


def _is_safe(name: str, value: str) -> bool:
    # "()" begins a function that old shells export, and execute when they start (CVE-2014-6271).
    if value.startswith("()"):
        return False
    if os.name == "nt":
        return name.upper() in WINDOWS_VARIABLES
    return name in POSIX_VARIABLES or name.startswith("LC_")


GRACE = 2.0
"""Seconds for each step of the shutdown. A server that writes its state to disk needs some; a person waits
meanwhile."""

STDERR_TAIL = 64 * 1024
"""Bytes of stderr kept for the error report: several tracebacks."""

LAST_WORDS = 1.0
"""Most seconds from the first sign that the server has ended until receiving ends. A process that the server started
may hold its streams open."""

NOISE_KEPT = 8
"""Number of lines that are no frames kept for diagnosis."""

NOISE_LENGTH = 200
"""Bytes kept of each of them."""

_BEGINNINGS = (b"{", b"[", codecs.BOM_UTF8 + b"{", codecs.BOM_UTF8 + b"[", b'"result"', b'"error"')
"""How messages begin, and lines of a reply that a server has written in several lines."""


class StdioClientChannel(ClosedOnce, Receiving):
    """Frames to and from a child process. Made by ``spawn``.

    Lines that begin with neither ``{`` nor ``[`` are no frames (some servers print banners): they are dropped and
    counted. Receiving ends when the child ends, or closes one of its streams.
    """

    def __init__(
        self, child: Child, program: str, stderr: StderrTail, max_frame: int, equipment: Equipment | None = None
    ) -> None:
        self.noise = 0
        """Number of lines dropped because they cannot be JSON-RPC."""
        self.noise_tail: deque[str] = deque(maxlen=NOISE_KEPT)
        """The last of them, shortened."""
        self._child = child
        self._program = program
        self._equipment = equipment
        self._ended_by = ""
        self._signs: set[str] = set()
        self._all_signs = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._reader = FrameReader(max_frame, lambda _: self._sign("output"), self._sift)
        self._inbox = self._reader.inbox
        self._writer = FrameWriter(lambda _: self._sign("input"), self._reader)
        self._stderr = stderr
        child.on_exit = lambda: self._sign("exit")
        stderr.on_lost = lambda: self._sign("stderr")

    @classmethod
    async def spawn(
        cls,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        inherit_env: bool = False,
        cwd: str | Path | None = None,
        max_frame: int = MAX_FRAME,
        stderr_tail: int = STDERR_TAIL,
        errlog: ErrLog | None = None,
        grace: float = GRACE,
        equipment: Equipment | None = None,
        name: str = "",
    ) -> StdioClientChannel:
        """Start a server and return the channel to it.

        Args:
            command: the program and its arguments; no shell is involved.
            env: environment variables for the child, added to a safe part of our own environment.
            inherit_env: pass on our whole environment instead, including secrets.
            cwd: its working directory; ours by default.
            max_frame: bytes of the largest frame accepted; a larger one is dropped and arrives as ``Oversized``.
            stderr_tail: bytes of its stderr that are kept for ``closed_error``.
            errlog: a callable that gets each line of its stderr, or a text file they are written to.
            grace: seconds for each step of the shutdown.
            equipment: changes its environment, and is told of its start and end.
            name: what errors call it; by default the Python file it runs, or its program.

        Raises ``ConfigError``: it cannot be started; the message names the program.
        """
        variables: Mapping[str, str] = child_environment(env, inherit=inherit_env)
        try:
            if equipment is not None:
                variables = equipment.environment(variables)
            child = Child(command, env=variables, cwd=cwd, grace=grace)
        except BaseException:
            if equipment is not None:
                equipment.ended()
            raise
        name = name or next((word for word in command[:2] if word.endswith(".py")), command[0])
        channel = cls(child, name, StderrTail(stderr_tail, errlog), max_frame, equipment)
        if equipment is not None:
            equipment.started(child.process.pid)
        await channel._connect()
        return channel

    @property
    def pid(self) -> int:
        """The process id of the child, which is also the id of its group."""
        return self._child.process.pid

    @property
    def returncode(self) -> int | None:
        """The exit code of the child, ``-n`` if signal n ended it, ``None`` while it runs."""
        return self._child.process.returncode

    @property
    def stderr(self) -> str:
        """The last lines the child wrote to stderr."""
        return self._stderr.text

    def send(self, frame: Frame) -> Awaitable[None] | None:
        return self._writer.send(frame)

    def closed_error(self) -> ConnectionClosed:
        """Return why receiving ended, with the exit code and the end of stderr if the child caused it."""
        if self._ended_by == "us":
            return ConnectionClosed(f"The connection to the server {self._program!r} was closed on this side")
        what = {"exit": "has ended", "output": "closed its output", "input": "closed its input"}
        message = f"The server {self._program!r} {what.get(self._ended_by, 'is still connected')}"
        return ConnectionClosed(message, exit_code=self.returncode, stderr=self.stderr)

    async def _connect(self) -> None:
        process = self._child.process
        streams = [cast("IO[bytes]", stream) for stream in (process.stdin, process.stderr, process.stdout)]
        try:
            await connect_reader(streams.pop(), self._reader)
            await connect_reader(streams.pop(), self._stderr)
            await connect_writer(streams.pop(), self._writer)
        except BaseException:
            self._let_go()
            for stream in streams:
                stream.close()
            raise

    def _sift(self, frames: Frames) -> Frames:
        """Drop and count lines that cannot be JSON-RPC messages, or a line of a reply in several lines."""
        kept = [frame for frame in frames if isinstance(frame, Oversized) or frame.startswith(_BEGINNINGS)]
        if len(kept) < len(frames):
            noise = [
                frame for frame in frames if not isinstance(frame, Oversized) and not frame.startswith(_BEGINNINGS)
            ]
            self.noise += len(noise)
            self.noise_tail.extend(line[:NOISE_LENGTH].decode(errors="replace") for line in noise[-NOISE_KEPT:])
        return kept

    def _sign(self, of: str) -> None:
        """Note a sign that the server has ended: the end of one of its streams, or its exit.

        The signs come in any order, and frames or stderr may still be in the pipes when the first one comes.
        """
        self._signs.add(of)
        if of == "exit":
            self._unequip()
        if self._signs >= {"input", "output", "stderr", "exit"}:
            self._all_signs.set()
        if self._signs >= {"output", "stderr", "exit"}:
            self._end()
        elif of != "stderr" and self._timer is None and not self._inbox.ended:
            self._timer = asyncio.get_running_loop().call_later(LAST_WORDS, self._end)

    def _end(self, by: str = "") -> None:
        """End receiving; the first cause is kept."""
        if self._timer is not None:
            self._timer.cancel()
        if not self._inbox.ended:
            self._ended_by = by or next(sign for sign in ("exit", "output", "input") if sign in self._signs)
        self._inbox.end(drop=bool(by))

    def list_processes(self) -> list[int]:
        """Return the ids of the child and of what it has started; an empty list where the system does not tell."""
        return find_left_behind(self._child.mark)

    async def close_and_look(self) -> list[str]:
        """Close, and return the command lines of what goes on ``grace`` seconds after the child itself has ended."""
        self._end("us")
        self._writer.close()
        left = await self._child.find_survivors()
        await self.close()
        return left

    async def _close(self) -> None:
        """End the child and all processes it has started, and release everything.

        Takes up to three times ``grace``: until it ends after its input is closed, after SIGTERM, and after SIGKILL.
        """
        # Its output is still read, and dropped: a child that cannot write does not end.
        self._end("us")
        self._writer.close()
        await self._child.end()
        self._let_go()
        await wait_at_most(1.0, self._all_signs.wait())

    def _unequip(self) -> None:
        if self._equipment is not None:
            self._equipment.ended()

    def _let_go(self) -> None:
        """Release everything now; the remaining signs follow."""
        self._unequip()
        self._child.kill()
        self._writer.abort()
        self._reader.close()
        self._stderr.close()
