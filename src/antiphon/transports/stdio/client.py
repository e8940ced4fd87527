"""The client's side of stdio: a child process, and a channel over its standard input and output.

2025-11-25 basic/transports, "stdio". Owns the channel: lines that are no frames, waiting for the last output of a
server that has ended, and the order in which everything is closed.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
from collections import deque
from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path
from typing import IO, cast

from antiphon.channel import MAX_FRAME, Frame, Oversized
from antiphon.errors import ConnectionClosed
from antiphon.transports.inbox import ClosedOnce, Frames, Receiving
from antiphon.transports.stdio.child_process import Child, ErrLog, StderrTail
from antiphon.transports.stdio.threads import FrameReader, FrameWriter, connect_reader, connect_writer
from antiphon.wire.origin import Equipment

POSIX = frozenset({"HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"})

SECRETS = frozenset({"ANTIPHON_CLIENT_SECRET", "ANTIPHON_TLS_PASSWORD", "ANTIPHON_TOKEN"})
"""Variables that the commands of this library read, and no child needs."""

WINDOWS = frozenset({
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
        return name.upper() in WINDOWS
    return name in POSIX or name.startswith("LC_")


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

        Raises:
            ConfigError: it cannot be started; the message names the program.
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
        channel = cls(child, command[0], StderrTail(stderr_tail, errlog), max_frame, equipment)
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
        """See ``Channel.send``."""
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

    async def _close(self) -> None:
        """End the child and all processes it has started, and release everything.

        Takes up to three times ``grace``: until it ends after its input is closed, after SIGTERM, and after SIGKILL.
        """
        # Its output is still read, and dropped: a child that cannot write does not end.
        self._end("us")
        self._writer.close()
        await self._child.end()
        self._let_go()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                await self._all_signs.wait()

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
