"""Tasks in a database: a SQLite file for the processes of one machine, or PostgreSQL.

Each operation is one transaction; ``task_table`` has the statements.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from antiphon.server.tasks.task_store import StoredTask, TaskNotice, TaskRoom, TasksFull, TaskStore
from antiphon.sql.database_store import DatabaseStore

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from antiphon.sql.notices import ChannelNotices

T = TypeVar("T")


class SqlTaskStore(DatabaseStore, TaskStore):
    """A ``TaskStore`` in SQLite or PostgreSQL: tasks survive their process, and another one goes on with them.

    It opens when first used, and creates its tables, ``server_tasks``, ``server_task_entries`` and
    ``server_task_totals``, if they are missing. What is committed survives ``kill -9`` and a power cut. The content of
    a task is sealed with the keys of its server, so each server needs a database or a file of its own. Close it when
    the server ends (``async with``).

    Args:
        place: a path, ``"sqlite:///path"`` or ``"postgresql://user@host/name"``; a new file gets mode 0600.

    Raises:
        ConfigError: the address is of another kind, or the packages of ``antiphon[sql]`` (and ``antiphon[postgres]``)
            are missing.
    """

    shared = True

    def __init__(self, place: str | Path) -> None:
        super().__init__(place)
        # Imported here, so that servers without such a store do not need its packages.
        from antiphon.server.tasks import task_table

        self._table, self._make = task_table, task_table.TABLES.make
        self._notices: list[ChannelNotices] = []
        """One for each server that watches; usually there is one."""

    @property
    def tells(self) -> bool:
        """See ``TaskStore.tells``: true for PostgreSQL, while its notifications arrive."""
        return bool(self._notices) and all(notices.are_heard for notices in self._notices)

    async def watch(self, hear: Callable[[TaskNotice | None], None]) -> None:
        notices = self._runner.notices(self._table.CHANNEL)
        if notices is None:
            return
        self._notices.append(notices)
        try:
            await notices.hear(lambda text: hear(None if text is None else self._table.decode_notice(text)))
        finally:
            self._notices.remove(notices)

    async def clock(self) -> float:
        return await self._run(self._table.clock, write=False)

    async def add(self, task: StoredTask, entries: Mapping[str, bytes], room: TaskRoom) -> None:
        await self._run_in_room(partial(self._table.add, task=task, entries=entries, room=room))

    async def get(self, id: str) -> StoredTask | None:
        return await self._run(partial(self._table.get, id=id), write=False)

    async def write(
        self, task: StoredTask, entries: Mapping[str, bytes], room: TaskRoom | None = None, *, tell: bool = False
    ) -> bool:
        return await self._run_in_room(partial(self._table.write, task=task, entries=entries, room=room, tell=tell))

    async def journal(self, id: str) -> Mapping[str, bytes]:
        return await self._run(partial(self._table.journal, id=id), write=False)

    async def due(self, at: float, limit: int) -> Sequence[StoredTask]:
        return await self._run(partial(self._table.due, at=at, limit=limit), write=False)

    async def next_due(self, after: float) -> float | None:
        return await self._run(partial(self._table.next_due, after=after), write=False)

    async def renew(self, holder: str, until: float) -> None:
        await self._run(partial(self._table.renew, holder=holder, until=until))

    async def held(self, holder: str) -> Mapping[str, int]:
        return await self._run(partial(self._table.held, holder=holder), write=False)

    async def versions(self, ids: Collection[str]) -> Mapping[str, int]:
        return await self._run(partial(self._table.versions, ids=list(ids)), write=False)

    async def sweep(self, at: float) -> None:
        await self._run(partial(self._table.sweep, at=at))

    async def _run_in_room(self, work: Callable[[Connection], T]) -> T:
        """Run a piece of work; if there is no room, delete what has expired and run it once more."""
        try:
            return await self._run(work)
        except TasksFull as error:
            if error.of == "task":
                raise
        await self.sweep(await self.clock())
        return await self._run(work)
