"""The tables of tasks in a database, and the statements for them, within transactions of ``sql_task_store``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from antiphon.server.tasks.task_store import StoredTask, TaskNotice, TaskRoom, bytes_of
from antiphon.sql.prepared import begin_upsert
from antiphon.sql.revision import TableSet, time_of

CHANNEL = "antiphon_server_tasks"
"""PostgreSQL's channel of notifications about tasks: each is a ``TaskNotice`` as JSON."""

_AT_ONCE = 1_000
"""Places in one statement, which may have some 32,000 parameters."""

_metadata = sa.MetaData()

_tasks = sa.Table(
    "server_tasks",
    _metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("version", sa.BigInteger, nullable=False),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("holder", sa.Text, nullable=False),
    sa.Column("due", sa.Double),
    sa.Column("expires", sa.Double, nullable=False),
    sa.Column("is_over", sa.Boolean, nullable=False),
    sa.Column("data", sa.LargeBinary, nullable=False),
    sa.Column("learnt", sa.BigInteger, nullable=False),
    sa.Column("size", sa.BigInteger, nullable=False),
    sa.Index("server_tasks_by_due", "due"),
    sa.Index("server_tasks_by_end", "expires"),
    sa.Index("server_tasks_by_holder", "holder"),
)
"""``learnt``: bytes of the entries; ``size``: bytes in all."""

_stored = [_tasks.c[name] for name in StoredTask.__struct_fields__]

_entries = sa.Table(
    "server_task_entries",
    _metadata,
    sa.Column("task", sa.Text, primary_key=True),
    sa.Column("place", sa.Text, primary_key=True),
    sa.Column("value", sa.LargeBinary, nullable=False),
)

_totals = sa.Table(
    "server_task_totals",
    _metadata,
    sa.Column("owner", sa.Text, primary_key=True),
    sa.Column("tasks", sa.BigInteger, nullable=False),
    sa.Column("bytes", sa.BigInteger, nullable=False),
)
"""How many tasks an owner has, and how large they are together. A transaction that changes a row locks it until its
end, so that an owner cannot pass a limit by writing at several processes at once. There is no deadlock: the row is the
last that a transaction locks, and the only one of this table; a sweep, which changes several, locks them in their
order.
"""


TABLES = TableSet("server_tasks", _metadata)


def clock(connection: sa.Connection) -> float:
    """Return the time: for PostgreSQL by its own clock, since the clocks of its clients may differ."""
    return connection.execute(sa.select(time_of(connection))).scalar_one()


def add(connection: sa.Connection, task: StoredTask, entries: Mapping[str, bytes], room: TaskRoom) -> None:
    """Store a new task if there is room."""
    learnt = bytes_of(entries)
    size = len(task.data) + learnt
    # Checked first without a lock, so that a refusal does not wait for other writes of the same owner.
    _check(connection, task, room, size, more=size, tasks=1)
    connection.execute(sa.insert(_tasks).values(**_list_members(task), learnt=learnt, size=size))
    if entries:
        connection.execute(sa.insert(_entries), _make_rows(task, entries))
    _count(connection, task.owner, 1, size)
    _check(connection, task, room, size, tasks=0)


def _count(connection: sa.Connection, owner: str, tasks: int, size: int) -> None:
    """Add to the totals of an owner."""
    new = begin_upsert(connection.dialect.name, _totals).values(owner=owner, tasks=tasks, bytes=size)
    more = {"tasks": _totals.c.tasks + new.excluded.tasks, "bytes": _totals.c.bytes + new.excluded.bytes}
    connection.execute(new.on_conflict_do_update(index_elements=["owner"], set_=more))


def _check(
    connection: sa.Connection, task: StoredTask, room: TaskRoom, size: int, *, more: int = 0, tasks: int | None = None
) -> None:
    """Check that there is room. ``more``, ``tasks``: bytes and tasks not counted yet; ``None``: any number."""
    number, held, is_theirs = _totals.c.tasks, _totals.c.bytes, _totals.c.owner == task.owner
    columns = (
        sa.func.sum(number),
        sa.func.sum(sa.case((is_theirs, number))),
        sa.func.sum(held),
        sa.func.sum(sa.case((is_theirs, held))),
    )
    there = [int(each or 0) for each in connection.execute(sa.select(*columns)).one()]
    if tasks is not None:
        room.check_number(there[0] + tasks - 1, there[1] + tasks - 1)
    room.check_bytes(there[2] + more, there[3] + more, size)


def get(connection: sa.Connection, id: str) -> StoredTask | None:
    """Return a task whose time is not over."""
    found = connection.execute(
        sa.select(*_stored).where(_tasks.c.id == id, _tasks.c.expires > time_of(connection))
    ).first()
    return None if found is None else _task(found)


def write(
    connection: sa.Connection,
    task: StoredTask,
    entries: Mapping[str, bytes],
    room: TaskRoom | None = None,
    *,
    tell: bool = False,
) -> bool:
    """Replace a task if its version is one less, and there is room; return whether it was. ``tell``: notify others."""
    before = (_tasks.c.id == task.id) & (_tasks.c.version == task.version - 1)
    row = connection.execute(sa.select(_tasks.c.learnt, _tasks.c.size).where(before)).first()
    if row is None:
        return False
    learnt = 0 if task.is_over else row.learnt
    new: Mapping[str, bytes] = {}
    if entries and not task.is_over:
        there = _find_known(connection, task.id, list(entries))
        new = {place: value for place, value in entries.items() if place not in there}
        learnt += bytes_of(new)
    size = len(task.data) + learnt
    values = {**_list_members(task), "learnt": learnt, "size": size}
    if connection.execute(sa.update(_tasks).where(before).values(values)).rowcount != 1:
        return False
    if task.is_over:
        connection.execute(sa.delete(_entries).where(_entries.c.task == task.id))
    elif new:
        connection.execute(
            begin_upsert(connection.dialect.name, _entries).on_conflict_do_nothing(), _make_rows(task, new)
        )
    if tell and connection.dialect.name == "postgresql":
        # "NOTIFY ... does not actually deliver until and unless the transaction is committed."
        told = msgspec.json.encode(TaskNotice.of(task)).decode()
        connection.execute(sa.select(sa.func.pg_notify(CHANNEL, told)))
    if size != row.size:
        _count(connection, task.owner, 0, size - row.size)
    if room is not None and size > row.size:
        _check(connection, task, room, size)
    return True


def decode_notice(text: str) -> TaskNotice | None:
    """Decode a notification of the channel; ``None`` if it is no notice, because another program has sent it."""
    try:
        return msgspec.json.decode(text, type=TaskNotice)
    except msgspec.MsgspecError:
        return None


def _find_known(connection: sa.Connection, id: str, places: list[str]) -> set[str]:
    """Return which of some entries a task has."""
    there: set[str] = set()
    for start in range(0, len(places), _AT_ONCE):
        some = _entries.c.place.in_(places[start : start + _AT_ONCE])
        there.update(connection.execute(sa.select(_entries.c.place).where(_entries.c.task == id, some)).scalars())
    return there


def _make_rows(task: StoredTask, entries: Mapping[str, bytes]) -> list[dict[str, object]]:
    return [{"task": task.id, "place": place, "value": value} for place, value in entries.items()]


def journal(connection: sa.Connection, id: str) -> Mapping[str, bytes]:
    """Return all entries of a task."""
    found = connection.execute(sa.select(_entries.c.place, _entries.c.value).where(_entries.c.task == id))
    return {row[0]: row[1] for row in found}


def due(connection: sa.Connection, at: float, limit: int) -> Sequence[StoredTask]:
    """Return tasks that are due."""
    found = sa.select(*_stored).where(_tasks.c.due <= at, _tasks.c.expires > at).order_by(_tasks.c.due).limit(limit)
    return [_task(row) for row in connection.execute(found)]


def next_due(connection: sa.Connection, after: float) -> float | None:
    """Return when a task is due next."""
    found = sa.select(_tasks.c.due).where(_tasks.c.due > after, _tasks.c.expires > _tasks.c.due)
    return connection.execute(found.order_by(_tasks.c.due).limit(1)).scalar_one_or_none()


def renew(connection: sa.Connection, holder: str, until: float) -> None:
    """Set ``due`` of the tasks of a holder."""
    connection.execute(sa.update(_tasks).where(_tasks.c.holder == holder).values(due=until))


def held(connection: sa.Connection, holder: str) -> Mapping[str, int]:
    """Return the versions of the tasks of a holder."""
    found = connection.execute(sa.select(_tasks.c.id, _tasks.c.version).where(_tasks.c.holder == holder))
    return {row[0]: row[1] for row in found}


def versions(connection: sa.Connection, ids: list[str]) -> Mapping[str, int]:
    """Return the versions of some tasks."""
    there: dict[str, int] = {}
    for start in range(0, len(ids), _AT_ONCE):
        some = _tasks.c.id.in_(ids[start : start + _AT_ONCE])
        there.update(
            (row[0], row[1]) for row in connection.execute(sa.select(_tasks.c.id, _tasks.c.version).where(some))
        )
    return there


def sweep(connection: sa.Connection, at: float) -> None:
    """Delete tasks whose time is over, with their entries. Tasks that another process is deleting are skipped."""
    over = sa.select(_tasks.c.id, _tasks.c.owner, _tasks.c.size).where(_tasks.c.expires <= at)
    gone = connection.execute(over.with_for_update(skip_locked=True)).all()
    for start in range(0, len(gone), _AT_ONCE):
        ids = [row.id for row in gone[start : start + _AT_ONCE]]
        connection.execute(sa.delete(_entries).where(_entries.c.task.in_(ids)))
        connection.execute(sa.delete(_tasks).where(_tasks.c.id.in_(ids)))
    numbers, sizes = Counter[str](), Counter[str]()
    for row in gone:
        numbers[row.owner] += 1
        sizes[row.owner] += row.size
    for owner in sorted(numbers):
        _count(connection, owner, -numbers[owner], -sizes[owner])
    if numbers:
        connection.execute(sa.delete(_totals).where(_totals.c.tasks <= 0))


def _list_members(task: StoredTask) -> dict[str, object]:
    return {name: getattr(task, name) for name in task.__struct_fields__}


def _task(row: sa.Row[Any]) -> StoredTask:
    # The columns have the order of the members.
    return StoredTask(*row)
