"""Limits HTTP connections to the number of files the process may open; further calls wait for one.

A call occupies a connection while it is open. Owns how many calls of one client may be sent at once, so that
connections are left for answers to asks; and which failures mean that no file is left.
"""

from __future__ import annotations

import asyncio
import errno

from aiohttp import ClientConnectorError

__all__ = ["PATIENCE", "PAUSE", "Places", "are_used_up", "most_at_once"]

MAX_AT_ONCE = 10_000
"""Most calls of one client with a connection at the same time, however many files may be open."""

PATIENCE = 30.0
"""Seconds a call waits for its turn before it is sent anyway (calls before it may be waiting for it), and for a
connection if the system has none."""

PAUSE = 0.05
"""Seconds between two attempts to open a connection."""

_USED_UP = (errno.EMFILE, errno.ENFILE)


def most_at_once() -> int:
    """Return how many calls may have a connection: half the number of files, since answers need connections too."""
    try:
        import resource
    except ImportError:  # Windows
        return MAX_AT_ONCE
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_AT_ONCE if soft == resource.RLIM_INFINITY else max(8, min(soft // 2, MAX_AT_ONCE))


def are_used_up(error: Exception) -> bool:
    """Tell whether a connection could not be opened because too many files are open."""
    cause = error.os_error if isinstance(error, ClientConnectorError) else error
    return isinstance(cause, OSError) and cause.errno in _USED_UP


class Places:
    """The places for one client's calls; those that wait for one get it in the order in which they came.

    An ``asyncio.Semaphore`` would take ten times as long for a place that is free, and each call takes one.
    """

    __slots__ = ("_free", "_turns")

    def __init__(self) -> None:
        self._free = most_at_once()
        """While calls wait it is 0, since a place that is given back goes to the first of them."""
        self._turns: dict[asyncio.Future[None], None] = {}
        """Those that wait, in order."""

    async def take(self) -> bool:
        """Wait for a place, no longer than ``PATIENCE``; return whether there was one, which is then to be freed."""
        if self._free:
            self._free -= 1
            return True
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._turns[turn] = None
        try:
            await asyncio.wait((turn,), timeout=PATIENCE)
        except asyncio.CancelledError:
            if turn.done():
                self.free()
            raise
        finally:
            self._turns.pop(turn, None)
        return turn.done()

    def free(self) -> None:
        """Give a place back."""
        turn = next(iter(self._turns), None)
        if turn is None:
            self._free += 1
            return
        del self._turns[turn]
        turn.set_result(None)
