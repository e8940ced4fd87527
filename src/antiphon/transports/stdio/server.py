"""The server's side of stdio: a channel over this process's own standard input and output.

2025-11-25 basic/transports, "stdio". Owns how the channel begins and ends: end of input, a broken output, the death of
the parent, and ``close``.

"The server MUST NOT write anything to its stdout that is not a valid MCP message": a stray ``print``, of this program,
a C library or a child process, must not break this, and nothing else may read stdin. So file descriptors 0 and 1
themselves are replaced: by ``/dev/null`` and by stderr.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Awaitable
from typing import IO, ClassVar

from antiphon.channel import MAX_FRAME, Frame
from antiphon.errors import ConfigError, LocalProtocolError
from antiphon.machine.asyncio_tasks import wait_at_most
from antiphon.transports.inbox import ClosedOnce, Receiving
from antiphon.transports.stdio.threads import FrameReader, FrameWriter, connect_reader, connect_writer

PARENT_CHECK = 2.0
"""Seconds between two checks for our parent: soon enough to end a process that nobody needs, and cheap."""

FLUSH = 5.0
"""Seconds ``close`` gives a slow reader to read what was sent."""


class StdioServerChannel(ClosedOnce, Receiving):
    """Frames from standard input, frames to standard output. Made by ``open``; there can be one at a time.

    Receiving ends with standard input, when the parent process dies, or when standard output breaks. After the end of
    input, frames can still be sent until ``close``, so that ``server < script > answers`` loses none.
    """

    def __init__(self, streams: StandardStreams, max_frame: int, parent_check: float) -> None:
        self._streams = streams
        self._parent_check = parent_check
        self._parent = os.getppid()
        self._read_all = asyncio.Event()
        self._written = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._reader = FrameReader(max_frame, self._input_lost)
        self._inbox = self._reader.inbox
        self._writer = FrameWriter(self._output_lost, self._reader)

    @classmethod
    async def open(cls, *, max_frame: int = MAX_FRAME, parent_check: float = PARENT_CHECK) -> StdioServerChannel:
        """Take over standard input and output, until ``close`` restores them.

        Meanwhile anything that is printed goes to stderr, and standard input reads as empty. ``parent_check``: seconds
        between two checks whether the parent process lives. Raises ``LocalProtocolError``: another channel has taken
        them. Raises ``ConfigError``: one of them is closed.
        """
        channel = cls(StandardStreams(), max_frame, parent_check)
        try:
            await channel._connect()
        except BaseException:
            channel._let_go()
            raise
        return channel

    def send(self, frame: Frame) -> Awaitable[None] | None:
        return self._writer.send(frame)

    async def _connect(self) -> None:
        await connect_reader(self._streams.stdin, self._reader)
        await connect_writer(self._streams.stdout, self._writer, threaded=self._streams.one_socket)
        self._look_for_parent()

    def _look_for_parent(self) -> None:
        # Another process (a sibling that inherited it) may keep our input open when the parent is gone.
        if os.getppid() != self._parent:
            self.end("The parent process ended")
        else:
            self._timer = asyncio.get_running_loop().call_later(self._parent_check, self._look_for_parent)

    def _input_lost(self, error: Exception | None) -> None:
        self._read_all.set()
        self.end(f"Standard input cannot be read: {error}" if error else "The client closed standard input")

    def _output_lost(self, _error: Exception | None) -> None:
        self._written.set()
        self.end("The client closed standard output")

    async def _close(self) -> None:
        """Write what was sent (for at most 5 s), release everything, and restore the standard streams."""
        self.end("The stdio channel was closed on this side", drop=True)
        self._reader.close()
        self._writer.close()
        await self._wait_until_lost(FLUSH)
        self._writer.abort()
        await self._wait_until_lost(1.0)

    def _let_go(self) -> None:
        """Release everything now; the transports close their files in the next pass of the loop."""
        if self._timer is not None:
            self._timer.cancel()
        self._reader.close()
        self._writer.abort()
        self._streams.restore()

    async def _wait_until_lost(self, seconds: float) -> None:
        """Wait until both transports have closed their files, or the time is over."""
        await wait_at_most(seconds, asyncio.gather(self._read_all.wait(), self._written.wait()))


class StandardStreams:
    """Takes standard input and output for one user at a time, until ``restore``.

    Raises ``LocalProtocolError``: they are taken already. Raises ``ConfigError``: one of them is closed.
    """

    _taken: ClassVar[bool] = False

    def __init__(self) -> None:
        if StandardStreams._taken:
            raise LocalProtocolError("standard input and output already belong to another channel of this process")
        # They were closed when Python started, and their numbers may belong to other files by now.
        if sys.__stdin__ is None or sys.__stdout__ is None:
            raise ConfigError("standard input or output is closed: a stdio server needs both")
        # Two copies each: the transports close theirs, and the other restores the stream.
        self.stdin: IO[bytes] = os.fdopen(os.dup(0), "rb", buffering=0)
        self.stdout: IO[bytes] = os.fdopen(os.dup(1), "wb", buffering=0)
        self._kept = [os.dup(0), os.dup(1)]
        self._blocking = [os.name == "posix" and os.get_blocking(fd) for fd in self._kept]
        self._printed = sys.stdout
        self._exchange()
        StandardStreams._taken = True

    @property
    def one_socket(self) -> bool:
        """Whether both are the same file (a socket, under inetd), so that the event loop can use only one of them."""
        return os.path.sameopenfile(*self._kept)

    def restore(self) -> None:
        """Restore the streams. May be called twice."""
        if not self._kept:
            return
        _flush_stream(self._printed)
        if sys.stdout is sys.stderr:
            sys.stdout = self._printed
        for fd, kept in enumerate(self._kept):
            # The transports made it non-blocking, for all processes that share it.
            if self._blocking[fd]:
                os.set_blocking(kept, True)
            os.dup2(kept, fd)
            os.close(kept)
        self._kept = []
        StandardStreams._taken = False

    def _exchange(self) -> None:
        _flush_stream(self._printed)
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        # If stderr is closed, stray output is lost.
        os.dup2(nothing if sys.__stderr__ is None else 2, 1)
        os.close(nothing)
        if sys.stderr is not None:
            sys.stdout = sys.stderr


def _flush_stream(stream: IO[str] | None) -> None:
    """Write out what Python has buffered, so that it goes where the descriptor points now."""
    if stream is not None:
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
