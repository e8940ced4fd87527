"""Where tasks are kept: the interface, and an implementation in memory for one process and for tests.

What is in a task is sealed with the server's keys before it reaches a store that outlives the process.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

__all__ = ["MemoryTaskStore", "StoredTask", "TaskStore"]


class StoredTask(Struct, frozen=True, gc=False):
    """One task, as a store keeps it. Times are seconds since the epoch, by the clock of the store.

    Args:
        id: its name, ASCII, below 100 characters.
        version: which write this is; the first is 1.
        owner: digest of the principal whose limits it counts towards.
        holder: the process that works on it; empty if none does.
        due: when a process should look at it; ``None`` if nothing will happen to it by itself.
        expires: when it may be forgotten.
        is_over: whether it has ended.
        data: everything else.
    """

    id: str
    version: int
    owner: str
    holder: str
    due: float | None
    expires: float
    is_over: bool
    data: bytes


class TaskStore(Protocol):
    """A store of tasks. Each operation is atomic, and what it wrote is durable once it has returned."""

    shared: bool
    """Whether tasks survive the process, so that others go on with them."""

    async def clock(self) -> float:
        """Return the time by which leases and deadlines are counted, the same for all processes."""
        ...

    async def add(self, task: StoredTask, *, most: int, most_of_owner: int) -> bool:
        """Store a new task, and tell whether there was room.

        Args:
            task: the task.
            most: most tasks in the store, ended ones included.
            most_of_owner: most tasks of the task's owner.
        """
        ...

    async def get(self, id: str) -> StoredTask | None:
        """Return a task; ``None`` if there is none, or its time is over.

        Args:
            id: its name.
        """
        ...

    async def write(self, task: StoredTask, entries: Mapping[str, bytes]) -> bool:
        """Replace a task whose stored version is one less, add entries to its journal, and tell whether it was done.

        Entries that are there already stay as they are. The journal of a task that is over may be deleted.

        Args:
            task: the task as it is from now on.
            entries: what it has learnt, by its places.
        """
        ...

    async def journal(self, id: str) -> Mapping[str, bytes]:
        """Return all entries of a task.

        Args:
            id: its name.
        """
        ...

    async def due(self, at: float, limit: int) -> Sequence[StoredTask]:
        """Return tasks that are due, the longest due first.

        Args:
            at: the time.
            limit: most tasks to return.
        """
        ...

    async def next_due(self) -> float | None:
        """Return when the next task is due; ``None`` if none will be."""
        ...

    async def renew(self, holder: str, until: float) -> None:
        """Set ``due`` of all tasks that a process holds; their version stays.

        Args:
            holder: the process.
            until: the time until which it holds them.
        """
        ...

    async def held(self, holder: str) -> Mapping[str, int]:
        """Return the versions of the tasks that a process holds, by their names.

        Args:
            holder: the process.
        """
        ...

    async def sweep(self, at: float) -> None:
        """Forget tasks whose time is over.

        Args:
            at: the time.
        """
        ...


class MemoryTaskStore:
    """A ``TaskStore`` in memory: tasks end with the process.

    Args:
        clock: returns seconds since the epoch; by default ``time.time``.
    """

    shared = False

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._tasks: dict[str, StoredTask] = {}
        self._journals: dict[str, dict[str, bytes]] = {}
        self._owned: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._tasks)

    async def clock(self) -> float:
        """See ``TaskStore.clock``."""
        return self._clock()

    async def add(self, task: StoredTask, *, most: int, most_of_owner: int) -> bool:
        """See ``TaskStore.add``."""
        if len(self._tasks) >= most or self._owned[task.owner] >= most_of_owner:
            await self.sweep(self._clock())
            if len(self._tasks) >= most or self._owned[task.owner] >= most_of_owner:
                return False
        self._tasks[task.id] = task
        self._owned[task.owner] += 1
        return True

    async def get(self, id: str) -> StoredTask | None:
        """See ``TaskStore.get``."""
        task = self._tasks.get(id)
        return task if task is not None and task.expires > self._clock() else None

    async def write(self, task: StoredTask, entries: Mapping[str, bytes]) -> bool:
        """See ``TaskStore.write``."""
        before = await self.get(task.id)
        if before is None or before.version != task.version - 1:
            return False
        self._tasks[task.id] = task
        if task.is_over:
            self._journals.pop(task.id, None)
        elif entries:
            journal = self._journals.setdefault(task.id, {})
            for place, entry in entries.items():
                journal.setdefault(place, entry)
        return True

    async def journal(self, id: str) -> Mapping[str, bytes]:
        """See ``TaskStore.journal``."""
        return dict(self._journals.get(id, {}))

    async def due(self, at: float, limit: int) -> Sequence[StoredTask]:
        """See ``TaskStore.due``."""
        found = [task for task in self._tasks.values() if task.due is not None and task.due <= at < task.expires]
        return sorted(found, key=lambda task: task.due or 0.0)[:limit]

    async def next_due(self) -> float | None:
        """See ``TaskStore.next_due``."""
        return min((task.due for task in self._tasks.values() if task.due is not None), default=None)

    async def renew(self, holder: str, until: float) -> None:
        """See ``TaskStore.renew``."""
        for id, task in list(self._tasks.items()):
            if task.holder == holder:
                self._tasks[id] = StoredTask(
                    id, task.version, task.owner, holder, until, task.expires, task.is_over, task.data
                )
        await asyncio.sleep(0)

    async def held(self, holder: str) -> Mapping[str, int]:
        """See ``TaskStore.held``."""
        return {task.id: task.version for task in self._tasks.values() if task.holder == holder}

    async def sweep(self, at: float) -> None:
        """See ``TaskStore.sweep``."""
        for id in [id for id, task in self._tasks.items() if task.expires <= at]:
            gone = self._tasks.pop(id)
            self._journals.pop(id, None)
            self._owned[gone.owner] -= 1
            if not self._owned[gone.owner]:
                del self._owned[gone.owner]
