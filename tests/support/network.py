"""A server that listens by itself, as ``server.run("http")`` does, in the loop of the test; and bare HTTP to it."""

from __future__ import annotations

import asyncio
import json
import socket as socketlib
from contextlib import asynccontextmanager

from antiphon.server.serving.network import network_server

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"sampling": {}},
    "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
}


@asynccontextmanager
async def listening(server, transport="http", port=0, **options):
    """Serve on a port of loopback, by default a free one; yields what serves, with its address as ``.place``."""
    network = network_server(server._service, transport, "127.0.0.1", port, options)
    serving = asyncio.create_task(network.serve())
    while not network.started:
        await asyncio.wait([serving], timeout=0.01)
        assert not serving.done()
    network.place = f"127.0.0.1:{network.servers[0].sockets[0].getsockname()[1]}"
    try:
        yield network
    finally:
        network.should_exit = True
        await serving


def let_time_pass(network, seconds):
    """Let the server's watch over its connections see them as they are now, and again so much later."""
    now = asyncio.get_running_loop().time()
    network._sweep(network.server_state.connections, now)
    network._sweep(network.server_state.connections, now + seconds)


async def until(condition, seconds=60.0):
    """Wait until something is so."""
    async with asyncio.timeout(seconds):
        while not condition():
            await moment()


def let_deadlines_pass(seconds):
    """Let the clock of the running loop leap; after that it goes on as ever.

    With it a deadline may be long enough for any machine, and still end a test at once.
    """
    loop = asyncio.get_running_loop()
    before = loop.time
    loop.time = lambda: before() + seconds


async def moment():
    """Let others go on, on the other side of a socket as well."""
    await asyncio.sleep(0.01)


def request_bytes(message, method="POST", path="/mcp", **headers):
    """Write a request as it travels. ``message``: JSON, or bytes as they are."""
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    sent = {
        "host": "localhost",
        "accept": "application/json, text/event-stream",
        "content-type": "application/json",
        "content-length": str(len(body)),
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in sent.items() if value is not None)
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + body


def call(name, id=1, meta=None, **arguments):
    """Make a tool call."""
    params = {"name": name, "arguments": arguments, **({"_meta": meta} if meta else {})}
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}


def modern_call(name, id=1, **arguments):
    """Write a modern tool call as it travels."""
    names = {"mcp_protocol_version": "2026-07-28", "mcp_method": "tools/call", "mcp_name": name}
    return request_bytes(call(name, id, META, **arguments), **names)


INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"sampling": {}},
        "clientInfo": {"name": "t", "version": "1"},
    },
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


class Bare:
    """One connection, spoken to in bytes."""

    def __init__(self, reader, writer):
        self.reader = reader
        self.writer = writer

    @classmethod
    async def open(cls, place, room=None):
        """Connect. ``room``: bytes that are taken without being read, roughly."""
        host, _, port = place.rpartition(":")
        if room is None:
            return cls(*await asyncio.open_connection(host, int(port)))
        socket = socketlib.socket()
        socket.setsockopt(socketlib.SOL_SOCKET, socketlib.SO_RCVBUF, room)
        socket.setblocking(False)
        await asyncio.get_running_loop().sock_connect(socket, (host, int(port)))
        return cls(*await asyncio.open_connection(sock=socket, limit=room))

    def send(self, data):
        self.writer.write(data)

    async def response(self):
        """Read a response with a length: status, headers, body."""
        status, headers = await self.head()
        return status, headers, await self.reader.readexactly(int(headers.get("content-length", 0)))

    async def head(self):
        """Read the head of a response: status, headers."""
        first, *lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines if line)
        return int(first.split(" ")[1]), headers

    async def initialize(self):
        """Open a session; return the headers that name it."""
        self.send(request_bytes(INITIALIZE))
        status, headers, _ = await self.response()
        assert status == 200
        session = {"mcp_session_id": headers["mcp-session-id"], "mcp_protocol_version": "2025-11-25"}
        self.send(request_bytes(INITIALIZED, **session))
        assert (await self.response())[0] == 202
        return session

    def vanish(self):
        """Leave without a word."""
        self.writer.transport.abort()

    async def ended(self):
        """Read to the end, whatever it is; return what still came."""
        try:
            return await self.reader.read()
        except OSError:
            return b""
        finally:
            self.writer.close()
