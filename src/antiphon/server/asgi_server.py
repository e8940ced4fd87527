"""The ASGI server that serves us, where it is not our own: whether it was told to stop, and how long it will wait.

uvicorn tells an application so only after every response has ended, and a legacy client that died in the middle of an
ask, or a stream that is listened to, has none that ends by itself. Owns how the signal is noticed; what is ended then
is the application's business.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable

__all__ = ["StopWatch", "told_to_stop"]

_LOOK = 0.25
"""Seconds between two looks whether the server was told to stop."""

_SPARE = 0.5
"""Seconds of the server's own grace that are left to it, so that it never has to cancel anything."""


def told_to_stop() -> object:
    """Return the server that was told to stop, or ``None``.

    A server of the kind of uvicorn's handles SIGTERM with a method of its own, and has a flag that it sets then.
    Others are not seen; nor is one that runs beside the main thread, to which no signal comes.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        server = getattr(signal.getsignal(number), "__self__", None)
        if getattr(server, "should_exit", False) is True:
            return server
    return None


def _grace(server: object) -> float | None:
    """Return the seconds after which a server cancels what is open; ``None`` if it would wait for ever."""
    given = getattr(getattr(server, "config", None), "timeout_graceful_shutdown", None)
    return max(0.0, given - _LOOK - _SPARE) if isinstance(given, int | float) else None


class StopWatch:
    """Looks whether the server that serves us was told to stop, and has the application end what is open.

    ``stop`` is given the seconds that the server leaves for it, ``None`` if it names none.
    """

    def __init__(self, stop: Callable[[float | None], Awaitable[None]]) -> None:
        self._stop = stop
        self._timer: asyncio.TimerHandle | None = None
        self._stopping: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Look from now on; where it is done already, nothing changes."""
        if self._timer is None and self._stopping is None:
            self._timer = asyncio.get_running_loop().call_later(_LOOK, self._look)

    def end(self) -> None:
        """Look no more."""
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
