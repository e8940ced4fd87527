"""The lifespan of a server while it is held open: entered once and left once, both in a task of its own.

Clients are served in tasks of their own, but the code that authors write before and after ``yield`` may belong to one
task (a ``TaskGroup`` does), so neither the first client's task nor the last one's may run it. ``service`` decides when
it is entered and left.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Any

from antiphon.errors import ConfigError
from antiphon.machine.asyncio_tasks import end_tasks

__all__ = ["Held"]


class Held:
    """A lifespan that was entered, until it is left."""

    def __init__(self, lifespan: AbstractAsyncContextManager[Any]) -> None:
        if not hasattr(lifespan, "__aenter__"):
            raise ConfigError(
                f"lifespan= gave a {type(lifespan).__name__} and no async context manager: decorate the function with "
                "contextlib.asynccontextmanager"
            )
        loop = asyncio.get_running_loop()
        self._entered: asyncio.Future[Any] = loop.create_future()
        self._leave = asyncio.Event()
        self._task = loop.create_task(self._hold(lifespan))

    async def _hold(self, lifespan: AbstractAsyncContextManager[Any]) -> None:
        async with lifespan as state:
            self._entered.set_result(state)
            await self._leave.wait()

    async def enter(self) -> Any:
        """Return what the lifespan yields, or raise what it raises. Cancelling this ends it."""
        try:
            await asyncio.wait((self._entered, self._task), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await end_tasks(self._task)
            raise
        if not self._entered.done():
            self._entered.cancel()
            self._task.result()
        return self._entered.result()

    async def leave(self) -> None:
        """Leave the lifespan; raise what it raises."""
        self._leave.set()
        await asyncio.shield(self._task)
