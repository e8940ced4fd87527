"""The two halves of a byte stream: frames are read from its lines for an inbox, and written as lines in order.

A received frame takes a short path from ``data_received`` to ``receive``: one call, and one future that wakes a task.
``LineSplitter`` splits the bytes, in any pieces they arrive, into lines; it does not look inside a frame.

``FrameWriter`` owns the path of a frame from ``send`` to the event loop, its back-pressure, and its orderly end.
If one frame was received, a frame is written at once. If several were received together, several are likely to be sent
together, and those of one pass of the event loop are joined in one write: with 16 asks in flight this saves a quarter
of a server's time. (Neither asyncio nor uvloop joins writes.)
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from io import BytesIO
from typing import cast

from antiphon.channel import MAX_FRAME, Frame, Oversized
from antiphon.transports.inbox import Frames, Inbox, Room

__all__ = ["FrameReader", "FrameWriter", "LineSplitter", "one_line"]


class FrameReader(asyncio.Protocol):
    """Splits what arrives into frames; all lines of one read are passed on together.

    ``on_lost`` is called once, when nothing more can arrive; it decides when the inbox ends. ``sift`` may drop frames
    before they reach the inbox.
    """

    def __init__(
        self,
        max_frame: int,
        on_lost: Callable[[Exception | None], None],
        sift: Callable[[Frames], Frames] | None = None,
    ) -> None:
        self.inbox = Inbox(self._pause, self._resume)
        self.several = False
        """Whether the last read had more than one frame, so that the peer does not wait for each reply."""
        self._splitter = LineSplitter(max_frame)
        self._on_lost = on_lost
        self._sift = sift
        self._transport: asyncio.ReadTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.ReadTransport", transport)

    def data_received(self, data: bytes) -> None:
        """Pass on the frames that these bytes complete."""
        frames = self._splitter.feed(data)
        if self._sift is not None:
            frames = self._sift(frames)
        if frames:
            self.several = len(frames) > 1
            self.inbox.put(frames)

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass on a last line without a newline, and report the end."""
        self.data_received(b"\n")
        self._transport = None
        self._on_lost(exc)

    def close(self) -> None:
        """Stop reading; ``on_lost`` follows."""
        if self._transport is not None:
            self._transport.close()

    def _pause(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def _resume(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()


def one_line(data: bytes) -> bytes:
    """Replace the line breaks of a frame by spaces.

    In JSON they are insignificant white space (a relayed frame may be formatted for people), but 2025-11-25
    basic/transports, stdio: "Messages are delimited by newlines, and MUST NOT contain embedded newlines."
    """
    return data.replace(b"\n", b" ")


class LineSplitter:
    """Splits a stream of bytes into lines, in linear time and bounded memory.

    White space around a line (including the CR of a CRLF) is removed, blank lines are ignored. A line of more than
    ``limit`` bytes (without its newline) is dropped, and an ``Oversized`` is returned in its place.
    """

    __slots__ = ("_held", "_limit", "_size")

    def __init__(self, limit: int = MAX_FRAME) -> None:
        self._limit = limit
        # The unfinished line; a BytesIO grows geometrically and returns its bytes without a copy.
        self._held = BytesIO()
        self._size = 0

    def feed(self, data: bytes) -> list[bytes | Oversized]:
        """Take the next bytes, and return the lines they complete."""
        if not self._size and data.find(b"\n") == len(data) - 1 < self._limit:
            # One whole line, the usual case while one request is in flight.
            frame = data.strip()
            return [frame] if frame else []
        # With their newlines; ``split`` without them takes four times as long, since it looks at each byte by itself.
        lines = BytesIO(data).readlines()
        rest = lines.pop() if lines and not data.endswith(b"\n") else b""
        frames: list[bytes | Oversized] = []
        if self._size and lines:
            self._hold(lines[0][:-1])
            frames += self._release()
            del lines[0]
        if len(data) > self._limit:
            frames += self._within_limit(lines)
        else:
            frames += [frame for line in lines if (frame := line.strip())]
        if rest:
            self._hold(rest)
        return frames

    def _hold(self, piece: bytes) -> None:
        """Keep a piece of an unfinished line, or only its size once the line is too long."""
        self._size += len(piece)
        if self._size <= self._limit:
            self._held.write(piece)
        elif self._held.tell():
            self._held = BytesIO()

    def _release(self) -> list[bytes | Oversized]:
        """Return the line that was just completed, and reset."""
        size, held = self._size, self._held
        self._size, self._held = 0, BytesIO()
        if size > self._limit:
            return [Oversized(size)]
        frame = held.getvalue().strip()
        return [frame] if frame else []

    def _within_limit(self, lines: list[bytes]) -> list[bytes | Oversized]:
        """Return the frames in some lines with their newlines; some may be too long."""
        frames = (Oversized(len(line) - 1) if len(line) - 1 > self._limit else line.strip() for line in lines)
        return [frame for frame in frames if frame]


HIGH_WATER = 256 * 1024
"""Bytes waiting for a slow peer before senders are asked to wait: four times a pipe's usual capacity."""

LARGE = 64 * 1024
"""Size in bytes from which a frame is not copied to append its newline; copying a smaller one is cheaper than a second
write. It is also the most that is joined, because a pipe holds no more."""

GATHERED = 8
"""Most frames in one write, so that the peer can start with them. With 32 calls in flight, all frames in one write gave
54,000 calls a second, one frame per write 62,000, eight 74,000."""

_LF = 0x0A
"""A number, since looking for a byte by its number takes a quarter of the time."""


class FrameWriter(asyncio.BaseProtocol):
    """Writes each frame as one line.

    ``on_lost`` is called once, when nothing more can be sent. ``reader``: the other direction of the same peer.
    """

    def __init__(self, on_lost: Callable[[Exception | None], None], reader: FrameReader) -> None:
        self._on_lost = on_lost
        self._reader = reader
        self._room = Room()
        self._transport: asyncio.WriteTransport | None = None
        self._gathered: list[bytes] = []
        self._size = 0
        """Bytes joined so far."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.WriteTransport", transport)
        self._transport.set_write_buffer_limits(HIGH_WATER)

    def send(self, frame: Frame) -> Awaitable[None] | None:
        """Write a frame, see ``Channel.send``. After the end, frames are dropped."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return None
        data = frame.data
        if _LF in data:
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
        """Accept no more frames; ``on_lost`` is called when those accepted are written, or cannot be."""
        self._flush()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Drop what is not written yet; ``on_lost`` is called."""
        self._gathered, self._size = [], 0
        if self._transport is not None:
            self._transport.abort()

    def pause_writing(self) -> None:
        """Ask senders to wait: the peer reads too slowly."""
        self._room.shut()

    def resume_writing(self) -> None:
        """Let senders continue."""
        self._room.open()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let no sender wait any longer, and report the end."""
        self._transport = None
        self._room.open()
        self._on_lost(exc)
