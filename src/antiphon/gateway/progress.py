"""Progress of a call through a gateway: passed on, and repeated when a server reports nothing.

A person may take long to answer, and many hosts give up a call after a minute without news. A client that asked for
progress is told every few seconds that the call continues.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from antiphon.machine.asyncio_tasks import end_tasks
from antiphon.server.context import Context

__all__ = ["reporting"]

_QUIET = 15.0
"""Seconds without a report after which the gateway sends one; hosts give up after 60, some after 30."""

Report = Callable[[float, float | None, str | None], Awaitable[None]]


@asynccontextmanager
async def reporting(ctx: Context, *, quiet: float = _QUIET) -> AsyncGenerator[Report]:
    """Pass progress on while a call runs, if its client asked for progress. Yields the function that takes reports.

    ``quiet``: seconds without a report after which the gateway sends one.
    """
    last: tuple[float, float | None] = (0.0, None)

    async def report(progress: float, total: float | None, message: str | None) -> None:
        nonlocal last
        last = max(progress, last[0]), total
        await ctx.progress(progress, total, message)

    async def go_on() -> None:
        nonlocal last
        while True:
            before = last
            await asyncio.sleep(quiet)
            if last == before:
                # Values must increase (2025-11-25 basic/utilities/progress); the smallest step does
                # not disturb later values.
                last = math.nextafter(last[0], math.inf), last[1]
                await ctx.progress(*last, "Waiting; somebody may be deciding")

    going_on = asyncio.get_running_loop().create_task(go_on())
    try:
        yield report
    finally:
        await end_tasks(going_on)
