"""An ASGI application behind uvicorn, on loopback, in the loop of the test."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager

import uvicorn


@asynccontextmanager
async def running(app):
    """Serve ``app``; yields the address without scheme, as ``127.0.0.1:port``."""
    config = uvicorn.Config(app, lifespan="on", ws="websockets-sansio", log_level="warning", access_log=False)
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    listening = socket.create_server(("127.0.0.1", 0))
    await server.startup(sockets=[listening])
    # What ``serve`` does besides: the headers that change with time.
    ticking = asyncio.get_running_loop().create_task(server.on_tick(0))
    try:
        await ticking
        yield f"127.0.0.1:{listening.getsockname()[1]}"
    finally:
        await server.shutdown(sockets=[listening])
