"""The tables of tasks in a database, and the statements for them, within transactions of ``sql_task_store``."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Double,
    Index,
    LargeBinary,
    MetaData,
    Row,
    Table,
    Text,
    case,
    func,
    insert,
    literal,
    literal_column,
    select,
    update,
)
from sqlalchemy import (
    delete as deletion,
)
from sqlalchemy.dialects import postgresql, sqlite

from antiphon.server.tasks.task_store import StoredTask, TaskNotice, TaskRoom, bytes_of
from antiphon.sql.revision import TableSet

__all__ = [
    "CHANNEL", "TABLES", "add", "clock", "due", "get", "held", "journal", "next_due", "notice", "renew", "sweep",
    "versions", "write",
]  # fmt: skip

CHANNEL = "antiphon_server_tasks"
"""PostgreSQL's channel of notifications about tasks: each is a ``TaskNotice`` as JSON."""

_AT_ONCE = 1_000
"""Places in one statement, which may have some 32,000 parameters."""

_metadata = MetaData()

_tasks = Table(
    "server_tasks",
    _metadata,
    Column("id", Text, primary_key=True),
    Column("version", BigInteger, nullable=False),
    Column("owner", Text, nullable=False),
    Column("holder", Text, nullable=False),
    Column("due", Double),
    Column("expires", Double, nullable=False),
    Column("is_over", Boolean, nullable=False),
    Column("data", LargeBinary, nullable=False),
    Column("learnt", BigInteger, nullable=False),
    Column("size", BigInteger, nullable=False),
    Index("server_tasks_by_due", "due"),
    Index("server_tasks_by_end", "expires"),
    Index("server_tasks_by_holder", "holder"),
)
"""``learnt``: bytes of the entries; ``size``: bytes in all."""

_stored = [_tasks.c[name] for name in StoredTask.__struct_fields__]

_entries = Table(
    "server_task_entries",
    _metadata,
    Column("task", Text, primary_key=True),
    Column("place", Text, primary_key=True),
    Column("value", LargeBinary, nullable=False),
)

_totals = Table(
    "server_task_totals",
    _metadata,
    Column("owner", Text, primary_key=True),
    Column("tasks", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
)
"""How many tasks an owner has, and how large they are together. A transaction that changes a row locks it until its
end, so that an owner cannot pass a limit by writing at several processes at once. There is no deadlock: the row is the
last that a transaction locks, and the only one of this table; a sweep, which changes several, locks them in their
order.
"""


TABLES = TableSet("server_tasks", _metadata)


def clock(connection: Connection) -> float:
    """Return the time: for PostgreSQL by its own clock, since the clocks of its clients may differ."""
    return connection.execute(select(_now(connection))).scalar_one()


def add(connection: Connection, task: StoredTask, entries: Mapping[str, bytes], room: TaskRoom) -> None:
    """Store a new task if there is room."""
    learnt = bytes_of(entries)
    size = len(task.data) + learnt
    # Checked first without a lock, so that a refusal does not wait for other writes of the same owner.
    _check(connection, task, room, size, more=size, tasks=1)
    connection.execute(insert(_tasks).values(**_members(task), learnt=learnt, size=size))
    if entries:
        connection.execute(insert(_entries), _rows(task, entries))
    _count(connection, task.owner, 1, size)
    _check(connection, task, room, size, tasks=0)


def _count(connection: Connection, owner: str, tasks: int, size: int) -> None:
    """Add to the totals of an owner."""
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    new = dialect.insert(_totals).values(owner=owner, tasks=tasks, bytes=size)
    more = {"tasks": _totals.c.tasks + new.excluded.tasks, "bytes": _totals.c.bytes + new.excluded.bytes}
    connection.execute(new.on_conflict_do_update(index_elements=["owner"], set_=more))


def _check(
    connection: Connection, task: StoredTask, room: TaskRoom, size: int, *, more: int = 0, tasks: int | None = None
) -> None:
    """Check that there is room. ``more``, ``tasks``: bytes and tasks not counted yet; ``None``: any number."""
    number, held, is_theirs = _totals.c.tasks, _totals.c.bytes, _totals.c.owner == task.owner
    columns = (func.sum(number), func.sum(case((is_theirs, number))), func.sum(held), func.sum(case((is_theirs, held))))
    there = [int(each or 0) for each in connection.execute(select(*columns)).one()]
    if tasks is not None:
        room.check_number(there[0] + tasks - 1, there[1] + tasks - 1)
    room.check_bytes(there[2] + more, there[3] + more, size)


def get(connection: Connection, id: str) -> StoredTask | None:
    """Return a task whose time is not over."""
    found = connection.execute(select(*_stored).where(_tasks.c.id == id, _tasks.c.expires > _now(connection))).first()
    return None if found is None else _task(found)


def write(
    connection: Connection,
    task: StoredTask,
    entries: Mapping[str, bytes],
    room: TaskRoom | None = None,
    *,
    tell: bool = False,
) -> bool:
    """Replace a task if its version is one less, and there is room; return whether it was. ``tell``: notify others."""
    before = (_tasks.c.id == task.id) & (_tasks.c.version == task.version - 1)
    row = connection.execute(select(_tasks.c.learnt, _tasks.c.size).where(before)).first()
    if row is None:
        return False
    learnt = 0 if task.is_over else row.learnt
    new: Mapping[str, bytes] = {}
    if entries and not task.is_over:
        there = _known(connection, task.id, list(entries))
        new = {place: value for place, value in entries.items() if place not in there}
        learnt += bytes_of(new)
    size = len(task.data) + learnt
    values = {**_members(task), "learnt": learnt, "size": size}
    if connection.execute(update(_tasks).where(before).values(values)).rowcount != 1:
        return False
    if task.is_over:
        connection.execute(deletion(_entries).where(_entries.c.task == task.id))
    elif new:
        dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
        connection.execute(dialect.insert(_entries).on_conflict_do_nothing(), _rows(task, new))
    if tell and connection.dialect.name == "postgresql":
        # "NOTIFY ... does not actually deliver until and unless the transaction is committed."
        told = msgspec.json.encode(TaskNotice.of(task)).decode()
        connection.execute(select(func.pg_notify(CHANNEL, told)))
    if size != row.size:
        _count(connection, task.owner, 0, size - row.size)
    if room is not None and size > row.size:
        _check(connection, task, room, size)
    return True


def notice(text: str) -> TaskNotice | None:
    """Decode a notification of the channel; ``None`` if it is no notice, because another program has sent it."""
    try:
        return msgspec.json.decode(text, type=TaskNotice)
    except msgspec.MsgspecError:
        return None


def _known(connection: Connection, id: str, places: list[str]) -> set[str]:
    """Return which of some entries a task has."""
    there: set[str] = set()
    for start in range(0, len(places), _AT_ONCE):
        some = _entries.c.place.in_(places[start : start + _AT_ONCE])
        there.update(connection.execute(select(_entries.c.place).where(_entries.c.task == id, some)).scalars())
    return there


def _rows(task: StoredTask, entries: Mapping[str, bytes]) -> list[dict[str, object]]:
    return [{"task": task.id, "place": place, "value": value} for place, value in entries.items()]


def journal(connection: Connection, id: str) -> Mapping[str, bytes]:
    """Return all entries of a task."""
    found = connection.execute(select(_entries.c.place, _entries.c.value).where(_entries.c.task == id))
    return {row[0]: row[1] for row in found}


def due(connection: Connection, at: float, limit: int) -> Sequence[StoredTask]:
    """Return tasks that are due."""
    found = select(*_stored).where(_tasks.c.due <= at, _tasks.c.expires > at).order_by(_tasks.c.due).limit(limit)
    return [_task(row) for row in connection.execute(found)]


def next_due(connection: Connection, after: float) -> float | None:
    """Return when a task is due next."""
    found = select(_tasks.c.due).where(_tasks.c.due > after, _tasks.c.expires > _tasks.c.due)
    return connection.execute(found.order_by(_tasks.c.due).limit(1)).scalar_one_or_none()


def renew(connection: Connection, holder: str, until: float) -> None:
    """Set ``due`` of the tasks of a holder."""
    connection.execute(update(_tasks).where(_tasks.c.holder == holder).values(due=until))


def held(connection: Connection, holder: str) -> Mapping[str, int]:
    """Return the versions of the tasks of a holder."""
    found = connection.execute(select(_tasks.c.id, _tasks.c.version).where(_tasks.c.holder == holder))
    return {row[0]: row[1] for row in found}


def versions(connection: Connection, ids: list[str]) -> Mapping[str, int]:
    """Return the versions of some tasks."""
    there: dict[str, int] = {}
    for start in range(0, len(ids), _AT_ONCE):
        some = _tasks.c.id.in_(ids[start : start + _AT_ONCE])
        there.update((row[0], row[1]) for row in connection.execute(select(_tasks.c.id, _tasks.c.version).where(some)))
    return there


def sweep(connection: Connection, at: float) -> None:
    """Delete tasks whose time is over, with their entries. Tasks that another process is deleting are skipped."""
    over = select(_tasks.c.id, _tasks.c.owner, _tasks.c.size).where(_tasks.c.expires <= at)
    gone = connection.execute(over.with_for_update(skip_locked=True)).all()
    for start in range(0, len(gone), _AT_ONCE):
        ids = [row.id for row in gone[start : start + _AT_ONCE]]
        connection.execute(deletion(_entries).where(_entries.c.task.in_(ids)))
        connection.execute(deletion(_tasks).where(_tasks.c.id.in_(ids)))
    numbers, sizes = Counter[str](), Counter[str]()
    for row in gone:
        numbers[row.owner] += 1
        sizes[row.owner] += row.size
    for owner in sorted(numbers):
        _count(connection, owner, -numbers[owner], -sizes[owner])
    if numbers:
        connection.execute(deletion(_totals).where(_totals.c.tasks <= 0))


def _members(task: StoredTask) -> dict[str, object]:
    return {name: getattr(task, name) for name in task.__struct_fields__}


def _task(row: Row[Any]) -> StoredTask:
    # The columns have the order of the members.
    return StoredTask(*row)


def _now(connection: Connection) -> ColumnElement[float]:
    if connection.dialect.name == "sqlite":
        return literal(time.time(), Double())
    return literal_column("extract(epoch from clock_timestamp())::float8", Double())
