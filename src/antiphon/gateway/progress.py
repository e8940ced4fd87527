"""Progress of a call through a gateway: passed on, and repeated when a server reports nothing.

A person may take long to answer, and many hosts give up a call after a minute without news. A client that asked for
progress is told every few seconds that the call continues, and what a server writes while it starts.
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

_LOOK = 1.0
"""Seconds between two looks at a server that starts."""

Report = Callable[[float, float | None, str | None], Awaitable[None]]


@asynccontextmanager
async def reporting(
    ctx: Context, starting: Callable[[], str | None] = lambda: None, *, quiet: float = _QUIET
) -> AsyncGenerator[Report]:
    """Pass progress on while a call runs, if its client asked for progress. Yields the function that takes reports.

    ``starting``: says how far the server has come while it starts; ``None`` when it runs. ``quiet``: seconds without a
    report after which the gateway sends one.
    """
    last: tuple[float, float | None] = (0.0, None)

    async def report(progress: float, total: float | None, message: str | None) -> None:
        nonlocal last
        last = max(progress, last[0]), total
        await ctx.progress(progress, total, message)

    async def go_on() -> None:
        nonlocal last
        loop = asyncio.get_running_loop()
        before, told, since = last, None, loop.time()
        while True:
            await asyncio.sleep(min(quiet, _LOOK))
            start = starting()
            has_news = start is not None and start != told
            if not has_news and last == before and loop.time() - since < quiet:
                continue
            if has_news or last == before:
                # Values must increase (2025-11-25 basic/utilities/progress); the smallest step does
                # not disturb later values.
                last = math.nextafter(last[0], math.inf), last[1]
                await ctx.progress(*last, start or "Waiting; somebody may be deciding")
            before, told, since = last, start, loop.time()

    going_on = asyncio.get_running_loop().create_task(go_on())
    try:
        yield report
    finally:
        await end_tasks(going_on)
