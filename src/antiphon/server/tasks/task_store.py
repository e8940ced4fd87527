"""Where tasks are kept: the interface, and an implementation in memory for one process and for tests.

The content of tasks is sealed with the server's keys before it reaches a store that outlives the process.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Literal, Protocol

import msgspec
from msgspec import Struct, structs

from antiphon.errors import ConfigError

_MARK = 8
"""Characters of a task's id in notices: enough to recognise a task by, and the rest cannot be guessed."""


class TaskRoom(Struct, frozen=True, kw_only=True):
    """How many tasks are kept, and how large.

    The bytes of a task are those of its ``data``, and of its entries with their places.

    Args:
        tasks: most tasks, ended ones included.
        tasks_of_owner: most tasks of one owner.
        bytes: most bytes of all tasks.
        bytes_of_owner: most bytes of the tasks of one owner.
        bytes_of_task: most bytes of one task.
    """

    tasks: int
    tasks_of_owner: int
    bytes: int
    bytes_of_owner: int
    bytes_of_task: int

    def check_number(self, all_tasks: int, of_owner: int) -> None:
        """Check that there is room for one more task.

        Args:
            all_tasks: number of tasks in the store.
            of_owner: number of the owner's tasks.

        Raises:
            TasksFull: there is no room.
        """
        if all_tasks >= self.tasks or of_owner >= self.tasks_of_owner:
            raise TasksFull("tasks")

    def check_bytes(self, all_tasks: int, of_owner: int, of_task: int) -> None:
        """Check that tasks are not larger than they may be.

        Args:
            all_tasks: bytes of all tasks.
            of_owner: bytes of the owner's tasks.
            of_task: bytes of the task that is written.

        Raises:
            TasksFull: a limit is exceeded.
        """
        if of_task > self.bytes_of_task:
            raise TasksFull("task")
        if all_tasks > self.bytes or of_owner > self.bytes_of_owner:
            raise TasksFull("bytes")


class TasksFull(Exception):
    """There is no room for a task; nothing was stored.

    Args:
        of: "tasks" if there are too many, "task" if this one is too large, "bytes" if all together are too large.
    """

    def __init__(self, of: Literal["tasks", "task", "bytes"]) -> None:
        super().__init__(of)
        self.of: Literal["tasks", "task", "bytes"] = of


def bytes_of(entries: Mapping[str, bytes]) -> int:
    """Count the bytes of the entries of a task's journal."""
    return sum(len(place) + len(value) for place, value in entries.items())


def mark_of(id: str) -> str:
    """Return the part of a task's id that notices contain, because the whole id would let its readers read the task."""
    return id[:_MARK]


class StoredTask(Struct, frozen=True, gc=False):
    """One task, as a store keeps it. Times are seconds since the epoch, by the clock of the store.

    Args:
        id: its name, ASCII, below 100 characters.
        version: number of the write that stored it; the first is 1.
        owner: digest of the principal whose limits it counts towards.
        holder: the process that works on it; empty if there is none.
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


class TaskNotice(Struct, frozen=True):
    """What other processes are told of a task that was written.

    Args:
        mark: ``mark_of`` its id.
        due: when a process should look at it; ``None`` if nothing will happen to it by itself.
    """

    mark: str
    due: float | None

    @classmethod
    def of(cls, task: StoredTask) -> TaskNotice:
        """Make the notice of a task.

        Args:
            task: the task as it was written.
        """
        return cls(mark_of(task.id), task.due)


class TaskStore(Protocol):
    """A store of tasks. Each operation is atomic, and what it wrote is durable once it has returned."""

    shared: bool
    """Whether tasks survive the process, so that others go on with them."""

    @property
    def tells(self) -> bool:
        """Whether ``watch`` reports every write at present; otherwise processes have to poll once a second."""
        ...

    async def watch(self, hear: Callable[[TaskNotice | None], None]) -> None:
        """Call a function for each write with ``tell=True``, this process's own included, until cancelled.

        Returns at once if the store cannot report writes.

        Args:
            hear: the function; called with the notice, or with ``None`` if notices may have been lost.
        """

    async def clock(self) -> float:
        """Return the time for leases and deadlines, in seconds since the epoch, the same for all processes."""
        ...

    async def add(self, task: StoredTask, entries: Mapping[str, bytes], room: TaskRoom) -> None:
        """Store a new task.

        Args:
            task: the task.
            entries: the entries that its journal begins with, by their places.
            room: the limits, which must hold with it.

        Raises:
            TasksFull: it is more.
        """

    async def get(self, id: str) -> StoredTask | None:
        """Return a task; ``None`` if there is none, or its time is over.

        Args:
            id: its name.
        """
        ...

    async def write(
        self, task: StoredTask, entries: Mapping[str, bytes], room: TaskRoom | None = None, *, tell: bool = False
    ) -> bool:
        """Replace a task whose stored version is one less, add entries to its journal, and return whether it was done.

        Entries that are there already stay as they are. The journal of a task that is over may be deleted.

        Args:
            task: the new version of the task.
            entries: new entries of its journal, by their places.
            room: the limits, which must hold if the task grows by this; none by default.
            tell: whether to notify other processes.

        Raises:
            TasksFull: it is more.
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

    async def next_due(self, after: float) -> float | None:
        """Return when a task is due next; ``None`` if none is.

        Args:
            after: a time; tasks due up to then do not count.
        """
        ...

    async def renew(self, holder: str, until: float) -> None:
        """Set ``due`` of all tasks that a process holds; their version stays.

        Args:
            holder: the process.
            until: the time until which it holds them.
        """

    async def held(self, holder: str) -> Mapping[str, int]:
        """Return the versions of the tasks that a process holds, by their ids.

        Args:
            holder: the process.
        """
        ...

    async def versions(self, ids: Collection[str]) -> Mapping[str, int]:
        """Return the versions of the tasks with these ids, as far as they exist, by their ids.

        Args:
            ids: the ids.
        """
        ...

    async def sweep(self, at: float) -> None:
        """Forget tasks whose time is over.

        Args:
            at: the time.
        """


class MemoryTaskStore(TaskStore):
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
        """Numbers of tasks, by owner."""
        self._sizes: dict[str, int] = {}
        """Bytes, by task."""
        self._bytes_owned: Counter[str] = Counter()
        self._bytes = 0
        self._watching: list[Callable[[TaskNotice | None], None]] = []

    def __len__(self) -> int:
        return len(self._tasks)

    @property
    def tells(self) -> bool:
        return True

    async def clock(self) -> float:
        return self._clock()

    async def watch(self, hear: Callable[[TaskNotice | None], None]) -> None:
        self._watching.append(hear)
        try:
            await asyncio.Event().wait()
        finally:
            self._watching.remove(hear)

    async def add(self, task: StoredTask, entries: Mapping[str, bytes], room: TaskRoom) -> None:
        size = len(task.data) + bytes_of(entries)
        try:
            self._check(task, size, room, is_new=True)
        except TasksFull:
            await self.sweep(self._clock())
            self._check(task, size, room, is_new=True)
        self._tasks[task.id] = task
        self._journals[task.id] = dict(entries)
        self._owned[task.owner] += 1
        self._resize(task, size)

    def _check(self, task: StoredTask, size: int, room: TaskRoom, *, is_new: bool) -> None:
        if is_new:
            room.check_number(len(self._tasks), self._owned[task.owner])
        more = size - self._sizes.get(task.id, 0)
        room.check_bytes(self._bytes + more, self._bytes_owned[task.owner] + more, size)

    def _resize(self, task: StoredTask, size: int) -> None:
        more = size - self._sizes.pop(task.id, 0)
        self._bytes += more
        self._bytes_owned[task.owner] += more
        if size:
            self._sizes[task.id] = size

    async def get(self, id: str) -> StoredTask | None:
        task = self._tasks.get(id)
        return task if task is not None and task.expires > self._clock() else None

    async def write(
        self, task: StoredTask, entries: Mapping[str, bytes], room: TaskRoom | None = None, *, tell: bool = False
    ) -> bool:
        before = self._tasks.get(task.id)
        if before is None or before.version != task.version - 1 or before.expires <= self._clock():
            return False
        journal = self._journals.get(task.id, {})
        new = {} if task.is_over else {place: entry for place, entry in entries.items() if place not in journal}
        learnt = self._sizes[task.id] - len(before.data)
        size = len(task.data) + (0 if task.is_over else learnt + bytes_of(new))
        if room is not None and size > self._sizes[task.id]:
            self._check(task, size, room, is_new=False)
        self._tasks[task.id] = task
        if task.is_over:
            self._journals.pop(task.id, None)
        elif new:
            self._journals.setdefault(task.id, {}).update(new)
        self._resize(task, size)
        if tell:
            for hear in list(self._watching):
                hear(TaskNotice.of(task))
        return True

    async def journal(self, id: str) -> Mapping[str, bytes]:
        return dict(self._journals.get(id, {}))

    async def due(self, at: float, limit: int) -> Sequence[StoredTask]:
        found = [task for task in self._tasks.values() if task.due is not None and task.due <= at < task.expires]
        return sorted(found, key=lambda task: task.due or 0.0)[:limit]

    async def next_due(self, after: float) -> float | None:
        ahead = [task.due for task in self._tasks.values() if task.due is not None and after < task.due]
        return min(ahead, default=None)

    async def renew(self, holder: str, until: float) -> None:
        for id, task in list(self._tasks.items()):
            if task.holder == holder:
                self._tasks[id] = structs.replace(task, due=until)
        await asyncio.sleep(0)

    async def held(self, holder: str) -> Mapping[str, int]:
        return {task.id: task.version for task in self._tasks.values() if task.holder == holder}

    async def versions(self, ids: Collection[str]) -> Mapping[str, int]:
        return {id: self._tasks[id].version for id in ids if id in self._tasks}

    async def sweep(self, at: float) -> None:
        for id in [id for id, task in self._tasks.items() if task.expires <= at]:
            gone = self._tasks.pop(id)
            self._journals.pop(id, None)
            self._resize(gone, 0)
            self._owned[gone.owner] -= 1
            if not self._owned[gone.owner]:
                del self._owned[gone.owner], self._bytes_owned[gone.owner]


_SHARE = 4
"""An authenticated client may have a quarter of all tasks, and of their bytes."""


class TaskOptions(Struct, frozen=True, kw_only=True):
    """Where tasks are kept, how long, how many, and how large.

    Args:
        store: where tasks are kept; by default in memory, until the process ends. A store that outlives the process
            needs ``Server(keys=...)``.
        ttl: seconds for which a task is kept after its creation, a day by default. Time in which people are asked is
            added.
        keep: least seconds for which a result is kept; an hour by default.
        patience: most seconds added to ``ttl`` for waiting for people; a week by default.
        poll_every: seconds between two polls that clients are told to keep; 1 by default.
        most: most tasks that are kept, 10,000 by default, of which an authenticated client may have a quarter.
        most_bytes: most bytes of all tasks, 256 MiB by default, of which an authenticated client may have a quarter.
        task_bytes: most bytes of one task, 32 MiB by default: its arguments, questions, answers, steps and result.
        lease: seconds after which another process takes over from one that died; 30 by default.
        unload_after: seconds that a handler may wait for answers before it is unloaded, and run again over what it has
            learnt when an answer comes; ``None`` keeps it in memory. By default 60 with a store that outlives the
            process, and ``None`` without.

    Raises:
        ConfigError: a number is not above 0.
    """

    store: TaskStore | None = None
    ttl: float = 86_400.0
    keep: float = 3_600.0
    patience: float = 7 * 86_400.0
    poll_every: float = 1.0
    most: int = 10_000
    most_bytes: int = 256 * 1024 * 1024
    task_bytes: int = 32 * 1024 * 1024
    lease: float = 30.0
    unload_after: float | msgspec.UnsetType | None = msgspec.UNSET

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, float | int) and value <= 0:
                raise ConfigError(f"TaskOptions: {name} must be above 0, not {value!r}")

    def room(self, principal: str | None) -> TaskRoom:
        """Return how much may be kept for a principal.

        Args:
            principal: the owner of the tasks; ``None``: clients without a principal, which may use all of the room.
        """
        share = _SHARE if principal is not None else 1
        return TaskRoom(
            tasks=self.most,
            tasks_of_owner=max(1, self.most // share),
            bytes=self.most_bytes,
            bytes_of_owner=self.most_bytes // share,
            bytes_of_task=self.task_bytes,
        )
