"""Detects that the surrounding ASGI server, if it is not our own, was told to stop, and how long it will wait.

uvicorn tells an application only after every response has ended; but a stream, or the response to a legacy client that
died during an ask, does not end by itself. The application decides what to end.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable

__all__ = ["StopWatch", "told_to_stop"]

_LOOK = 0.25
"""Seconds between two checks whether the server was told to stop."""

_SPARE = 0.5
"""Seconds of the server's grace period left unused, so that the server never has to cancel anything."""


def told_to_stop() -> object:
    """Return the server that was told to stop, or ``None``.

    A server of uvicorn's kind handles SIGTERM in a method, and then sets a flag. Other servers are not detected; nor is
    one outside of the main thread, which receives no signals.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        server = getattr(signal.getsignal(number), "__self__", None)
        if getattr(server, "should_exit", False) is True:
            return server
    return None


def _grace(server: object) -> float | None:
    """Return the seconds after which a server cancels open requests; ``None`` if it waits for ever."""
    given = getattr(getattr(server, "config", None), "timeout_graceful_shutdown", None)
    return max(0.0, given - _LOOK - _SPARE) if isinstance(given, int | float) else None


class StopWatch:
    """Checks whether the surrounding server was told to stop, and has the application end open responses.

    ``stop`` is called with the seconds that the server leaves for this, ``None`` if it sets no limit.
    """

    def __init__(self, stop: Callable[[float | None], Awaitable[None]]) -> None:
        self._stop = stop
        self._timer: asyncio.TimerHandle | None = None
        self._stopping: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start checking; has no effect if it was started before."""
        if self._timer is None and self._stopping is None:
            self._timer = asyncio.get_running_loop().call_later(_LOOK, self._look)

    def end(self) -> None:
        """Stop checking."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        server = told_to_stop()
        if server is None:
            self.start()
        else:
            self._stopping = asyncio.get_running_loop().create_task(self._end(_grace(server)))

    async def _end(self, grace: float | None) -> None:
        try:
            await self._stop(grace)
        finally:
            self._stopping = None
