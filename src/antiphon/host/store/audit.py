"""The audit in a database with the sums of what was spent, within transactions of the caller.

A record and its part of a sum are stored in one transaction, so the sums are those of all records at any time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import msgspec
from sqlalchemy import Connection, bindparam, select, update

from antiphon.host.store.asks import SpentKey, SpentRow, spend
from antiphon.host.store.chain import Entry, Head, Record, extend
from antiphon.host.store.tables import audit, audit_head, spent
from antiphon.sql.prepared import Prepared, upsert

__all__ = ["append", "entries", "head", "lock", "spending"]

_HEAD = select(audit_head.c.seq, audit_head.c.hash).where(audit_head.c.id == 1)
_LOCK = Prepared(_HEAD.with_for_update())
_ADD = Prepared(audit.insert())
_MOVE = Prepared(
    update(audit_head).where(audit_head.c.id == 1).values(seq=bindparam("to_seq"), hash=bindparam("to_hash"))
)
_AMOUNTS = ("requests", "input_tokens", "output_tokens", "money")
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


def append(connection: Connection, end: Head, records: Sequence[Record]) -> None:
    """Add records to the chain, whose end was returned by ``lock``, and their spending to its sums."""
    added, end = extend(end, records)
    if not added:
        return
    _ADD.many(connection, [{"seq": entry.seq, "body": entry.body, "hash": entry.hash} for entry in added])
    _MOVE.count(connection, {"to_seq": end.seq, "to_hash": end.hash})
    sums: dict[SpentKey, SpentRow] = {}
    spend(sums, records)
    if sums:
        _add_sums(connection.dialect.name).many(connection, [msgspec.structs.asdict(line) for line in sums.values()])


def spending(connection: Connection) -> tuple[list[SpentRow], int]:
    """Return what was spent, and the number of the last record."""
    rows = connection.execute(select(spent)).mappings()
    return [SpentRow(**dict(row)) for row in rows], head(connection).seq


def entries(connection: Connection, after: int, limit: int) -> list[Entry]:
    """Return the records with a higher number."""
    rows = connection.execute(_PAGE, {"after": after, "most": limit})
    return [Entry(seq=row.seq, body=row.body, hash=row.hash) for row in rows]


@cache
def _add_sums(dialect: str) -> Prepared:
    """Make the statement that adds amounts to a sum, which may be new."""
    statement = upsert(dialect, spent)
    added = {name: spent.c[name] + statement.excluded[name] for name in _AMOUNTS}
    return Prepared(statement.on_conflict_do_update(index_elements=list(spent.primary_key), set_=added))
