"""Closing a channel once, whoever asks for it and however often; each who asks waits until it is done."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod

__all__ = ["ClosedOnce"]


class ClosedOnce(ABC):
    """A channel that takes time to close."""

    _closing: asyncio.Task[None] | None = None
    """Closes it; ``None`` while nobody has asked for that."""

    async def close(self) -> None:
        """See ``Channel.close``."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(), name="antiphon close a channel")
            # Not a ``finally`` inside the task: a task that is cancelled before it starts never enters it.
            self._closing.add_done_callback(lambda _: self._let_go())
        await asyncio.shield(self._closing)

    @abstractmethod
    async def _close(self) -> None:
        """End both directions, and wait for what is left to do."""

    def _let_go(self) -> None:
        """Release at once what ``_close`` has not, since it may have been cancelled; by default nothing."""
        return
