"""uvicorn, told to stop: what the application holds open is ended first, else its streams would outlive the signal.

uvicorn waits for open responses before it ends the application's lifespan, and a stream that a client listens to ends
only with the application. Bounds its connections, too. Imports uvicorn, and so is imported only where something is
served.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Generator

import uvicorn

from antiphon.transports.http.server.connections import BoundedConnection, Limits, Sweep

__all__ = ["GracefulServer"]

_LEAVE = 0.5
"""Seconds in which a connection that is kept may still bring a request, and hears that it was the last: far longer
than a request is under way, and short beside what open requests are given. What rests after it is closed."""

_TICKS = 10
"""Of uvicorn's clock between two looks at the connections: a second."""


class GracefulServer(uvicorn.Server):
    """A uvicorn server that closes its application as soon as it no longer accepts connections.

    ``limits`` are those of its connections, as far as they are times; the others are in the class that
    ``connections.bounded_by`` makes for the configuration.
    """

    def __init__(
        self, config: uvicorn.Config, close: Callable[[], Awaitable[object]], limits: Limits | None = None
    ) -> None:
        super().__init__(config)
        self._close = close
        self._sweep = Sweep(limits or Limits())

    async def on_tick(self, counter: int) -> bool:
        """Do what is due ten times a second."""
        if counter % _TICKS == 0:
            self._sweep(self.server_state.connections, asyncio.get_running_loop().time())
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting, let the application end what is open, then do as uvicorn does."""
        for server in self.servers:
            server.close()
        for each in sockets or ():
            each.close()
        await self._take_leave()
        await self._close()
        await super().shutdown(sockets)

    async def _take_leave(self) -> None:
        """Have the connections that are kept between requests closed without losing what comes on them."""
        for each in self._kept():
            each.take_leave()
        if self._resting():
            await asyncio.sleep(_LEAVE)
        for each in self._resting():
            each.transport.close()

    def _kept(self) -> list[BoundedConnection]:
        return [each for each in list(self.server_state.connections) if isinstance(each, BoundedConnection)]

    def _resting(self) -> list[BoundedConnection]:
        return [each for each in self._kept() if each.is_resting and not each.transport.is_closing()]

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Stop at SIGINT and SIGTERM. Whoever asked for the end, and got it in order, need not kill us as well."""
        with super().capture_signals():
            yield
            self._captured_signals.clear()
