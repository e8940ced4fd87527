"""A server process on two pipes: lines to it, lines from it. It starts none and judges nothing."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable

from benchmarks.load.messages import INITIALIZED, LEGACY, MODERN, Incoming, decode, discover, initialize
from benchmarks.load.tally import WrongAnswer

__all__ = ["Pipes"]

PATIENCE = 60.0
"""Seconds the first replies may take: a process starts meanwhile."""


class Lines(asyncio.Protocol):
    """Cut what comes into lines."""

    def __init__(self, on_lines: Callable[[list[bytes]], None], on_end: Callable[[], None]) -> None:
        self._on_lines, self._on_end = on_lines, on_end
        self._parts: list[bytes] = []

    def data_received(self, data: bytes) -> None:
        """Hand on the lines that ended."""
        if b"\n" not in data:
            self._parts.append(data)
            return
        lines = b"".join([*self._parts, data]).split(b"\n")
        rest = lines.pop()
        self._parts = [rest] if rest else []
        self._on_lines(lines)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell whoever waits."""
        self._on_end()


class Pipes:
    """The client's end of a server process. ``on_lines`` and ``on_end`` may be set anew for each measurement."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.on_lines: Callable[[list[bytes]], None] = lambda _lines: None
        self.on_end: Callable[[], None] = lambda: None
        self.ended = False

    async def open(self) -> None:
        """Attach to the pipes of the process."""
        loop = asyncio.get_running_loop()
        lines = Lines(self._arrived, self._end)
        self._reader, _ = await loop.connect_read_pipe(lambda: lines, self.process.stdout)
        self._writer, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, self.process.stdin)
        self.write = self._writer.write

    def _arrived(self, lines: list[bytes]) -> None:
        self.on_lines(lines)

    def _end(self) -> None:
        self.ended = True
        self.on_end()

    async def ask(self, id: int, body: bytes) -> Incoming:
        """Send one request and wait for its reply, whatever else comes.

        Raises:
            ConnectionError: The process ended first.
            TimeoutError: No reply came.
        """
        replied: asyncio.Future[Incoming] = asyncio.get_running_loop().create_future()

        def look(lines: list[bytes]) -> None:
            for message in map(decode, filter(None, lines)):
                if message.id == id and message.method is None and not replied.done():
                    replied.set_result(message)

        def end() -> None:
            if not replied.done():
                replied.set_exception(ConnectionError("the server ended"))

        self.on_lines, self.on_end = look, end
        if self.ended:
            raise ConnectionError("the server ended")
        self.write(body + b"\n")
        return await asyncio.wait_for(replied, PATIENCE)

    async def greet(self, *, modern: bool) -> None:
        """Open a legacy session, or see that the server speaks the modern revision.

        Raises:
            WrongAnswer: It does not.
        """
        result = (await self.ask(0, discover(0) if modern else initialize(0))).result
        if modern:
            agreed = result is not None and MODERN in (result.supported_versions or [])
        else:
            agreed = result is not None and result.protocol_version == LEGACY
            self.write(INITIALIZED + b"\n")
        if not agreed:
            raise WrongAnswer(f"opening: {result!r}"[:200])

    def close(self) -> None:
        """Close both pipes, which ends a server that behaves."""
        self.on_lines, self.on_end = (lambda _lines: None), (lambda: None)
        self._writer.close()
        self._reader.close()
