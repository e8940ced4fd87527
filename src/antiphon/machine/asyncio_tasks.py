"""Tasks of asyncio that outlive the function that starts them: held while they run, and ended."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def start_in(running: set[asyncio.Task[T]], work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Run ``work`` in a task that ``running`` holds, because the event loop has only weak references to tasks."""
    task = asyncio.get_running_loop().create_task(work)
    running.add(task)
    task.add_done_callback(running.discard)
    return task


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
