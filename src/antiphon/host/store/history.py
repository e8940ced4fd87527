"""What became of asks, as gathered from the audit, in a database, within transactions of the caller.

Requests do not write it: it is computed from the audit when somebody looks, in pieces, whichever process wrote the
records.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import msgspec
from sqlalchemy import ColumnElement, Connection, bindparam, delete, func, or_, select, update

from antiphon.host.store import audit as trail
from antiphon.host.store.asks import (
    AskKey,
    AskRow,
    Found,
    Placed,
    Sought,
    gather,
    placed,
)
from antiphon.host.store.chain import Entry
from antiphon.host.store.tables import asks, gathered
from antiphon.sql.prepared import Prepared

__all__ = ["count_calls", "entries_at", "find", "find_servers", "gather_more", "one"]

T = TypeVar("T", int, str)

_AT = select(gathered.c.seq).where(gathered.c.id == 1)
_MOVE = update(gathered).where(gathered.c.id == 1).values(seq=bindparam("to_seq"))
_ADD_ASK = Prepared(asks.insert())
_LATEST = Prepared(
    select(asks.c.body).where(asks.c.identity == bindparam("server")).order_by(asks.c.seq.desc()).limit(1)
)
_MANY = 400
"""Most values in one condition: the oldest versions of SQLite allow 999."""


def gather_more(connection: Connection, limit: int) -> int:
    """Add more records of the audit to what was gathered. Returns how many are left."""
    at = connection.execute(_AT.with_for_update()).scalar_one()
    entries = trail.entries(connection, at, limit)
    if not entries:
        return 0
    records = placed(entries)
    rows = _asks_of(connection, records)
    for some in _some(row.seq for row in rows.values()):
        connection.execute(delete(asks).where(asks.c.seq.in_(some)))
    gather(rows, records)
    if rows:
        _ADD_ASK.many(connection, [_values(row) for row in rows.values()])
    connection.execute(_MOVE, {"to_seq": entries[-1].seq})
    return max(0, trail.head(connection).seq - entries[-1].seq)


def find(connection: Connection, sought: Sought) -> Found:
    """Return a page of asks, the latest first."""
    conditions = list(_conditions(sought))
    count = connection.execute(select(func.count()).select_from(asks).where(*conditions)).scalar_one()
    page = select(asks.c.body).where(*conditions).order_by(asks.c.seq.desc()).limit(sought.limit)
    if sought.before is not None:
        page = page.where(asks.c.seq < sought.before)
    rows = [_row(body) for body in connection.scalars(page)]
    at = connection.execute(_AT).scalar_one()
    return Found(rows=rows, count=count, behind=max(0, trail.head(connection).seq - at), gathered=at)


def count_calls(connection: Connection, since: float) -> dict[str, int]:
    """Return how many calls of tools each server has had since a time."""
    of_tools = select(asks.c.identity, func.count().label("n")).where(asks.c.method == "tools/call", asks.c.at >= since)
    return {row.identity: row.n for row in connection.execute(of_tools.group_by(asks.c.identity))}


def find_servers(connection: Connection, identities: Iterable[str]) -> dict[str, str]:
    """Return the targets of servers, as of the latest ask of each."""
    latest = ((identity, _LATEST.rows(connection, {"server": identity})) for identity in identities)
    return {identity: name for identity, rows in latest for [body] in rows if (name := _row(body).server)}


def one(connection: Connection, seq: int) -> AskRow | None:
    """Return the ask with this record as its first."""
    body = connection.execute(select(asks.c.body).where(asks.c.seq == seq)).scalar_one_or_none()
    return None if body is None else _row(body)


def entries_at(connection: Connection, seqs: Sequence[int]) -> list[Entry]:
    """Return these records, in order."""
    return [entry for some in _some(seqs) for entry in trail.entries_at(connection, some)]


def _asks_of(connection: Connection, records: Iterable[Placed]) -> dict[AskKey, AskRow]:
    """Return the existing rows of the asks that these records belong to."""
    rows: dict[AskKey, AskRow] = {}
    names: dict[str, set[str]] = {}
    for _, record in records:
        names.setdefault(record.host, set()).add(record.ask)
    # A list of pairs would make SQLite read all asks.
    for host, some in ((host, some) for host, asked in names.items() for some in _some(asked)):
        chosen = select(asks.c.body, asks.c.found).where(asks.c.host == host, asks.c.ask.in_(some))
        for body, found in connection.execute(chosen):
            row = _row(body)
            row.quoted = found.partition("\n")[2]
            rows[AskKey(row.host, row.ask)] = row
    return rows


def _conditions(sought: Sought) -> Iterable[ColumnElement[bool]]:
    if sought.identity is not None:
        yield asks.c.identity == sought.identity
    if sought.method is not None:
        yield asks.c.method == sought.method
    if sought.ending is not None:
        yield asks.c.ending == sought.ending
    if sought.since is not None:
        yield asks.c.at >= sought.since
    if sought.until is not None:
        yield asks.c.at < sought.until
    for word, identities in sought.words:
        found = asks.c.found.contains(word, autoescape=True)
        yield or_(found, asks.c.identity.in_(identities)) if identities else found


def _values(row: AskRow) -> dict[str, Any]:
    return {
        "seq": row.seq,
        "host": row.host,
        "ask": row.ask,
        "at": row.at,
        "identity": row.identity,
        "method": row.method,
        "ending": row.ending,
        "found": f"{row.facts}\n{row.quoted}",
        # The quoted text is in ``found`` already.
        "body": msgspec.json.encode(msgspec.structs.replace(row, quoted="")).decode(),
    }


def _row(body: str) -> AskRow:
    return msgspec.json.decode(body, type=AskRow)


def _some(values: Iterable[T]) -> Iterable[Sequence[T]]:
    every = sorted(values)
    return (every[at : at + _MANY] for at in range(0, len(every), _MANY))
