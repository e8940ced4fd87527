"""An ASGI application behind uvicorn, on loopback, in the loop of the test; and three replicas that take turns."""

from __future__ import annotations

import asyncio
import itertools
import socket
from contextlib import asynccontextmanager

import uvicorn

from antiphon.server import MemoryCluster


@asynccontextmanager
async def running(app, lifespan="auto"):
    """Serve ``app``; yields the address without scheme, as ``127.0.0.1:port``."""
    config = uvicorn.Config(app, lifespan=lifespan, ws="websockets-sansio", log_level="warning", access_log=False)
    # A connection may rest for longer than uvicorn's five seconds on a busy machine, and would be closed just as a
    # request is written to it.
    config.timeout_keep_alive = 600
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    # With the protocol named, asyncio sends what is small at once; else it may wait 40 ms for an acknowledgement.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen(100)
    await server.startup(sockets=[listening])
    # What ``serve`` does besides: the headers that change with time.
    ticking = asyncio.get_running_loop().create_task(server.on_tick(0))
    try:
        await ticking
        yield f"127.0.0.1:{listening.getsockname()[1]}"
    finally:
        await server.shutdown(sockets=[listening])


@asynccontextmanager
async def taking_turns(make, options=dict):
    """Serve three replicas of a server, each request by the next one; ``make`` makes one. Yields the address likewise.

    ``make(cluster=..., keys=...)``: returns a ``Server`` with these options. ``options()``: those of an endpoint.
    """
    first = MemoryCluster()
    apps = [make(cluster=MemoryCluster(beside=first), keys=[b"k" * 32]).asgi(**options()) for _ in range(3)]
    turns = itertools.cycle(apps)

    async def balance(scope, receive, send):
        await next(turns)(scope, receive, send)

    try:
        async with running(balance, "off") as place:
            yield place
            for app in apps:
                await app.drain()
    finally:
        for app in apps:
            await app.close()
