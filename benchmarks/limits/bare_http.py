"""The limit over HTTP without a server: asyncio and httptools. Run with ``python -m benchmarks.limits.bare_http PORT``.

It is also the one fixed fast server that the clients are measured against.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from typing import cast

import httptools
import uvloop

from benchmarks.limits.answers import SAMPLE, Answers, Incoming, decode

OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
OPENED = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nmcp-session-id: s%d\r\ncontent-length: %d\r\n\r\n"
ACCEPTED = b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"
ENDED = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
NO_STREAM = b"HTTP/1.1 405 Method Not Allowed\r\ncontent-length: 0\r\n\r\n"
EVENTS = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
EVENT = b"event: message\r\ndata: %b\r\n\r\n"
LARGE = 1 << 16
"""Bytes from which a head and a body are written apart rather than copied into one."""

answers = Answers(int(os.environ.get("EXTRA_TOOLS", "0")))
sessions = itertools.count(1)
asked: dict[int | str, tuple[int | str, BareHttp]] = {}


def chunk(data: bytes) -> bytes:
    """Frame a piece of a stream."""
    return b"%x\r\n%b\r\n" % (len(data), data)


class BareHttp(asyncio.Protocol):
    """One connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Set up the parser."""
        self.transport = cast("asyncio.Transport", transport)
        self.parser = httptools.HttpRequestParser(self)

    def data_received(self, data: bytes) -> None:
        """Parse what came."""
        self.parser.feed_data(data)

    def on_message_begin(self) -> None:
        """Forget the request before."""
        self.body: list[bytes] = []
        self.modern = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Note the version header."""
        if len(name) == 20 and name.lower() == b"mcp-protocol-version":
            self.modern = value == b"2026-07-28"

    def on_body(self, data: bytes) -> None:
        """Keep what came."""
        self.body.append(data)

    def on_message_complete(self) -> None:
        """Answer."""
        method = self.parser.get_method()
        if method != b"POST":
            self.transport.write(NO_STREAM if method == b"GET" else ENDED)
            return
        message = decode(self.body[0] if len(self.body) == 1 else b"".join(self.body))
        if message.method is None:
            self.answered(message)
            return
        out = answers.answer(message, modern=self.modern)
        if out is None:
            self.transport.write(ACCEPTED)
        elif out is SAMPLE:
            self.ask(message)
        elif message.method == "initialize":
            self.transport.write(OPENED % (next(sessions), len(out)) + out)
        elif len(out) > LARGE:
            self.transport.writelines((OK % len(out), out))
        else:
            self.transport.write(OK % len(out) + out)

    def ask(self, call: Incoming) -> None:
        """Open a stream with a sampling request."""
        assert call.params is not None
        assert call.id is not None
        id, ask = answers.ask(call.params.arguments.text)
        asked[id] = call.id, self
        self.transport.write(EVENTS + chunk(EVENT % ask))

    def answered(self, answer: Incoming) -> None:
        """End the stream of the call this answer was for."""
        self.transport.write(ACCEPTED)
        if answer.result is not None and answer.id in asked:
            call, connection = asked.pop(answer.id)
            reply = answers.text(call, answer.result.content.text, modern=False)
            connection.transport.write(chunk(EVENT % reply) + b"0\r\n\r\n")


async def serve(port: int) -> None:
    """Serve until the process is ended."""
    server = await asyncio.get_running_loop().create_server(BareHttp, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
