"""The tasks of one connection, each of which is cancelled at most once.

A second ``cancel`` would interrupt the cleanup started by the first, so this module remembers which were cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

__all__ = ["Tasks"]

Task = asyncio.Task[None]


class Tasks:
    """A set of running tasks; a task leaves it when it is done."""

    __slots__ = ("_loop", "_running", "_told")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        # Not sets, because most sessions are idle, and an empty set takes three times the memory.
        self._running: dict[Task, None] = {}
        self._told: dict[Task, None] = {}

    def __len__(self) -> int:
        return len(self._running)

    def __contains__(self, task: object) -> bool:
        return task in self._running

    def start(self, work: Coroutine[Any, Any, None]) -> Task:
        """Run ``work`` in a task of its own."""
        task = self._loop.create_task(work)
        self._running[task] = None
        task.add_done_callback(self._running.pop)
        return task

    def stop(self, task: asyncio.Task[Any], reason: str | None = None) -> None:
        """Cancel a task, unless it was cancelled before and may be cleaning up."""
        if task not in self._told and not task.done():
            self._told[task] = None
            task.add_done_callback(self._forget)
            task.cancel(reason)

    def is_stopped_by_others(self, task: asyncio.Task[Any] | None) -> bool:
        """Tell whether other code has cancelled a task, so that the cancellation must not be swallowed here."""
        return task is not None and task.cancelling() > (task in self._told)

    def forgive(self, task: asyncio.Task[Any]) -> None:
        """Undo ``stop``: what had to end has ended, and the task, which may belong to other code, continues."""
        if task in self._told:
            self._forget(task)
            task.uncancel()

    def _forget(self, task: Task) -> None:
        self._told.pop(task, None)

    def stop_all(self, spare: asyncio.Task[Any] | None) -> None:
        """Cancel every task but one."""
        for task in list(self._running):
            if task is not spare:
                self.stop(task)

    async def wait_stopped(self, spare: asyncio.Task[Any] | None, patience: float) -> None:
        """Cancel all tasks but one, give them ``patience`` seconds to clean up, cancel them again, and return."""
        self.stop_all(spare)
        others = [task for task in self._running if task is not spare]
        if others:
            _, stubborn = await asyncio.wait(others, timeout=patience)
            for task in stubborn:
                task.cancel()
