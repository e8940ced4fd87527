"""The end of a server: open streams end with it, at once."""

from __future__ import annotations

import asyncio

import aiohttp
import uvicorn

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
