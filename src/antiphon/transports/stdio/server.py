"""The server's side of stdio: a channel over this process's own standard input and output.

2025-11-25 basic/transports, "stdio". Owns how the channel begins and ends: end of input, a broken output, the death of
the parent, and ``close``. ``streams`` handles the descriptors.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable

from antiphon.channel import MAX_FRAME, Frame
from antiphon.errors import ConnectionClosed
from antiphon.transports.closed_once import ClosedOnce
from antiphon.transports.inbox import Receiving
from antiphon.transports.stdio.pipes import connect_reader, connect_writer
from antiphon.transports.stdio.reader import FrameReader
from antiphon.transports.stdio.streams import StandardStreams
from antiphon.transports.stdio.writer import FrameWriter

__all__ = ["StdioServerChannel"]

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
        self._reason = "The stdio channel was not closed"
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
        between two checks whether the parent process lives.

        Raises:
            LocalProtocolError: another channel has taken them.
            ConfigError: one of them is closed.
        """
        channel = cls(StandardStreams(), max_frame, parent_check)
        try:
            await channel._connect()
        except BaseException:
            channel._let_go()
            raise
        return channel

    def send(self, frame: Frame) -> Awaitable[None] | None:
        """See ``Channel.send``."""
        return self._writer.send(frame)

    def closed_error(self) -> ConnectionClosed:
        """Return why receiving ended."""
        return ConnectionClosed(self._reason)

    async def _connect(self) -> None:
        await connect_reader(self._streams.stdin, self._reader)
        await connect_writer(self._streams.stdout, self._writer, threaded=self._streams.one_socket)
        self._look_for_parent()

    def _look_for_parent(self) -> None:
        # Another process (a sibling that inherited it) may keep our input open when the parent is gone.
        if os.getppid() != self._parent:
            self._end("The parent process ended")
        else:
            self._timer = asyncio.get_running_loop().call_later(self._parent_check, self._look_for_parent)

    def _input_lost(self, error: Exception | None) -> None:
        self._read_all.set()
        self._end(f"Standard input cannot be read: {error}" if error else "The client closed standard input")

    def _output_lost(self, _error: Exception | None) -> None:
        self._written.set()
        self._end("The client closed standard output")

    def _end(self, reason: str, *, drop: bool = False) -> None:
        """End receiving. The first reason is kept."""
        if not self._inbox.ended:
            self._reason = reason
        self._inbox.end(drop=drop)

    async def _close(self) -> None:
        """Write what was sent (for at most 5 s), release everything, and restore the standard streams."""
        self._end("The stdio channel was closed on this side", drop=True)
        self._reader.close()
        self._writer.close()
        await self._lost_within(FLUSH)
        self._writer.abort()
        await self._lost_within(1.0)

    def _let_go(self) -> None:
        """Release everything now; the transports close their files in the next pass of the loop."""
        if self._timer is not None:
            self._timer.cancel()
        self._reader.close()
        self._writer.abort()
        self._streams.restore()

    async def _lost_within(self, seconds: float) -> None:
        """Wait until both transports have closed their files, or the time is over."""
        try:
            async with asyncio.timeout(seconds):
                await self._read_all.wait()
                await self._written.wait()
        except TimeoutError:
            pass
