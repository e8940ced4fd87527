"""The table of a state store in a database, and the statements for it, within transactions of ``sql_state_store``.

``at`` is the time in seconds since the epoch; ``None`` means the clock of the database.
"""

from __future__ import annotations

import sqlalchemy as sa

from antiphon.machine.state_store import weigh_entry
from antiphon.sql.prepared import begin_upsert
from antiphon.sql.revision import TableSet, time_of

metadata = sa.MetaData()

states = sa.Table(
    "server_states",
    metadata,
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("value", sa.LargeBinary, nullable=False),
    sa.Column("size", sa.BigInteger, nullable=False),
    sa.Column("until", sa.Double, nullable=False),
    sa.Index("server_states_by_end", "until"),
)

TABLES = TableSet("server_states", metadata)


def get(connection: sa.Connection, key: str, at: float | None) -> bytes | None:
    """Return what is stored under a key."""
    found = sa.select(states.c.value).where(states.c.key == key, states.c.until > time_of(connection, at))
    return connection.execute(found).scalar_one_or_none()


def put(connection: sa.Connection, key: str, value: bytes, ttl: float, at: float | None) -> None:
    """Store a value, replacing any that is there."""
    _insert(connection, key, value, ttl, at, where=None)


def add(connection: sa.Connection, key: str, value: bytes, ttl: float, at: float | None) -> bool:
    """Store a value if there is none, or only an expired one. Returns whether it was stored."""
    return _insert(connection, key, value, ttl, at, where=states.c.until <= time_of(connection, at))


def replace(connection: sa.Connection, key: str, value: bytes, ttl: float, expected: bytes, at: float | None) -> bool:
    """Store a value if ``expected`` is stored. Returns whether it was."""
    now = time_of(connection, at)
    old = (states.c.key == key) & (states.c.value == expected) & (states.c.until > now)
    new = {"value": value, "size": weigh_entry(key, value), "until": now + ttl}
    return connection.execute(sa.update(states).where(old).values(new)).rowcount == 1


def delete(connection: sa.Connection, key: str) -> None:
    """Forget a key."""
    connection.execute(sa.delete(states).where(states.c.key == key))


def sweep(connection: sa.Connection, limit: int, at: float | None) -> None:
    """Delete expired entries and then, while all together exceed ``limit`` bytes, those that expire first."""
    connection.execute(sa.delete(states).where(states.c.until <= time_of(connection, at)))
    total = connection.execute(sa.select(sa.func.sum(states.c.size))).scalar_one() or 0
    if total <= limit:
        return
    # Summed from the entry that expires last: the first one beyond the limit and all before it are deleted.
    counted = sa.func.sum(states.c.size).over(order_by=(states.c.until.desc(), states.c.key))
    kept = sa.select(states.c.key, counted.label("so_far")).subquery()
    connection.execute(sa.delete(states).where(states.c.key.in_(sa.select(kept.c.key).where(kept.c.so_far > limit))))


def _insert(
    connection: sa.Connection,
    key: str,
    value: bytes,
    ttl: float,
    at: float | None,
    where: sa.ColumnElement[bool] | None,
) -> bool:
    """Insert a row, or overwrite an existing one if allowed. Returns whether the value is stored."""
    row = {"key": key, "value": value, "size": weigh_entry(key, value), "until": time_of(connection, at) + ttl}
    inserted = begin_upsert(connection.dialect.name, states).values(row)
    new = {name: inserted.excluded[name] for name in ("value", "size", "until")}
    # RETURNING, because the row count is not reliable for such a statement.
    stored = inserted.on_conflict_do_update(index_elements=[states.c.key], set_=new, where=where).returning(
        states.c.key
    )
    return connection.execute(stored).first() is not None
