"""The table of a state store in a database, and the statements for it, within transactions of ``sql_state_store``.

``at`` is the time in seconds since the epoch; ``None`` means the clock of the database.
"""

from __future__ import annotations

import time

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Double,
    Index,
    LargeBinary,
    MetaData,
    Table,
    Text,
    func,
    literal,
    literal_column,
    select,
    update,
)
from sqlalchemy import (
    delete as deletion,
)
from sqlalchemy.dialects import postgresql, sqlite

from antiphon.sql.revision import TableSet

__all__ = ["TABLES", "add", "delete", "get", "put", "replace", "states", "sweep"]

_OVERHEAD = 200
"""Estimate of the bytes an entry costs in addition to its key and value."""

metadata = MetaData()

states = Table(
    "server_states",
    metadata,
    Column("key", Text, primary_key=True),
    Column("value", LargeBinary, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("until", Double, nullable=False),
    Index("server_states_by_end", "until"),
)

TABLES = TableSet("server_states", metadata)


def get(connection: Connection, key: str, at: float | None) -> bytes | None:
    """Return what is stored under a key."""
    found = select(states.c.value).where(states.c.key == key, states.c.until > _now(connection, at))
    return connection.execute(found).scalar_one_or_none()


def put(connection: Connection, key: str, value: bytes, ttl: float, at: float | None) -> None:
    """Store a value, replacing any that is there."""
    _insert(connection, key, value, ttl, at, where=None)


def add(connection: Connection, key: str, value: bytes, ttl: float, at: float | None) -> bool:
    """Store a value if there is none, or only an expired one. Returns whether it was stored."""
    return _insert(connection, key, value, ttl, at, where=states.c.until <= _now(connection, at))


def replace(connection: Connection, key: str, value: bytes, ttl: float, expected: bytes, at: float | None) -> bool:
    """Store a value if ``expected`` is stored. Returns whether it was."""
    now = _now(connection, at)
    old = (states.c.key == key) & (states.c.value == expected) & (states.c.until > now)
    new = {"value": value, "size": _size(key, value), "until": now + ttl}
    return connection.execute(update(states).where(old).values(new)).rowcount == 1


def delete(connection: Connection, key: str) -> None:
    """Forget a key."""
    connection.execute(deletion(states).where(states.c.key == key))


def sweep(connection: Connection, limit: int, at: float | None) -> None:
    """Delete expired entries and then, while all together exceed ``limit`` bytes, those that expire first."""
    connection.execute(deletion(states).where(states.c.until <= _now(connection, at)))
    total = connection.execute(select(func.sum(states.c.size))).scalar_one() or 0
    if total <= limit:
        return
    # Summed from the entry that expires last: the first one beyond the limit and all before it are deleted.
    counted = func.sum(states.c.size).over(order_by=(states.c.until.desc(), states.c.key))
    kept = select(states.c.key, counted.label("so_far")).subquery()
    connection.execute(deletion(states).where(states.c.key.in_(select(kept.c.key).where(kept.c.so_far > limit))))


def _insert(
    connection: Connection, key: str, value: bytes, ttl: float, at: float | None, where: ColumnElement[bool] | None
) -> bool:
    """Insert a row, or overwrite an existing one if allowed. Returns whether the value is stored."""
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    row = {"key": key, "value": value, "size": _size(key, value), "until": _now(connection, at) + ttl}
    inserted = dialect.insert(states).values(row)
    new = {name: inserted.excluded[name] for name in ("value", "size", "until")}
    # RETURNING, because the row count is not reliable for such a statement.
    stored = inserted.on_conflict_do_update(index_elements=[states.c.key], set_=new, where=where).returning(
        states.c.key
    )
    return connection.execute(stored).first() is not None


def _size(key: str, value: bytes) -> int:
    return len(key) + len(value) + _OVERHEAD


def _now(connection: Connection, at: float | None) -> ColumnElement[float]:
    if at is not None:
        return literal(at, Double())
    if connection.dialect.name == "sqlite":
        return literal(time.time(), Double())
    # One clock for all processes, since their own clocks may differ.
    return literal_column("extract(epoch from clock_timestamp())::float8", Double())
