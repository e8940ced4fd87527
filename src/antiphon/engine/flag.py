"""An event that costs very little as long as nobody waits for it.

Every connection has several, and few are awaited. ``asyncio.Event`` allocates a queue at once, which would be most of
the memory of an idle session.
"""

from __future__ import annotations

import asyncio

__all__ = ["Flag"]


class Flag:
    """Something that happens once."""

    __slots__ = ("_event", "_is_set")

    def __init__(self) -> None:
        self._is_set = False
        self._event: asyncio.Event | None = None

    def is_set(self) -> bool:
        """Tell whether it has happened."""
        return self._is_set

    def set(self) -> None:
        """Note that it has happened, and wake all waiting tasks."""
        self._is_set = True
        if self._event is not None:
            self._event.set()

    async def wait(self) -> None:
        """Wait until it has happened."""
        if self._is_set:
            return
        if self._event is None:
            self._event = asyncio.Event()
        await self._event.wait()
