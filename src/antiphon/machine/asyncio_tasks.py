"""Tasks of asyncio that are ended from outside."""

from __future__ import annotations

import asyncio
from typing import Any

__all__ = ["end_tasks"]


async def end_tasks(*tasks: asyncio.Task[Any] | None) -> None:
    """Cancel all tasks, then wait until each has cleaned up.

    None of them is cancelled twice, which would interrupt its cleanup: not even if the caller is cancelled meanwhile,
    which ends only the waiting. What a task raises is left to whoever awaits it. ``None`` stands for a task that was
    never started.
    """
    running = [task for task in tasks if task is not None and not task.done()]
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running)
