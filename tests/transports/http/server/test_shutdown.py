"""The end of a server: open streams end with it, at once."""

from __future__ import annotations

import asyncio
import socket

import aiohttp
import pytest
import uvicorn

from antiphon.transports.http.server import shutdown
from antiphon.transports.http.server.connections import Limits, bounded_by
from antiphon.transports.http.server.shutdown import GracefulServer
from tests.transports.http.server.fakes import Bench, initialize


async def test_a_stream_that_is_open_does_not_hold_up_the_end():
    """The client reads its end, and the server is gone."""
    bench = Bench()
    config = uvicorn.Config(bench.app, port=0, log_level="warning", loop="none", lifespan="on")
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
    kind = bounded_by(Limits())
    config = uvicorn.Config(bench.app, port=0, log_level="warning", loop="none", lifespan="on", http=kind)
    server = GracefulServer(config, bench.app.close)
    running = asyncio.ensure_future(server.serve())
    while not server.started:
        await asyncio.wait([running], timeout=0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    request = b"GET /nowhere HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(client, request)
        assert (await loop.sock_recv(client, 65_536)).startswith(b"HTTP/1.1 ")
        sleep = asyncio.sleep

        async def busy(seconds: float) -> None:
            await sleep(seconds)
            if seconds == shutdown._LEAVE:
                # The pause is over, and nothing was looked at since this has come.
                client.send(request)

        monkeypatch.setattr("antiphon.transports.http.server.shutdown.asyncio.sleep", busy)
        server.should_exit = True
        async with asyncio.timeout(30):
            assert (await loop.sock_recv(client, 65_536)).startswith(b"HTTP/1.1 ")
            await running
