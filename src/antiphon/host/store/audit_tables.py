"""The audit in a database with sums of spending and ends of asks, within transactions of the caller.

A record and its part of a sum are stored in one transaction, so they agree at any time. What became of asks is computed
from the audit when somebody looks, in pieces, whichever process wrote the records. A search for records reads them all:
an index would have to be written with each of them, and only people search.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, TypeVar

import msgspec
from msgspec.structs import asdict
from sqlalchemy import ColumnElement, Connection, Select, bindparam, delete, func, literal_column, or_, select, update

from antiphon.host.store import ask_rows
from antiphon.host.store.chain import Entry, Head, Record, RecordSearch, extend_chain
from antiphon.host.store.tables import asks, audit, audit_head, gathered, spent
from antiphon.sql.prepared import Prepared, begin_upsert

_ONE: ColumnElement[int] = literal_column("1")
"""The key of the only row, in the text of the statements."""
_HEAD = select(audit_head.c.seq, audit_head.c.hash).where(audit_head.c.id == _ONE)
_LOCK = Prepared(_HEAD.with_for_update())
_ADD = Prepared(audit.insert())
_MOVE = Prepared(
    update(audit_head).where(audit_head.c.id == _ONE).values(seq=bindparam("to_seq"), hash=bindparam("to_hash"))
)
_AMOUNTS = ("requests", "input_tokens", "output_tokens", "money")
_PAGE = Prepared(
    select(audit.c.seq, audit.c.body, audit.c.hash)
    .where(audit.c.seq > bindparam("after"))
    .order_by(audit.c.seq)
    .limit(bindparam("most"))
)


def lock_chain(connection: Connection) -> Head:
    """Become the only writer until the transaction ends. Returns the end of the chain."""
    [(seq, last)] = _LOCK.rows(connection, {})
    return Head(seq=seq, hash=last)


def read_head(connection: Connection) -> Head:
    """Return the end of the chain."""
    row = connection.execute(_HEAD).one()
    return Head(seq=row.seq, hash=row.hash)


def append_records(connection: Connection, end: Head, records: Sequence[Record]) -> Head:
    """Add records to the chain, whose end was returned by ``lock_chain``, and their spending to its sums.

    Returns the new end.
    """
    added, end = extend_chain(end, records)
    if not added:
        return end
    _ADD.many(connection, list(map(asdict, added)))
    _MOVE.count(connection, {"to_seq": end.seq, "to_hash": end.hash})
    sums: dict[ask_rows.SpentKey, ask_rows.SpentRow] = {}
    ask_rows.add_spending(sums, records)
    if sums:
        _add_sums(connection.dialect.name).many(connection, list(map(asdict, sums.values())))
    return end


def read_spending(connection: Connection) -> tuple[list[ask_rows.SpentRow], int]:
    """Return what was spent, and the number of the last record."""
    rows = connection.execute(select(spent)).mappings()
    return [ask_rows.SpentRow(**dict(row)) for row in rows], read_head(connection).seq


def list_entries(connection: Connection, after: int = 0, limit: int = 1000) -> list[Entry]:
    """Return the records with a higher number."""
    rows = _PAGE.rows(connection, {"after": after, "most": limit})
    return [Entry(seq=seq, body=body, hash=hashed) for seq, body, hashed in rows]


def find(connection: Connection, search: RecordSearch, limit: int = 400) -> list[Entry]:
    """Return a page of records whose text has what is searched for; some may not be in the search."""
    order = audit.c.seq.desc() if search.after is None else audit.c.seq
    return _read_entries(connection, select(audit).where(*_conditions(search)).order_by(order).limit(limit))


def _read_entries(connection: Connection, chosen: Select[Any]) -> list[Entry]:
    return [Entry(seq=row.seq, body=row.body, hash=row.hash) for row in connection.execute(chosen)]


def _conditions(search: RecordSearch) -> Iterable[ColumnElement[bool]]:
    whole = {"step": search.step, "call": search.call, "ask": search.ask and search.ask[1]}
    yield from (_has_member(name, text) for name, text in whole.items() if text is not None)
    if search.outcome:
        yield _has_member("outcome", search.outcome, is_whole=False)
    if search.identities:
        yield or_(*(_has_member("identity", each, is_whole=False) for each in search.identities))
    if search.before is not None:
        yield audit.c.seq < search.before
    if search.after is not None:
        yield audit.c.seq > search.after


def _has_member(name: str, text: str, *, is_whole: bool = True) -> ColumnElement[bool]:
    """Return whether a record has a member with this text, or one that begins so: canonical JSON has one spelling."""
    written = msgspec.json.encode(text.encode("utf-8", "replace").decode()).decode()
    return audit.c.body.contains(f'"{name}":{written if is_whole else written[:-1]}', autoescape=True)


@cache
def _add_sums(dialect: str) -> Prepared:
    """Make the statement that adds amounts to a sum, which may be new."""
    statement = begin_upsert(dialect, spent)
    added = {name: spent.c[name] + statement.excluded[name] for name in _AMOUNTS}
    return Prepared(statement.on_conflict_do_update(index_elements=list(spent.primary_key), set_=added))


T = TypeVar("T", int, str)

_AT = select(gathered.c.seq).where(gathered.c.id == 1)
_MOVE_GATHERED = update(gathered).where(gathered.c.id == 1).values(seq=bindparam("to_seq"))
_ADD_ASK = Prepared(asks.insert())
_LATEST = Prepared(
    select(asks.c.body).where(asks.c.identity == bindparam("server")).order_by(asks.c.seq.desc()).limit(1)
)
_MANY = 400
"""Most values in one condition: the oldest versions of SQLite allow 999."""


def gather_more(connection: Connection, limit: int = 2000) -> int:
    """Add more records of the audit to what was gathered. Returns how many are left."""
    at = connection.execute(_AT.with_for_update()).scalar_one()
    fresh = list_entries(connection, at, limit)
    if not fresh:
        return 0
    records = ask_rows.decode_records(fresh)
    rows = _asks_of(connection, records)
    for some in _split_values(row.seq for row in rows.values()):
        connection.execute(delete(asks).where(asks.c.seq.in_(some)))
    ask_rows.gather_rows(rows, records)
    if rows:
        _ADD_ASK.many(connection, [_list_values(row) for row in rows.values()])
    connection.execute(_MOVE_GATHERED, {"to_seq": fresh[-1].seq})
    return max(0, read_head(connection).seq - fresh[-1].seq)


def find_asks(connection: Connection, sought: ask_rows.Sought) -> ask_rows.Found:
    """Return a page of asks, the latest first."""
    conditions = list(_conditions_on_asks(sought))
    count = connection.execute(select(func.count()).select_from(asks).where(*conditions)).scalar_one()
    page = select(asks.c.body).where(*conditions).order_by(asks.c.seq.desc()).limit(sought.limit)
    if sought.before is not None:
        page = page.where(asks.c.seq < sought.before)
    rows = [_decode_row(body) for body in connection.scalars(page)]
    at = connection.execute(_AT).scalar_one()
    return ask_rows.Found(rows=rows, count=count, behind=max(0, read_head(connection).seq - at), gathered=at)


def count_calls(connection: Connection, since: float) -> dict[str, int]:
    """Return how many calls of tools each server has had since a time."""
    of_tools = select(asks.c.identity, func.count().label("n")).where(asks.c.method == "tools/call", asks.c.at >= since)
    return {row.identity: row.n for row in connection.execute(of_tools.group_by(asks.c.identity))}


def find_servers(connection: Connection, identities: Iterable[str]) -> dict[str, str]:
    """Return the targets of servers, as of the latest ask of each."""
    latest = ((identity, _LATEST.rows(connection, {"server": identity})) for identity in identities)
    return {identity: name for identity, rows in latest for [body] in rows if (name := _decode_row(body).server)}


def find_ask(connection: Connection, seq: int) -> ask_rows.AskRow | None:
    """Return the ask with this record as its first."""
    body = connection.execute(select(asks.c.body).where(asks.c.seq == seq)).scalar_one_or_none()
    return None if body is None else _decode_row(body)


def entries_at(connection: Connection, seqs: Sequence[int]) -> list[Entry]:
    """Return these records, in order."""
    chosen = (select(audit).where(audit.c.seq.in_(some)).order_by(audit.c.seq) for some in _split_values(seqs))
    return [entry for each in chosen for entry in _read_entries(connection, each)]


def _asks_of(
    connection: Connection, records: Iterable[ask_rows.NumberedRecord]
) -> dict[ask_rows.AskKey, ask_rows.AskRow]:
    """Return the existing rows of the asks that these records belong to."""
    rows: dict[ask_rows.AskKey, ask_rows.AskRow] = {}
    names: dict[str, set[str]] = {}
    for _, record in records:
        names.setdefault(record.host, set()).add(record.ask)
    # A list of pairs would make SQLite read all asks.
    for host, some in ((host, some) for host, asked in names.items() for some in _split_values(asked)):
        chosen = select(asks.c.body, asks.c.found).where(asks.c.host == host, asks.c.ask.in_(some))
        for body, found in connection.execute(chosen):
            row = _decode_row(body)
            row.quoted = found.partition("\n")[2]
            rows[ask_rows.AskKey(row.host, row.ask)] = row
    return rows


def _conditions_on_asks(sought: ask_rows.Sought) -> Iterable[ColumnElement[bool]]:
    same = {"identity": sought.identity, "method": sought.method, "ending": sought.ending}
    yield from (asks.c[name] == value for name, value in same.items() if value is not None)
    if sought.since is not None:
        yield asks.c.at >= sought.since
    if sought.until is not None:
        yield asks.c.at < sought.until
    for word, identities in sought.words:
        found = asks.c.found.contains(word, autoescape=True)
        yield or_(found, asks.c.identity.in_(identities)) if identities else found


def _list_values(row: ask_rows.AskRow) -> dict[str, Any]:
    names = ("seq", "host", "ask", "at", "identity", "method", "ending")
    return {
        **{name: getattr(row, name) for name in names},
        "found": f"{row.facts}\n{row.quoted}",
        # The quoted text is in ``found`` already.
        "body": msgspec.json.encode(msgspec.structs.replace(row, quoted="")).decode(),
    }


def _decode_row(body: str) -> ask_rows.AskRow:
    return msgspec.json.decode(body, type=ask_rows.AskRow)


def _split_values(values: Iterable[T]) -> Iterable[Sequence[T]]:
    every = sorted(values)
    return (every[at : at + _MANY] for at in range(0, len(every), _MANY))
