"""The limit: the same tools with next to no protocol. ``python -m benchmarks.io_bound.bare_server PORT``.

It decodes a call, awaits the tool, and encodes the answer, on asyncio and httptools alone: no validation, no time
limits, no cancellation. What a Python server with these tools and clients can reach lies below this.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any, cast

import httptools
import uvloop
from msgspec import Struct
from msgspec.json import Decoder, Encoder

from benchmarks.io_bound.work import TOOLS

OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
ACCEPTED = b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"
BY_NAME = {tool.__name__: tool for tool in TOOLS}
encode = Encoder().encode


class Params(Struct, rename="camel", frozen=True):
    """The parameters of every method."""

    name: str = ""
    arguments: dict[str, Any] = {}
    protocol_version: str = ""


class Request(Struct):
    """A request or notification."""

    method: str
    id: int | None = None
    params: Params = Params()


decode = Decoder(Request).decode


async def result_of(request: Request) -> dict[str, Any]:
    """Return the result of a request."""
    if request.method == "tools/call":
        text = await BY_NAME[request.params.name](**request.params.arguments)
        return {"content": [{"type": "text", "text": text}], "resultType": "complete"}
    if request.method == "tools/list":
        return {"tools": [{"name": name, "inputSchema": {"type": "object"}, "description": ""} for name in BY_NAME]}
    return {"protocolVersion": request.params.protocol_version, "capabilities": {}, "serverInfo": {"name": "limit"}}


class Bare(asyncio.Protocol):
    """One connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Set up the parser."""
        self._transport = cast("asyncio.Transport", transport)
        self._parser = httptools.HttpRequestParser(self)
        self._tasks: set[asyncio.Task[None]] = set()

    def data_received(self, data: bytes) -> None:
        """Parse what came."""
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        """Forget the request before."""
        self._body = b""

    def on_body(self, data: bytes) -> None:
        """Keep what came."""
        self._body += data

    def on_message_complete(self) -> None:
        """Begin to answer."""
        request = decode(self._body)
        if request.id is None:
            self._transport.write(ACCEPTED)
            return
        task = asyncio.ensure_future(self._answer(request))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, request: Request) -> None:
        reply = encode({"jsonrpc": "2.0", "id": request.id, "result": await result_of(request)})
        self._transport.write(OK % len(reply) + reply)


async def serve(port: int) -> None:
    """Serve until the process is ended."""
    server = await asyncio.get_running_loop().create_server(Bare, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
