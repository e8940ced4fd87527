"""The limit over stdio: a bare asyncio loop over two pipes. Run with ``python -m benchmarks.limits.bare_stdio``.

It is also the one fixed fast server that the clients are measured against.
"""

from __future__ import annotations

import asyncio
import os
import sys

import uvloop

from benchmarks.limits.answers import SAMPLE, Answers, decode

VERSION_KEY = b"io.modelcontextprotocol/protocolVersion"
LONG = 4_000
"""Bytes from which only the start of a message is searched for its version: what is longer has a long argument."""


class BareStdio(asyncio.Protocol):
    """The input; it writes to the output all that a read brought about at once."""

    def __init__(self, writer: asyncio.WriteTransport, ended: asyncio.Future[None]) -> None:
        self._writer, self._ended = writer, ended
        self._answers = Answers(int(os.environ.get("EXTRA_TOOLS", "0")))
        self._parts: list[bytes] = []
        self._asked: dict[int | str, int | str] = {}

    def data_received(self, data: bytes) -> None:
        """Answer the lines that ended."""
        if b"\n" not in data:
            self._parts.append(data)
            return
        lines = b"".join([*self._parts, data]).split(b"\n")
        rest = lines.pop()
        self._parts = [rest] if rest else []
        out: list[bytes] = []
        for line in lines:
            self._answer(line, out)
        if out:
            self._writer.write(b"".join(out))

    def _answer(self, line: bytes, out: list[bytes]) -> None:
        message = decode(line)
        if message.method is None:
            if message.result is not None and message.id in self._asked:
                call = self._asked.pop(message.id)
                out += self._answers.text(call, message.result.content.text, modern=False), b"\n"
            return
        modern = VERSION_KEY in (line if len(line) < LONG else line[:400])
        answer = self._answers.answer(message, modern=modern)
        if answer is SAMPLE and message.params is not None and message.id is not None:
            id, ask = self._answers.ask(message.params.arguments.text)
            self._asked[id] = message.id
            out += ask, b"\n"
        elif answer is not None:
            out += answer, b"\n"

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        if not self._ended.done():
            self._ended.set_result(None)


async def serve() -> None:
    """Serve until the input ends."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    # The pipes are taken as they are: nobody else in this process uses them.
    writer, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, sys.stdout.buffer)
    reader = BareStdio(writer, ended)
    await loop.connect_read_pipe(lambda: reader, sys.stdin.buffer)
    await ended


if __name__ == "__main__":
    uvloop.run(serve())
