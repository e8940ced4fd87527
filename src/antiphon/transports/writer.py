"""The sending half of a byte stream: frames become lines, in order, without blocking.

Owns the path of a frame from ``send`` to the event loop, the back-pressure on it, and its orderly end.

Every frame is written at once and gathered nowhere: uvloop joins the writes of one pass of the loop by itself, and
under asyncio's own loop gathering them (in the next pass, or until as many were sent as had arrived) gained nothing
with 32 in flight and lost 10 to 20 % one at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

from antiphon.channel import Frame
from antiphon.transports.lines import one_line
from antiphon.transports.room import Room

__all__ = ["FrameWriter"]

HIGH_WATER = 256 * 1024
"""Bytes waiting for a slow peer before senders are asked to wait. Four times a pipe's usual capacity."""

LARGE = 64 * 1024
"""Frames from here on are not copied to append their newline. A smaller copy is cheaper than a second write."""


class FrameWriter(asyncio.BaseProtocol):
    """Write each frame as one line.

    ``on_lost`` is called once, when nothing more can be sent.
    """

    def __init__(self, on_lost: Callable[[Exception | None], None]) -> None:
        self._on_lost = on_lost
        self._room = Room()
        self._transport: asyncio.WriteTransport | None = None

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
        if len(data) < LARGE:
            transport.write(data + b"\n")
        else:
            transport.write(data)
            transport.write(b"\n")
        return self._room.full

    def close(self) -> None:
        """Take no more frames; ``on_lost`` follows when those taken are written, or cannot be."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Drop what is not written yet; ``on_lost`` follows."""
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
