"""One HTTP/1.1 connection of the load, with one request in flight; JSON and event streams alike. It judges nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import httptools

__all__ = ["HOST", "Connection", "connect", "exchange", "head"]

HOST = "127.0.0.1"
PATIENCE = 30.0
"""Seconds one exchange may take; no right answer of any peer takes one."""


class Events:
    """Take the data out of an event stream that comes in pieces."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._end = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Return the data of the events that ended; those that only open a stream have none."""
        self._parts.append(data)
        self._end = (self._end + data[-4:])[-4:]
        if not (self._end.endswith(b"\n\n") or self._end == b"\r\n\r\n"):
            return []
        whole, self._parts, self._end = b"".join(self._parts), [], b""
        found: list[bytes] = []
        for event in whole.replace(b"\r\n", b"\n").split(b"\n\n"):
            lines = [line[5:].lstrip() for line in event.split(b"\n") if line.startswith(b"data:")]
            if text := b"\n".join(lines).strip():
                found.append(text)
        return found


class Connection(asyncio.Protocol):
    """A kept-alive connection. Set the three callbacks before the first request."""

    def __init__(self) -> None:
        self.on_message: Callable[[bytes], None] = lambda _data: None
        self.on_done: Callable[[int], None] = lambda _status: None
        """Called with the status when a response has ended."""
        self.on_lost: Callable[[], None] = lambda: None
        """Called when the connection is gone and nobody closed it here."""
        self.session = b""
        """The ``Mcp-Session-Id`` of the last response that had one."""
        self.busy = False
        self.usable = True
        """Whether another request may follow."""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)
        self._parser = httptools.HttpResponseParser(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell whoever waits."""
        self.usable, self._transport = False, None
        self.on_lost()

    def request(self, head: bytes, body: bytes) -> None:
        """Send one request; ``head`` ends with ``Content-Length: ``."""
        assert self._transport is not None
        self.busy = True
        self._transport.write(head + b"%d\r\n\r\n" % len(body) + body)

    def close(self) -> None:
        """Close, without telling anybody."""
        self.on_lost = lambda: None
        if self._transport is not None:
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        """Parse what came."""
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        """Forget the response before."""
        self._parts: list[bytes] = []
        self._events: Events | None = None

    def on_header(self, name: bytes, value: bytes) -> None:
        """Note the two headers that matter."""
        # Compared by length first: this runs for every header of every response.
        if len(name) == 12 and name.lower() == b"content-type" and value.startswith(b"text/event-stream"):
            self._events = Events()
        elif len(name) == 14 and name.lower() == b"mcp-session-id":
            self.session = value

    def on_body(self, data: bytes) -> None:
        """Hand on the events that ended; keep what is no stream."""
        if self._events is None:
            self._parts.append(data)
            return
        for event in self._events.feed(data):
            self.on_message(event)

    def on_message_complete(self) -> None:
        """Hand on a body that is no stream, and say the response has ended."""
        status = self._parser.get_status_code()
        self.usable = self._parser.should_keep_alive()
        self.busy = False
        if self._parts and (body := self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)):
            self.on_message(body)
        self.on_done(status)


def head(port: int, *lines: bytes, method: bytes = b"POST") -> bytes:
    """Write the head of every request of a connection, up to the value of its length."""
    fixed = (
        method + b" /mcp HTTP/1.1",
        b"Host: %b:%d" % (HOST.encode(), port),
        b"Content-Type: application/json",
        b"Accept: application/json, text/event-stream",
    )
    return b"\r\n".join([*fixed, *lines, b"Content-Length: "])


async def connect(port: int) -> Connection:
    """Open a connection."""
    _, protocol = await asyncio.get_running_loop().create_connection(Connection, HOST, port)
    return protocol


async def exchange(connection: Connection, head: bytes, body: bytes) -> tuple[int, list[bytes]]:
    """Send one request and wait for its response: the status, and the messages in it.

    Raises:
        ConnectionError: The connection was lost.
        TimeoutError: No end came.
    """
    ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    messages: list[bytes] = []
    connection.on_message = messages.append
    connection.on_done = lambda status: None if ended.done() else ended.set_result(status)
    connection.on_lost = lambda: None if ended.done() else ended.set_exception(ConnectionError("connection lost"))
    connection.request(head, body)
    status = await asyncio.wait_for(ended, PATIENCE)
    connection.on_lost = lambda: None
    return status, messages
