"""uvicorn, told to stop: what the application holds open is ended first, else its streams would outlive the signal.

uvicorn waits for open responses before it ends the application's lifespan, and a stream that a client listens to ends
only with the application. Imports uvicorn, and so is imported only where something is served.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable

import uvicorn

__all__ = ["GracefulServer"]


class GracefulServer(uvicorn.Server):
    """A uvicorn server that closes its application as soon as it no longer accepts connections."""

    def __init__(self, config: uvicorn.Config, close: Callable[[], Awaitable[object]]) -> None:
        super().__init__(config)
        self._close = close

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting, let the application end what is open, then do as uvicorn does."""
        for server in self.servers:
            server.close()
        for each in sockets or ():
            each.close()
        await self._close()
        await super().shutdown(sockets)
