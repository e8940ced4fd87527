"""The audit in a database with its keys and the sums of what was spent, within transactions of the caller.

A record, its keys and its part of a sum are stored in one transaction, so they agree at any time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

import msgspec
from sqlalchemy import ColumnElement, Connection, Select, and_, bindparam, or_, select, update

from antiphon.host.store.asks import SpentKey, SpentRow, spend
from antiphon.host.store.chain import Entry, Head, Record, RecordKey, RecordSearch, extend, key_of, key_text
from antiphon.host.store.tables import audit, audit_head, record_keys, spent
from antiphon.sql.prepared import Prepared, upsert

__all__ = ["append", "entries", "entries_at", "find", "head", "keys", "lock", "spending"]

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
    keyed = [key_of(entry.seq, record)._asdict() for entry, record in zip(added, records, strict=True)]
    _add_keys(connection.dialect.name).many(connection, keyed)
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


def keys(connection: Connection, after: int, limit: int) -> list[RecordKey]:
    """Return the keys of the records with a higher number."""
    page = select(record_keys).where(record_keys.c.seq > after).order_by(record_keys.c.seq).limit(limit)
    return [RecordKey(*row) for row in connection.execute(page)]


def find(connection: Connection, search: RecordSearch, limit: int) -> list[Entry]:
    """Return a page of records whose keys are those that are searched for."""
    order = record_keys.c.seq.desc() if search.after is None else record_keys.c.seq
    found = entries_at(connection, select(record_keys.c.seq).where(*_conditions(search)).order_by(order).limit(limit))
    return found if search.after is not None else found[::-1]


def entries_at(connection: Connection, seqs: Select[tuple[int]] | Sequence[int]) -> list[Entry]:
    """Return these records, in order."""
    rows = select(audit.c.seq, audit.c.body, audit.c.hash).where(audit.c.seq.in_(seqs)).order_by(audit.c.seq)
    return [Entry(seq=row.seq, body=row.body, hash=row.hash) for row in connection.execute(rows)]


def _conditions(search: RecordSearch) -> Iterable[ColumnElement[bool]]:
    keys = record_keys.c
    if search.since is not None:
        yield keys.at >= search.since
    if search.identities:
        yield or_(*(_begins_with(keys.identity, each) for each in search.identities))
    if search.step is not None:
        yield keys.step == search.step
    if search.outcome:
        yield _begins_with(keys.outcome, search.outcome)
    if search.call is not None:
        yield keys.call == key_text(search.call)
    if search.ask is not None:
        yield keys.ask == key_text(search.ask[1])
    if search.before is not None:
        yield keys.seq < search.before
    if search.after is not None:
        yield keys.seq > search.after


def _begins_with(column: ColumnElement[str], prefix: str) -> ColumnElement[bool]:
    # A range, unlike LIKE, uses an index of both databases.
    first = key_text(prefix)
    return and_(column >= first, column < f"{first}\U0010ffff")


@cache
def _add_keys(dialect: str) -> Prepared:
    """Make the statement that adds keys. Those of a record that was cut off the chain are replaced."""
    statement = upsert(dialect, record_keys)
    added = dict(statement.excluded.items())
    return Prepared(statement.on_conflict_do_update(index_elements=list(record_keys.primary_key), set_=added))


@cache
def _add_sums(dialect: str) -> Prepared:
    """Make the statement that adds amounts to a sum, which may be new."""
    statement = upsert(dialect, spent)
    added = {name: spent.c[name] + statement.excluded[name] for name in _AMOUNTS}
    return Prepared(statement.on_conflict_do_update(index_elements=list(spent.primary_key), set_=added))
