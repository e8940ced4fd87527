"""A model vendor on loopback: speaks one wire format, answers as the test says, and refuses what breaks the format.

The formats are those of the vendors' public API references: OpenAI chat completions, Anthropic messages, Gemini
generateContent. Each has a file of its own here, with the same names in it.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import NamedTuple

from aiohttp import web

KEY = "sk-loopback-0123456789abcdef"


class Seen(NamedTuple):
    """One request as the vendor saw it."""

    path: str
    headers: dict[str, str]
    body: dict


class Site:
    """What was asked, and where. Answers are taken in turn; the last one stays."""

    def __init__(self, check, answers):
        self._check = check
        self._answers = list(answers)
        self.seen: list[Seen] = []
        self.url = ""
        self.arrived = asyncio.Event()
        self.gone = asyncio.Event()

    async def handle(self, request):
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.seen.append(Seen(request.path, headers, json.loads(await request.read())))
        self.arrived.set()
        problem = self._check(self.seen[-1])
        if problem:
            return web.json_response({"error": {"message": f"test vendor: {problem}"}}, status=400)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        try:
            return await answer(request) if callable(answer) else web.json_response(answer)
        except asyncio.CancelledError:
            self.gone.set()
            raise


@asynccontextmanager
async def serving(vendor, *answers):
    """Run a vendor; each answer is a JSON value, or a coroutine function from the request to a response."""
    site = Site(vendor.problem, answers)
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_post("/{rest:.*}", site.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    site.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield site
    finally:
        await runner.cleanup()


def failing(status, body=None, **headers):
    """Answer with an error; a body of a vendor's own format, or any text."""

    async def answer(_):
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if isinstance(body, str):
            return web.Response(status=status, text=body, headers=named)
        return web.json_response(body or {}, status=status, headers=named)

    return answer


def text(content, content_type="application/json"):
    """Answer with any text, well-formed or not."""

    async def answer(_):
        return web.Response(text=content, content_type=content_type)

    return answer


async def cut(request):
    """Begin an answer, and cut the connection in the middle of it."""
    response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": "1000"})
    await response.prepare(request)
    await response.write(b'{"id": "half of an an')
    request.transport.abort()
    return response


async def silent(_):
    """Take the request and never answer."""
    await asyncio.Event().wait()


def unpacking(size):
    """Answer with so many zeros, packed."""

    async def answer(request):
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_compression(web.ContentCoding.gzip)
        await response.prepare(request)
        await response.write(b"0" * size)
        return response

    return answer


def endless(limit):
    """Answer with more than ``limit`` bytes, for as long as they are read."""

    async def answer(request):
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for _ in range(limit // 65536 + 10):
            await response.write(b" " * 65536)
        return response

    return answer


def pouring(*events, done=True):
    """Answer with server-sent events, each a pair of name and value; cut off after them unless it is ``done``.

    A value may be an event of asyncio instead: what follows waits until it is set.
    """

    async def answer(request):
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for name, value in events:
            if isinstance(value, asyncio.Event):
                await value.wait()
                continue
            said = value if isinstance(value, str) else json.dumps(value)
            head = f"event: {name}\n" if name else ""
            await response.write(f"{head}data: {said}\n\n".encode())
        if not done:
            request.transport.abort()
        return response

    return answer
