"""The tasks of one connection, each of which is cancelled at most once.

A second ``cancel`` would interrupt the cleanup started by the first, so this module remembers which were cancelled.
Also what else every connection has several of: calls of user code whose exceptions are logged, so that the connection
continues, and ``Flag``, an event that costs very little as long as no task waits for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVarTuple

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
        """Return whether other code has cancelled a task, so that the cancellation must not be swallowed here."""
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


class Flag:
    """Something that happens once.

    ``asyncio.Event`` allocates a queue at once, which would be most of the memory of an idle session.
    """

    __slots__ = ("_event", "_is_set")

    def __init__(self) -> None:
        self._is_set = False
        self._event: asyncio.Event | None = None

    def is_set(self) -> bool:
        """Return whether it has happened."""
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


log = logging.getLogger("antiphon.connection")

A = TypeVarTuple("A")


def call_safely(what: str, callback: Callable[[*A], object], *arguments: *A) -> object:
    """Call a callback and return its result; ``None`` if it fails. ``what`` names it in the log."""
    try:
        return callback(*arguments)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:
        log.exception("a callback for %s failed", what)
        return None


async def await_safely(work: Awaitable[object]) -> None:
    """Await what a callback returned."""
    try:
        await work
    except Exception:
        log.exception("a callback failed")
