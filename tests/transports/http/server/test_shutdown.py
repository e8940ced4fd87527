"""The end of a server: open streams end with it, at once."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest
import uvicorn
import uvloop

from antiphon.transports.http.server import shutdown
from antiphon.transports.http.server.connections import ConnectionLimits, bound_connections
from antiphon.transports.http.server.shutdown import GracefulServer
from tests.transports.http.server.fakes import Bench, initialize

REQUEST = b"GET /nowhere HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


async def test_a_stream_that_is_open_does_not_hold_up_the_end():
    """The client reads its end, and the server is gone."""
    bench = Bench()
    config = uvicorn.Config(bench.app, port=0, log_level="warning", loop="none", lifespan="off")
    server = GracefulServer(config, bench.app.close)
    running = asyncio.ensure_future(server.serve())
    while not server.started:
        await asyncio.wait([running], timeout=0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    url = f"http://127.0.0.1:{port}/mcp"
    async with asyncio.timeout(30), aiohttp.ClientSession() as http:
        async with http.post(url, json=initialize()) as opened:
            headers = {"mcp-session-id": opened.headers["mcp-session-id"]}
        async with http.get(url, headers=headers) as listening:
            await listening.content.readuntil(b"id: 0-0")
            server.should_exit = True
            await listening.read()
            await running
    assert bench.peer.is_over


async def test_a_request_that_has_come_and_was_not_seen_yet_is_answered(monkeypatch: pytest.MonkeyPatch):
    """On a busy machine the loop wakes to close an idle connection while a request waits in it: it is served first."""
    bench = Bench()
    kind = bound_connections(ConnectionLimits())
    config = uvicorn.Config(bench.app, port=0, log_level="warning", loop="none", lifespan="off", http=kind)
    server = GracefulServer(config, bench.app.close)
    running = asyncio.ensure_future(server.serve())
    while not server.started:
        await asyncio.wait([running], timeout=0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(client, REQUEST)
        assert (await loop.sock_recv(client, 65_536)).startswith(b"HTTP/1.1 ")
        sleep = asyncio.sleep

        async def busy(seconds: float) -> None:
            await sleep(seconds)
            if seconds == shutdown._LEAVE:
                # The pause is over, and nothing was looked at since this has come.
                client.send(REQUEST)

        monkeypatch.setattr("antiphon.transports.http.server.shutdown.asyncio.sleep", busy)
        server.should_exit = True
        async with asyncio.timeout(30):
            assert (await loop.sock_recv(client, 65_536)).startswith(b"HTTP/1.1 ")
            await running


class Late(GracefulServer):
    """A server to which clients connect at the moment when it is to stop: only the system knows of them yet."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.clients: list[socket.socket] = []

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let five clients connect, of which three send their request at once, and then stop."""
        self.clients = [socket.create_connection(("127.0.0.1", self.port)) for _ in range(5)]
        for client in self.clients[:3]:
            client.sendall(REQUEST)
        stopping = asyncio.ensure_future(super().shutdown(sockets))
        await asyncio.sleep(0)
        for client in self.clients[3:]:
            client.sendall(REQUEST)
        await stopping


@pytest.mark.parametrize("factory", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_connections_that_nobody_has_accepted_yet_are_answered(factory: Callable[[], asyncio.AbstractEventLoop]):
    """A proxy has written its request to one: that the server then stops listening must not reset it."""

    async def run() -> list[bytes]:
        bench = Bench()
        kind = bound_connections(ConnectionLimits())
        config = uvicorn.Config(
            bench.app, port=0, log_level="error", loop="none", lifespan="off", http=kind, timeout_graceful_shutdown=2
        )
        server = Late(config, bench.app.close)
        running = asyncio.ensure_future(server.serve())
        while not server.started:
            await asyncio.wait([running], timeout=0.01)
        server.should_exit = True
        await running
        return [read(client) for client in server.clients]

    def read(client: socket.socket) -> bytes:
        with client:
            client.settimeout(1)
            try:
                return client.recv(9)
            except OSError as error:
                return type(error).__name__.encode()

    with asyncio.Runner(loop_factory=factory) as runner:
        assert runner.run(asyncio.wait_for(run(), 60)) == [b"HTTP/1.1 "] * 5
