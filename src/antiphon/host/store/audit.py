"""The audit in a database, within transactions of the caller."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, bindparam, select, update

from antiphon.host.store.chain import Entry, Head, Record, extend
from antiphon.host.store.tables import audit, audit_head
from antiphon.sql.prepared import Prepared

__all__ = ["append", "entries", "head", "lock"]

_HEAD = select(audit_head.c.seq, audit_head.c.hash).where(audit_head.c.id == 1)
_LOCK = Prepared(_HEAD.with_for_update())
_ADD = Prepared(audit.insert())
_MOVE = Prepared(
    update(audit_head).where(audit_head.c.id == 1).values(seq=bindparam("to_seq"), hash=bindparam("to_hash"))
)
_PAGE = (
    select(audit.c.seq, audit.c.body, audit.c.hash)
    .where(audit.c.seq > bindparam("after"))
    .order_by(audit.c.seq)
    .limit(bindparam("most"))
)


def lock(connection: Connection) -> Head:
    """Become the only writer until the transaction ends. Returns the end of the chain."""
    [(seq, last)] = _LOCK.rows(connection, {})
    return Head(seq=seq, hash=last)


def head(connection: Connection) -> Head:
    """Return the end of the chain."""
    row = connection.execute(_HEAD).one()
    return Head(seq=row.seq, hash=row.hash)


def append(connection: Connection, end: Head, records: Iterable[Record]) -> None:
    """Add records to the chain, whose end was returned by ``lock``."""
    added, end = extend(end, records)
    if not added:
        return
    _ADD.many(connection, [{"seq": entry.seq, "body": entry.body, "hash": entry.hash} for entry in added])
    _MOVE.count(connection, {"to_seq": end.seq, "to_hash": end.hash})


def entries(connection: Connection, after: int, limit: int) -> list[Entry]:
    """Return the records with a higher number."""
    rows = connection.execute(_PAGE, {"after": after, "most": limit})
    return [Entry(seq=row.seq, body=row.body, hash=row.hash) for row in rows]
