"""A proxy on loopback that cuts the connection of a tool call, after so many server-sent events."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import asynccontextmanager


class Cut:
    """Passes bytes on; after ``events`` events on the stream of the ``call``-th tool call, its connection is cut.

    With ``events=0`` it is cut before a byte of the answer has passed. ``every``: each stream that goes on with a call
    is cut as well, until the call is complete. Where a server names a time to wait, a short one is passed on.
    """

    def __init__(self, host, events, *, call=1, every=False):
        self._host, self._port = host.split(":")
        self._events = events
        self._call = call
        self._every = every
        self.calls = 0
        """How many tool calls were seen."""
        self.cuts = 0
        """How many connections were cut."""
        self._open = {}

    @property
    def done(self):
        """Whether a connection was cut."""
        return self.cuts > 0

    async def meet(self, reader, writer):
        there_reader, there_writer = await asyncio.open_connection(self._host, int(self._port))
        ends = (writer, there_writer)
        self._open[asyncio.current_task()] = ends
        armed = asyncio.Event()
        up = asyncio.ensure_future(self._up(reader, there_writer, armed))
        try:
            await self._down(there_reader, writer, armed)
        except OSError:
            pass
        finally:
            up.cancel()
            for each in ends:
                each.transport.abort()
            with contextlib.suppress(asyncio.CancelledError, OSError):
                await up
            del self._open[asyncio.current_task()]

    async def _up(self, reader, writer, armed):
        while data := await reader.read(65536):
            if b'"tools/call"' in data:
                self.calls += 1
                if self.calls == self._call:
                    armed.set()
            elif self._every and b"last-event-id" in data.lower():
                armed.set()
            writer.write(data)

    async def _down(self, reader, writer, armed):
        left = self._events
        while data := await reader.read(65536):
            data = data.replace(b"retry: 1000", b"retry: 0020")
            if armed.is_set() and (self._every or not self.done):
                left, end = _passing(data, left)
                if end is not None:
                    self.cuts += 1
                    writer.write(data[:end])
                    await writer.drain()
                    # What is in the socket's buffer is sent before the end, unlike with an abort.
                    writer.close()
                    return
            writer.write(data)

    async def close(self):
        tasks = list(self._open)
        for ends in self._open.values():
            for each in ends:
                each.transport.abort()
        await asyncio.gather(*tasks, return_exceptions=True)


def _passing(data, left):
    """Return how many events may still pass after ``data``, and where the last one ends if it ends in here."""
    if left == 0:
        return 0, 0
    at = data.find(b"\r\n\r\n") + 4 if data.startswith(b"HTTP/1.1") else 0
    if at and b"text/event-stream" not in data[:at]:
        return left, None
    while (found := data.find(b"\n\n", at)) >= 0:
        at = found + 2
        left -= 1
        if left == 0:
            return 0, at
    return left, None


@asynccontextmanager
async def cutting(host, events, **options):
    """Run the proxy before ``host``; yields it and its own ``host:port``. See ``Cut`` for the rest."""
    cut = Cut(host, events, **options)
    server = await asyncio.start_server(cut.meet, "127.0.0.1", 0)
    try:
        yield cut, f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await cut.close()
        await server.wait_closed()
