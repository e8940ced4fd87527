"""Newline-delimited frames: splits a stream of bytes into whole lines, in any pieces it arrives.

Owns the framing of the stdio transport in both directions. It does no I/O, and does not look inside a frame.
"""

from __future__ import annotations

from io import BytesIO

from antiphon.channel import MAX_FRAME, Oversized

__all__ = ["LineSplitter", "one_line"]


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
