"""Drives an ASGI application without a server: one request at a time, or an open one that is read bit by bit."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

from antiphon.protocol.http.sse import Event, EventParser

ACCEPT = "application/json, text/event-stream"


class Response:
    """What the application sent, as far as it has."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""
        self.complete = asyncio.Event()
        self._arrived = asyncio.Condition()

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Event]:
        return EventParser().feed(self.body)

    @property
    def messages(self) -> list[Any]:
        """What the events with data say."""
        return [json.loads(event.data) for event in self.events if event.data]

    @property
    def is_stream(self) -> bool:
        return self.headers.get("content-type") == "text/event-stream"

    async def take(self, message: Mapping[str, Any]) -> None:
        async with self._arrived:
            if message["type"] == "http.response.start":
                self.status = message["status"]
                self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            else:
                self.body += message["body"]
                if not message.get("more_body"):
                    self.complete.set()
            self._arrived.notify_all()

    async def begun(self) -> None:
        """Wait until the head is there."""
        async with asyncio.timeout(30), self._arrived:
            await self._arrived.wait_for(lambda: self.status)

    async def until(self, text: bytes) -> None:
        """Wait until the body has this in it."""
        async with asyncio.timeout(30), self._arrived:
            await self._arrived.wait_for(lambda: text in self.body)


class Open:
    """A request under way."""

    def __init__(self, app: Any, scope: dict[str, Any], body: list[bytes], send: Any = None) -> None:
        self.response = Response()
        self._inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        for at, piece in enumerate(body):
            self._inbox.put_nowait({"type": "http.request", "body": piece, "more_body": at < len(body) - 1})
        self.task = asyncio.ensure_future(app(scope, self._inbox.get, send or self.response.take))

    def disconnect(self) -> None:
        """Close the connection, as the client."""
        self._inbox.put_nowait({"type": "http.disconnect"})

    async def done(self) -> Response:
        async with asyncio.timeout(30):
            await self.task
        return self.response


def scope_of(method: str, headers: Mapping[str, str], path: str = "/mcp", **more: Any) -> dict[str, Any]:
    """Make the ASGI scope of a request."""
    sent = {"host": "localhost:80", **{name.replace("_", "-").lower(): value for name, value in headers.items()}}
    pairs = [(name.encode(), value.encode("latin-1")) for name, value in sent.items()]
    return {"type": "http", "method": method, "path": path, "headers": pairs, **more}


def begin(app: Any, message: Any, **headers: str) -> Open:
    """Post a message, and return without waiting for the response."""
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    sent = {"content-type": "application/json", "accept": ACCEPT, **headers}
    return Open(app, scope_of("POST", {name: value for name, value in sent.items() if value}), [body])


async def post(app: Any, message: Any, **headers: str) -> Response:
    """Post a message and wait for the whole response. A header of "" is left out."""
    return await begin(app, message, **headers).done()


def listen(app: Any, send: Any = None, **headers: str) -> Open:
    """Open a stream with GET. ``send`` takes what is sent, in place of the response."""
    return Open(app, scope_of("GET", {"accept": "text/event-stream", **headers}), [b""], send)


async def ask(app: Any, method: str, path: str = "/mcp", **headers: str) -> Response:
    """Send a request without a body."""
    return await Open(app, scope_of(method, {"accept": ACCEPT, **headers}, path), [b""]).done()


@contextlib.asynccontextmanager
async def closing(app: Any) -> AsyncIterator[Any]:
    """Close an application at the end."""
    try:
        yield app
    finally:
        await app.close()
