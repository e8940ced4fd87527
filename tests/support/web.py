"""A small web server on loopback whose every answer is written by the test."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

from aiohttp import web

from antiphon.channel import Frame
from antiphon.transports.http.client.channel import HttpClientChannel
from antiphon.transports.http.client.error_replies import Dial


class Seen:
    """One request as the server saw it."""

    def __init__(self, request, body):
        self.method = request.method
        self.path = request.path
        self.headers = request.headers
        self.peer = request.transport.get_extra_info("peername")
        self.body = json.loads(body) if body else None


class Site:
    """What was asked of the server. ``answers`` is called for each request with what was seen."""

    def __init__(self, answers):
        self._answers = answers
        self.seen = []
        self.url = ""
        self._news = asyncio.Condition()

    async def handle(self, request):
        seen = Seen(request, await request.read())
        async with self._news:
            self.seen.append(seen)
            self._news.notify_all()
        return await self._answers(request, seen)

    async def until(self, holds):
        """Wait until a request that satisfies ``holds`` has come, and return it."""
        async with self._news:
            await self._news.wait_for(lambda: any(map(holds, self.seen)))
        return next(filter(holds, self.seen))


@asynccontextmanager
async def serving(answers, *, ssl=None):
    """Run a server; ``answers(request, seen)`` is a coroutine to a response."""
    site = Site(answers)
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_route("*", "/{rest:.*}", site.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True, access_log=None)
    await runner.setup()
    tcp = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=ssl)
    await tcp.start()
    port = runner.addresses[0][1]
    site.url = f"{'https' if ssl else 'http'}://127.0.0.1:{port}/mcp"
    try:
        yield site
    finally:
        await runner.cleanup()


def result(id, value=None, **headers):
    """A JSON answer with a result."""
    return web.json_response({"jsonrpc": "2.0", "id": id, "result": value or {}}, headers=headers)


def event(message, *, id=None, retry=None, name=None):
    """One server-sent event; an empty message only primes."""
    head = "".join(f"{k}: {v}\n" for k, v in (("event", name), ("id", id), ("retry", retry)) if v is not None)
    data = json.dumps(message) if message is not None else ""
    return f"{head}data: {data}\n\n".encode()


async def stream(request, *events, headers=None):
    """Begin an event stream; the caller may write on, and ends it by returning it."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", **(headers or {})})
    await response.prepare(request)
    for each in events:
        await response.write(each)
    return response


def ask(id, method="tools/list", **params):
    """A frame with a request."""
    message = {"jsonrpc": "2.0", "id": id, "method": method, **({"params": params} if params else {})}
    return Frame(json.dumps(message).encode())


def tell(method, **params):
    """A frame with a notification."""
    message = {"jsonrpc": "2.0", "method": method, **({"params": params} if params else {})}
    return Frame(json.dumps(message).encode())


async def receive(channel, count=1):
    """Receive so many frames, decoded."""
    frames = []
    while len(frames) < count:
        arrived = await channel.receive()
        if not arrived:
            raise AssertionError(f"the channel ended after {frames}: {channel.closed_error()}")
        frames += map(json.loads, arrived)
    return frames


def legacy(rest=None, get=None, opening=None):
    """A server with a session; ``rest`` answers what is no handshake, ``get`` the listening stream."""

    async def answers(request, seen):
        if seen.method == "GET":
            return await get(request, seen) if get else web.Response(status=405)
        if seen.method == "DELETE":
            return web.Response(status=200)
        if seen.body.get("method") == "initialize":
            opened = opening or {"protocolVersion": "2025-06-18"}
            return result(seen.body["id"], opened, **{"Mcp-Session-Id": "s-1"})
        if "id" not in seen.body or "method" not in seen.body:
            return web.Response(status=202)
        return await rest(request, seen) if rest else result(seen.body["id"])

    return answers


async def opened(site, **options):
    """A channel whose handshake is complete."""
    channel = await HttpClientChannel.open(Dial(url=site.url, **options))
    channel.send(ask(0, "initialize"))
    await receive(channel)
    await channel.send(tell("notifications/initialized"))
    return channel
