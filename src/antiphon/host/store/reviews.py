"""Reviews in a database, within the transactions of others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec
from sqlalchemy import Connection, RowMapping, and_, bindparam, or_, select, update
from sqlalchemy.sql.dml import Update

from antiphon.host.store.base import OPEN, Decided, ReviewRow, ReviewState
from antiphon.host.store.schema import reviews, reviews_head

__all__ = ["changed", "claim", "close", "decide", "find", "finish", "in_states", "put", "version"]

_BUMP = update(reviews_head).values(version=reviews_head.c.version + 1)
_VERSION = select(reviews_head.c.version)


def put(connection: Connection, row: ReviewRow, now: float) -> ReviewRow:
    """Keep a question, or take over the open one of a killed process that asks the same."""
    same = and_(reviews.c.fingerprint == row.fingerprint, reviews.c.host.is_(None), reviews.c.state.in_(OPEN))
    valid = or_(reviews.c.expires.is_(None), reviews.c.expires > now)
    left = (
        connection.execute(select(reviews).where(same, valid).order_by(reviews.c.created).limit(1))
        .mappings()
        .one_or_none()
    )
    changed(connection)
    if left is None:
        connection.execute(reviews.insert(), msgspec.structs.asdict(row))
        return row
    mine = {"host": row.host, "expires": row.expires, "group": row.group, "item": row.item}
    connection.execute(update(reviews).where(reviews.c.id == left["id"]).values(mine))
    return msgspec.structs.replace(_review(left), **mine)


def find(connection: Connection, id: str) -> ReviewRow | None:
    """Return one question."""
    row = (
        connection.execute(select(reviews).where(reviews.c.id == bindparam("sought")), {"sought": id})
        .mappings()
        .one_or_none()
    )
    return None if row is None else _review(row)


def in_states(
    connection: Connection, states: Sequence[ReviewState], limit: int, *, latest: bool = False
) -> list[ReviewRow]:
    """Return the questions in these states: the oldest, oldest first, or the latest, newest first."""
    order = [column.desc() if latest else column for column in (reviews.c.created, reviews.c.id)]
    chosen = select(reviews).where(reviews.c.state.in_(states)).order_by(*order).limit(limit)
    return [_review(row) for row in connection.execute(chosen).mappings()]


def decide(connection: Connection, decisions: Sequence[Decided], now: float) -> str | None:
    """Keep decisions. Returns the id of the first question that cannot be decided any more: undo everything then."""
    for decided in decisions:
        pending = and_(reviews.c.id == decided.id, reviews.c.state == "pending")
        valid = or_(reviews.c.expires.is_(None), reviews.c.expires > now)
        kept = {"state": "decided", "decision": decided.decision, "by": decided.by, "decided": now}
        if connection.execute(update(reviews).where(pending, valid).values(kept)).rowcount != 1:
            return decided.id
    changed(connection)
    return None


def finish(connection: Connection, id: str, *, keep_item: bool) -> bool:
    """Say that a decision is carried out. Returns whether there was one to carry out."""
    carried_out = _ended("done", keep_item=keep_item).where(reviews.c.id == id, reviews.c.state == "decided")
    changed(connection)
    return connection.execute(carried_out).rowcount == 1


def close(connection: Connection, id: str, state: Literal["expired", "withdrawn", "done"], *, keep_item: bool) -> None:
    """End a question that is open."""
    changed(connection)
    connection.execute(_ended(state, keep_item=keep_item).where(reviews.c.id == id, reviews.c.state.in_(OPEN)))


def claim(connection: Connection, id: str, host: str) -> None:
    """Say that a process waits for an open question that is nobody's."""
    left = and_(reviews.c.id == id, reviews.c.host.is_(None), reviews.c.state.in_(OPEN))
    if connection.execute(update(reviews).where(left).values(host=host)).rowcount == 1:
        changed(connection)


def changed(connection: Connection) -> None:
    """Tell those who wait that something has changed."""
    connection.execute(_BUMP)


def version(connection: Connection) -> int:
    """Return how often anything has changed."""
    return connection.execute(_VERSION).scalar_one()


def _ended(state: ReviewState, *, keep_item: bool) -> Update:
    ended = update(reviews).values(state=state)
    return ended if keep_item else ended.values(item=None, decision=None)


def _review(row: RowMapping) -> ReviewRow:
    return ReviewRow(**dict(row))
