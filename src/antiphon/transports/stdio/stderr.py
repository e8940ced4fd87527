"""What a child process writes to stderr: its tail is kept for the error report, its lines are passed on.

Text of a child is hostile: it is bounded here, and not cleaned of terminal control; whoever shows it must do that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TextIO, cast

__all__ = ["ErrLog", "StderrTail"]

ErrLog = Callable[[str], object] | TextIO
"""Who gets the lines: a callable is given each line without its end, a text file has it written and flushed."""

LONGEST_LINE = 8 * 1024
"""Bytes after which a line is passed on without its end. Longer than any line a person reads."""


class StderrTail(asyncio.Protocol):
    """Keep the last ``limit`` bytes and pass on every line; its ``on_lost`` is called once, at the end."""

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
        """The tail as text; its first line is a whole one. Bytes that are not UTF-8 are replaced."""
        tail = bytes(self._tail[max(0, len(self._tail) - self._limit) :])
        if self._cut or len(tail) < len(self._tail):
            tail = tail[tail.find(b"\n") + 1 :]
        return tail.decode(errors="replace").rstrip()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.ReadTransport", transport)

    def data_received(self, data: bytes) -> None:
        """Keep the tail, and pass on whole lines."""
        self._tail += data
        if len(self._tail) > 2 * self._limit:
            # Seldom, so that every byte is moved once on average.
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
            # Our user's code: it is told once, and the child goes on.
            self._errlog = None
            context = {"message": "passing on the stderr of a server failed", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)
