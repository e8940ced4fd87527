"""A proxy on loopback that cuts the connection of a tool call, once, after so many server-sent events."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import asynccontextmanager


class Cut:
    """Passes bytes on; after ``events`` events on one stream, its connection is aborted."""

    def __init__(self, host, events):
        self._host, self._port = host.split(":")
        self._left = events
        self.done = False
        self._tasks = set()

    async def meet(self, reader, writer):
        there_reader, there_writer = await asyncio.open_connection(self._host, int(self._port))
        self._tasks.add(asyncio.current_task())
        calls = asyncio.Event()
        up = asyncio.ensure_future(self._up(reader, there_writer, calls))
        try:
            await self._down(there_reader, writer, calls)
        except OSError:
            pass
        finally:
            up.cancel()
            for each in (writer, there_writer):
                each.transport.abort()
            with contextlib.suppress(asyncio.CancelledError, OSError):
                await up
            self._tasks.discard(asyncio.current_task())

    async def _up(self, reader, writer, calls):
        while data := await reader.read(65536):
            if b'"tools/call"' in data:
                calls.set()
            writer.write(data)

    async def _down(self, reader, writer, calls):
        while data := await reader.read(65536):
            if calls.is_set() and not self.done and (end := self._end_within(data)) is not None:
                self.done = True
                writer.write(data[:end])
                await writer.drain()
                # What is in the socket's buffer is sent before the end, unlike with an abort.
                writer.close()
                return
            writer.write(data)

    def _end_within(self, data):
        """Return where the last event to pass ends, if it ends in here."""
        at = data.find(b"\r\n\r\n") + 4 if data.startswith(b"HTTP/1.1") else 0
        if at and b"text/event-stream" not in data[:at]:
            return None
        while (found := data.find(b"\n\n", at)) >= 0:
            at = found + 2
            self._left -= 1
            if self._left == 0:
                return at
        return None

    async def close(self):
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def cutting(host, events):
    """Run the proxy before ``host``; yields it and its own ``host:port``."""
    cut = Cut(host, events)
    server = await asyncio.start_server(cut.meet, "127.0.0.1", 0)
    try:
        yield cut, f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await cut.close()
        await server.wait_closed()
