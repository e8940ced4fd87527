"""The sending half of a byte stream: frames become lines, in order, without blocking.

Owns the path of a frame from ``send`` to the event loop, the back-pressure on it, and its orderly end.

A frame is written at once where one came in: nothing else is to be waited for. Where several came in together, several
are likely to go out together, and those of one pass of the event loop are one write: with 16 asks in flight that is a
quarter of a server's time less. (Neither asyncio nor uvloop joins writes by itself.)
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

from antiphon.channel import Frame
from antiphon.transports.backpressure import Room
from antiphon.transports.stdio.lines import one_line
from antiphon.transports.stdio.reader import FrameReader

__all__ = ["FrameWriter"]

HIGH_WATER = 256 * 1024
"""Bytes waiting for a slow peer before senders are asked to wait. Four times a pipe's usual capacity."""

LARGE = 64 * 1024
"""Frames from here on are not copied to append their newline. A smaller copy is cheaper than a second write.

Nor are more bytes than this gathered: a pipe holds no more."""

GATHERED = 8
"""Frames that are one write at most, so that the peer can begin with them: with 32 calls in flight, all as one were 54
thousand a second, each by itself 62, eight 74."""


class FrameWriter(asyncio.BaseProtocol):
    """Write each frame as one line.

    ``on_lost`` is called once, when nothing more can be sent. ``reader``: the other direction of the same peer.
    """

    def __init__(self, on_lost: Callable[[Exception | None], None], reader: FrameReader) -> None:
        self._on_lost = on_lost
        self._reader = reader
        self._room = Room()
        self._transport: asyncio.WriteTransport | None = None
        self._gathered: list[bytes] = []
        self._size = 0
        """Bytes gathered."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.WriteTransport", transport)
        self._transport.set_write_buffer_limits(HIGH_WATER)

    def send(self, frame: Frame) -> Awaitable[None] | None:
        """Write a frame, as ``Channel.send`` says. Once closed or lost, frames are dropped."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return None
        data = frame.data
        if b"\n" in data:
            data = one_line(data)
        if len(data) >= LARGE:
            self._flush()
            transport.write(data)
            transport.write(b"\n")
        elif self._gathered or self._reader.several:
            self._gather(data)
        else:
            transport.write(data + b"\n")
        return self._room.full

    def _gather(self, data: bytes) -> None:
        if not self._gathered:
            asyncio.get_running_loop().call_soon(self._flush)
        self._gathered.append(data)
        self._size += len(data)
        if self._size >= LARGE or len(self._gathered) == GATHERED:
            self._flush()

    def _flush(self) -> None:
        if self._gathered:
            gathered, self._gathered, self._size = self._gathered, [], 0
            if self._transport is not None:
                self._transport.write(b"\n".join((*gathered, b"")))

    def close(self) -> None:
        """Take no more frames; ``on_lost`` follows when those taken are written, or cannot be."""
        self._flush()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Drop what is not written yet; ``on_lost`` follows."""
        self._gathered, self._size = [], 0
        if self._transport is not None:
            self._transport.abort()

    def pause_writing(self) -> None:
        """Ask senders to wait: the peer reads too slowly."""
        self._room.shut()

    def resume_writing(self) -> None:
        """Let senders go on."""
        self._room.open()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let nobody wait any longer, and report the end."""
        self._transport = None
        self._room.open()
        self._on_lost(exc)
