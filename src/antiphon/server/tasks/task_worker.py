"""What a process does for tasks unasked: it renews its leases, takes free tasks, and unloads handlers that wait.

One timer serves all tasks. It is set to what comes first: a task that is due, a lease to renew, a handler to unload.
A store that can (PostgreSQL) notifies this process of what others write; other stores, such as a SQLite file of several
processes, are polled once a second. Now and then everything is polled, since a notice may be lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Iterable, Mapping

from antiphon.errors import PeerError
from antiphon.machine.asyncio_tasks import end_tasks
from antiphon.server.tasks.served_tasks import ServedTasks
from antiphon.server.tasks.task_store import StoredTask, TaskNotice, mark_of

log = logging.getLogger("antiphon.server")

LOOK = 1.0
"""Seconds between two polls of tasks for which no notices come."""
NET = 30.0
"""Most seconds between two polls of everything; less if leases are shorter, so that a task taken since the last poll is
seen before its lease can end."""
_TOGETHER = 0.02
"""Least seconds between two polls, so that notices of the same moment are handled together."""
_HEAD_START = 0.1
"""Seconds for which a task that has become ready is left to the process that made it ready, which usually takes it."""
_UNLOADING = 0.1
"""Least seconds between two checks for handlers to unload."""
_SWEEP = 60.0
"""Seconds between two sweeps for what has expired."""
_AT_ONCE = 32
"""Most tasks taken at once, so that other processes find some, too."""
_RENEWALS = 3
"""How often a lease is renewed within its duration."""
_MOST_HEARD = 10_000
"""Most notices kept for the next poll; if there are more, everything is polled."""


class TaskWorker:
    """The timer of one process."""

    def __init__(self, tasks: ServedTasks) -> None:
        self._tasks = tasks
        self._news = asyncio.Event()
        self._running: list[asyncio.Task[None]] = []
        self._heard: set[str] = set()
        """Marks of the tasks with a notice since the last poll."""
        self._is_stale = True
        """Whether something may have changed without a notice."""
        self._looked = self._renewed = self._swept = self._due = 0.0
        """When everything was polled, leases were renewed and the store was swept, and when a task is due next: by the
        store's clock."""
        self._seen: dict[str, int] = {}
        """Versions at the last poll: of tasks with handlers here, and of tasks that clients here listen to."""
        self._foreign: set[str] = set()
        """Due tasks that cannot be decrypted."""

    def start(self) -> None:
        """Start the timer, and listen for notices."""
        self._tasks.wake = self._news.set
        self._is_stale = True
        loop = asyncio.get_running_loop()
        self._running = [loop.create_task(self._run(), name="antiphon-tasks")]
        if self._tasks.store.shared:
            self._running.append(loop.create_task(self._watch(), name="antiphon-task-notices"))

    async def stop(self) -> None:
        """Stop both."""
        running, self._running = self._running, []
        await end_tasks(*running)

    async def _watch(self) -> None:
        try:
            await self._tasks.store.watch(self._hear)
        except Exception as error:
            log.warning("the tasks are polled once a second: %s", type(error).__name__)

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
                log.warning("the task store cannot be used: %s", getattr(error, "orig", None) or type(error).__name__)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK if self._is_stale else self._pause()):
                    await self._news.wait()
                await asyncio.sleep(_TOGETHER)

    def _pause(self) -> float:
        """Return the seconds until the next poll, unless a notice comes first."""
        tasks, now = self._tasks, self._tasks.now()
        if not tasks.store.tells:
            return LOOK
        ends = [self._looked + self._net, self._due]
        if tasks.calls and tasks.store.shared:
            ends.append(self._renewed + tasks.options.lease / _RENEWALS)
        if tasks.calls and tasks.unload_after is not None:
            active = [call.active for call in tasks.calls.values() if call.is_waiting]
            ends.append(max(now + _UNLOADING, min(active, default=now) + tasks.unload_after))
        if self._elsewhere():
            # Their holders send no notices of progress, which would cost more than polling does.
            ends.append(now + LOOK)
        return max(_TOGETHER, min(ends) - now)

    @property
    def _net(self) -> float:
        return min(NET, self._tasks.options.lease)

    def _elsewhere(self) -> set[str]:
        """Return the tasks that clients here listen to and that other processes may run."""
        return self._tasks.listened() - self._tasks.calls.keys() if self._tasks.store.shared else set()

    async def look(self) -> None:
        """Poll the store once, and do what is due."""
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
        # Other processes may have changed tasks that clients here listen to.
        listened = self._elsewhere()
        versions: Mapping[str, int] = await tasks.store.versions(listened) if listened else {}
        await self._look_at([id for id, version in versions.items() if self._seen.get(id) != version])
        kept = {id: version for id, version in self._seen.items() if id in tasks.calls}
        self._seen = kept | dict(versions)
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
        """Find tasks with handlers here that other processes have changed."""
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

    async def _look_at(self, ids: Iterable[str]) -> None:
        for id in ids:
            await self._tasks.look(id)

    async def _take_due(self, now: float) -> None:
        """Take the tasks that are due, and find out when the next one is."""
        tasks, self._due = self._tasks, math.inf
        # Tasks that cannot be decrypted stay due, and must not keep others from being found.
        limit = _AT_ONCE + len(self._foreign)
        found = await tasks.store.due(now, limit)
        for stored in found:
            if stored.id not in self._foreign:
                await self._take(stored)
        following = now + LOOK
        if len(found) < limit and tasks.store.tells:
            following = await tasks.store.next_due(now)
        # A notice may have come meanwhile of a task that is due sooner.
        self._due = self._due if following is None else min(self._due, following)

    async def _take(self, stored: StoredTask) -> None:
        try:
            record = await self._tasks.stored.unpack_task(stored)
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
                # Its asks may time out before any other task is due.
                self._due = self._due if due is None else min(self._due, due)
