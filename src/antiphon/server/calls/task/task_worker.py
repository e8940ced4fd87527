"""What a process does for tasks by itself: it renews what it holds, takes what nobody holds, unloads what waits.

One timer serves all tasks. It is set to what comes first: a task that is due, a lease to renew, a handler to unload.
What other processes write is told by the store, where it can (PostgreSQL); otherwise this looks once a second (a SQLite
file of several processes). Even what is told is looked at in between, for a notice that was lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Iterable, Mapping

from antiphon.errors import PeerError
from antiphon.server.calls.task.served_tasks import ServedTasks
from antiphon.server.calls.task.task_store import StoredTask, TaskNotice, mark_of

__all__ = ["TaskWorker"]

log = logging.getLogger("antiphon.server")

LOOK = 1.0
"""Seconds between two looks at tasks of which nobody tells."""
NET = 30.0
"""Most seconds between two looks at everything. It is less where leases are shorter: what was taken since the last look
is then seen before its lease can end."""
_TOGETHER = 0.02
"""Least seconds between two looks, so that notices of the same moment are looked at together."""
_HEAD_START = 0.1
"""Seconds for which a task that has become ready is left to the process that made it so, which mostly takes it."""
_UNLOADING = 0.1
"""Least seconds between two looks for handlers that have waited for long enough."""
_SWEEP = 60.0
"""Seconds between two sweeps for what has expired."""
_AT_ONCE = 32
"""Most tasks that one look takes, so that other processes find some too."""
_RENEWALS = 3
"""How often a lease is renewed before it would end."""
_MOST_HEARD = 10_000
"""Tasks that are told of before a look; when there are more, it looks at everything."""


class TaskWorker:
    """The timer of one process."""

    def __init__(self, tasks: ServedTasks) -> None:
        self._tasks = tasks
        self._news = asyncio.Event()
        self._running: list[asyncio.Task[None]] = []
        self._heard: set[str] = set()
        """Marks of the tasks that were told of since the last look."""
        self._is_stale = True
        """Whether something may have changed without a notice."""
        self._looked = self._renewed = self._swept = self._due = 0.0
        """When everything was looked at, leases were renewed, the store was swept; and when a task is due next. By the
        clock of the store."""
        self._seen: dict[str, int] = {}
        """Versions of tasks as they were looked at: those with handlers here, and those that somebody listens to."""
        self._foreign: set[str] = set()
        """Tasks that cannot be opened."""

    def start(self) -> None:
        """Begin to look after the tasks."""
        self._tasks.wake = self._news.set
        self._is_stale = True
        loop = asyncio.get_running_loop()
        self._running = [loop.create_task(self._run(), name="antiphon-tasks")]
        if self._tasks.store.shared:
            self._running.append(loop.create_task(self._watch(), name="antiphon-task-notices"))

    async def stop(self) -> None:
        """Stop looking."""
        running, self._running = self._running, []
        for each in running:
            each.cancel()
        if running:
            await asyncio.wait(running)

    async def _watch(self) -> None:
        try:
            await self._tasks.store.watch(self._hear)
        except Exception as error:
            log.warning("the tasks are looked at once a second: %s", type(error).__name__)

    def _hear(self, notice: TaskNotice | None) -> None:
        if notice is None or len(self._heard) >= _MOST_HEARD:
            self._is_stale = True
        else:
            self._heard.add(notice.mark)
            if notice.due is not None:
                self._due = min(self._due, max(notice.due, self._tasks.now() + _HEAD_START))
        self._news.set()

    async def _run(self) -> None:
        while True:
            self._news.clear()
            try:
                await self.look()
            except Exception as error:
                self._is_stale = True
                log.warning("the tasks could not be looked at: %s", type(error).__name__)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK if self._is_stale else self._pause()):
                    await self._news.wait()
                await asyncio.sleep(_TOGETHER)

    def _pause(self) -> float:
        """Return the seconds until something is to be looked at, unless there is news."""
        tasks, now = self._tasks, self._tasks.now()
        if not tasks.store.tells:
            return LOOK
        ends = [self._looked + self._net, self._due]
        if tasks.calls and tasks.store.shared:
            ends.append(self._renewed + tasks.options.lease / _RENEWALS)
        if tasks.calls and tasks.unload_after is not None:
            ends.append(now + max(_UNLOADING, self._until_unloading(tasks.unload_after)))
        if self._elsewhere():
            # Their holders do not tell how far they are: that would cost everybody's writes more than this does.
            ends.append(now + LOOK)
        return max(_TOGETHER, min(ends) - now)

    @property
    def _net(self) -> float:
        return min(NET, self._tasks.options.lease)

    def _until_unloading(self, after: float) -> float:
        """Return the seconds until some handler has waited for long enough. One that does not wait yet has not."""
        now = asyncio.get_running_loop().time()
        return min((call.active + after - now for call in self._tasks.calls.values() if call.is_waiting), default=after)

    def _elsewhere(self) -> set[str]:
        """Return the tasks that somebody listens to, and that other processes may run."""
        return self._tasks.listened() - self._tasks.calls.keys() if self._tasks.store.shared else set()

    async def look(self) -> None:
        """Do once what is to be done."""
        tasks = self._tasks
        now = await tasks.clock()
        heard, self._heard = self._heard, set()
        everything = self._is_stale or not tasks.store.tells or now >= self._looked + self._net
        self._is_stale = False
        if now - self._swept >= _SWEEP:
            self._swept, everything = now, True
            self._foreign.clear()
            await tasks.store.sweep(now)
        if tasks.store.shared:
            await self._renew(now)
        if everything:
            self._looked = now
            await self._compare_held()
        else:
            await self._look_at([id for id in tasks.calls if mark_of(id) in heard])
        await self._compare_elsewhere()
        if tasks.unload_after is not None:
            await self._unload(tasks.unload_after)
        if everything or now >= self._due:
            await self._take_due(now)

    async def _renew(self, now: float) -> None:
        """Renew the leases, all in one write."""
        lease = self._tasks.options.lease
        if self._tasks.calls and now - self._renewed >= lease / _RENEWALS:
            await self._tasks.store.renew(self._tasks.me, now + lease)
            self._renewed = now

    async def _compare_held(self) -> None:
        """Find what other processes have changed of the tasks whose handlers are here."""
        tasks = self._tasks
        calls = dict(tasks.calls)
        if not calls:
            return
        held = await tasks.store.held(tasks.me)
        changed = {id: held.get(id, 0) for id, call in calls.items() if held.get(id) != call.record.version}
        await self._look_at([id for id, version in changed.items() if self._seen.get(id) != version])
        self._seen = {id: version for id, version in self._seen.items() if id not in calls} | changed
        for id in held.keys() - calls.keys() - tasks.busy.keys():
            await tasks.let_go(id)

    async def _compare_elsewhere(self) -> None:
        """Find what other processes have changed of the tasks that somebody listens to here."""
        listened = self._elsewhere()
        versions: Mapping[str, int] = await self._tasks.store.versions(listened) if listened else {}
        await self._look_at([id for id, version in versions.items() if self._seen.get(id) != version])
        kept = {id: version for id, version in self._seen.items() if id in self._tasks.calls}
        self._seen = kept | dict(versions)

    async def _look_at(self, ids: Iterable[str]) -> None:
        for id in ids:
            await self._tasks.look(id)

    async def _take_due(self, now: float) -> None:
        """Take what is due, and find out what is due next."""
        tasks, self._due = self._tasks, math.inf
        # Those that cannot be opened stay due, and must not keep others from being found.
        limit = _AT_ONCE + len(self._foreign)
        found = await tasks.store.due(now, limit)
        for stored in found:
            if stored.id not in self._foreign:
                await self._take(stored)
        following = now + LOOK
        if len(found) < limit and tasks.store.tells:
            following = await tasks.store.next_due(now)
        # Meanwhile something may have been told of that is due sooner.
        self._due = self._due if following is None else min(self._due, following)

    async def _take(self, stored: StoredTask) -> None:
        try:
            record = await self._tasks.stored.unpacked(stored)
        except PeerError:
            self._foreign.add(stored.id)
            log.warning("a task in the store was sealed with other keys, or is another server's; it is left there")
            return
        await self._tasks.run_again(record)

    async def _unload(self, after: float) -> None:
        now = asyncio.get_running_loop().time()
        for call in list(self._tasks.calls.values()):
            if call.is_waiting and now - call.active >= after:
                due = await self._tasks.unload(call)
                # The time of its asks may be over before that of any other.
                self._due = self._due if due is None else min(self._due, due)
