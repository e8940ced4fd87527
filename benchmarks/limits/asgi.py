"""The limit over HTTP behind uvicorn: a bare ASGI application. Run with ``python -m benchmarks.limits.asgi PORT``."""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import uvicorn

from benchmarks.limits.answers import SAMPLE, Answers, Incoming, decode

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

JSON = (b"content-type", b"application/json")
EVENTS = [(b"content-type", b"text/event-stream")]
EVENT = b"event: message\r\ndata: %b\r\n\r\n"
EMPTY = [(b"content-length", b"0")]

answers = Answers(int(os.environ.get("EXTRA_TOOLS", "0")))
sessions = itertools.count(1)
asked: dict[int | str, asyncio.Future[str]] = {}


async def app(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """Answer one request."""
    if scope["type"] == "lifespan":
        return
    message = decode(await read(receive)) if scope["method"] == "POST" else Incoming()
    if message.method is None:
        if message.result is not None and message.id in asked:
            asked.pop(message.id).set_result(message.result.content.text)
        await respond(send, 202 if scope["method"] == "POST" else 200, EMPTY, b"")
        return
    out = answers.answer(message, modern=is_modern(scope))
    if out is None:
        await respond(send, 202, EMPTY, b"")
    elif out is SAMPLE:
        await sample(send, message)
    else:
        headers = [JSON, (b"content-length", b"%d" % len(out))]
        if message.method == "initialize":
            headers.append((b"mcp-session-id", b"s%d" % next(sessions)))
        await respond(send, 200, headers, out)


async def read(receive: Receive) -> bytes:
    """Read the body."""
    event = await receive()
    if not event.get("more_body"):
        return event["body"]
    parts = [event["body"]]
    while event.get("more_body"):
        event = await receive()
        parts.append(event["body"])
    return b"".join(parts)


def is_modern(scope: dict[str, Any]) -> bool:
    """Look at the version header."""
    for name, value in scope["headers"]:
        if name == b"mcp-protocol-version":
            return value == b"2026-07-28"
    return False


async def respond(send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    """Send a whole response."""
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def sample(send: Send, call: Incoming) -> None:
    """Ask on a stream, wait for the answer, reply on the stream."""
    assert call.params is not None
    assert call.id is not None
    id, ask = answers.ask(call.params.arguments.text)
    answer = asked[id] = asyncio.get_running_loop().create_future()
    await send({"type": "http.response.start", "status": 200, "headers": EVENTS})
    await send({"type": "http.response.body", "body": EVENT % ask, "more_body": True})
    reply = answers.text(call.id, await answer, modern=False)
    await send({"type": "http.response.body", "body": EVENT % reply})


if __name__ == "__main__":
    uvicorn.run(
        app,
        port=int(sys.argv[1]),
        loop="uvloop",
        http="httptools",
        lifespan="off",
        access_log=False,
        log_level="warning",
    )
