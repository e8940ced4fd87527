"""The options of a server's tasks: where they are kept, and their limits."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from antiphon.errors import ConfigError
from antiphon.server.tasks.task_store import TaskRoom, TaskStore

__all__ = ["TaskOptions"]

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
