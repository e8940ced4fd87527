"""What a process does for tasks by itself: it renews what it holds, takes what nobody holds, unloads what waits.

One timer serves all tasks. It runs while the server is open: once a second where other processes may share the tasks,
since they may have changed some, or died; otherwise only while a handler may have to be unloaded.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

from antiphon.errors import PeerError
from antiphon.server.calls.task.served_tasks import ServedTasks
from antiphon.server.calls.task.task_store import StoredTask

__all__ = ["TaskWorker"]

log = logging.getLogger("antiphon.server")

LOOK = 1.0
"""Seconds between two looks at the tasks."""
_SWEEP = 60.0
"""Seconds between two sweeps for what has expired."""
_AT_ONCE = 32
"""Most tasks that one look takes, so that other processes find some too."""
_RENEWALS = 3
"""How often a lease is renewed before it would end."""


class TaskWorker:
    """The timer of one process."""

    def __init__(self, tasks: ServedTasks) -> None:
        self._tasks = tasks
        self._news = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._renewed = self._swept = 0.0
        self._seen: dict[str, int] = {}
        """Versions of tasks that somebody listens to, as they were told."""
        self._foreign: set[str] = set()
        """Tasks that cannot be opened."""

    def start(self) -> None:
        """Begin to look after the tasks."""
        self._tasks.wake = self._news.set
        self._running = asyncio.get_running_loop().create_task(self._run(), name="antiphon-tasks")

    async def stop(self) -> None:
        """Stop looking."""
        running, self._running = self._running, None
        if running is not None:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running

    async def _run(self) -> None:
        while True:
            try:
                await self.look()
            except Exception as error:
                log.warning("the tasks could not be looked at: %s", type(error).__name__)
            self._news.clear()
            pause = LOOK if self._tasks.store.shared or self._tasks.calls else _SWEEP
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._news.wait()
                # Nothing is looked at twice at the same moment, however many tasks change.
                await asyncio.sleep(0)

    async def look(self) -> None:
        """Do once what is to be done."""
        tasks = self._tasks
        now = await tasks.clock()
        if tasks.store.shared:
            await self._renew(now)
            await self._compare()
        else:
            await self._drop_expired()
        # Those that cannot be opened stay due, and must not keep others from being found.
        for stored in await tasks.store.due(now, _AT_ONCE + len(self._foreign)):
            if stored.id not in self._foreign:
                await self._take(stored)
        if tasks.unload_after is not None:
            await self._unload(tasks.unload_after)
        if now - self._swept >= _SWEEP:
            self._swept = now
            self._foreign.clear()
            await tasks.store.sweep(now)

    async def _renew(self, now: float) -> None:
        """Renew the leases, all in one write."""
        lease = self._tasks.options.lease
        if self._tasks.calls and now - self._renewed >= lease / _RENEWALS:
            await self._tasks.store.renew(self._tasks.me, now + lease)
            self._renewed = now

    async def _compare(self) -> None:
        """Find what other processes have changed: tasks whose handlers are here, and tasks that somebody listens to."""
        tasks = self._tasks
        calls = dict(tasks.calls)
        if calls:
            held = await tasks.store.held(tasks.me)
            for id, call in calls.items():
                if held.get(id) != call.record.version:
                    await tasks.look(id)
            for id in held.keys() - calls.keys() - tasks.busy.keys():
                await tasks.let_go(id)
        for id in tasks.listened() - calls.keys():
            stored = await tasks.store.get(id)
            if stored is not None and self._seen.get(id) != stored.version:
                self._seen[id] = stored.version
                await tasks.look(id)
        for id in self._seen.keys() - tasks.listened():
            del self._seen[id]

    async def _drop_expired(self) -> None:
        for id in list(self._tasks.calls):
            if await self._tasks.store.get(id) is None:
                await self._tasks.look(id)

    async def _take(self, stored: StoredTask) -> None:
        try:
            record = self._tasks.stored.unpacked(stored)
        except PeerError:
            self._foreign.add(stored.id)
            log.warning("a task in the store was sealed with other keys, or is another server's; it is left there")
            return
        await self._tasks.run_again(record)

    async def _unload(self, after: float) -> None:
        now = asyncio.get_running_loop().time()
        for call in list(self._tasks.calls.values()):
            if call.is_waiting and now - call.active >= after:
                await self._tasks.unload(call)
