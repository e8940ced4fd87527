"""What a child process writes to stderr: the end of it is kept for error reports, and its lines are passed on.

This text is untrusted. It is bounded here, but may contain terminal control sequences: code that shows it must remove
them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TextIO, cast

__all__ = ["ErrLog", "StderrTail"]

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
