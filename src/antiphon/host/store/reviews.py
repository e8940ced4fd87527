"""Reviews, unfinished answers and what ends by itself in a database, within transactions of the caller.

Also the calls of tools whose callers may ask again, and the steps of agents' runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, and_, bindparam, delete, func, or_, select, tuple_, update
from sqlalchemy.sql.dml import Update

from antiphon.host.store import base
from antiphon.host.store.base import OPEN, PendingCallRow
from antiphon.host.store.tables import (
    drafts,
    hosts,
    partials,
    pending_calls,
    reviews,
    reviews_head,
    run_entries,
    timed_rows,
)
from antiphon.sql.prepared import Prepared, begin_upsert

CHANNEL = "antiphon_reviews"
"""The PostgreSQL channel for notices of changes. The payload is the id of the question; empty if several changed."""
VERSION = "SELECT version FROM reviews_head"
"""Returns the number of changes so far."""

_BUMP = Prepared(update(reviews_head).values(version=reviews_head.c.version + 1))
# In a statement that runs anyway. "NOTIFY ... does not actually deliver until and unless the transaction is
# committed", and the same notice is delivered once for a transaction.
_BUMP_AND_TELL = (
    update(reviews_head).values(version=reviews_head.c.version + 1).returning(func.pg_notify(CHANNEL, bindparam("of")))
)
_VERSION = select(reviews_head.c.version)
_ADD = Prepared(reviews.insert())
_FIND = Prepared(select(reviews).where(reviews.c.id == bindparam("sought")))
_LEFT = Prepared(
    select(reviews)
    .where(
        reviews.c.fingerprint == bindparam("same"),
        or_(reviews.c.host.is_(None), and_(reviews.c.shared, reviews.c.hash == bindparam("joined"))),
        or_(*(reviews.c.state == state for state in base.OPEN)),
        or_(reviews.c.expires.is_(None), reviews.c.expires > bindparam("now")),
    )
    .order_by(reviews.c.created)
    .limit(1)
)
"""The open question that asks the same, if no process waits for it, or if one with this hash may join it."""


def put_review(connection: Connection, row: base.ReviewRow, now: float) -> base.ReviewRow:
    """Store a question, or take over or join the open one that asks the same."""
    sent = find_call(connection, now, fingerprint=row.fingerprint) if row.shared else None
    taken = None if sent is None else find_review(connection, sent.id)
    if taken is not None:
        return taken
    found = _LEFT.rows(connection, {"same": row.fingerprint, "now": now, "joined": row.hash if row.shared else ""})
    left = _row_of(found[0]) if found else None
    if left is not None and left.host is not None:
        return left
    notify_changes(connection, row.id if left is None else left.id)
    if left is None:
        _ADD.many(connection, [msgspec.structs.asdict(row)])
        return row
    mine = base.take_over(left, row)
    connection.execute(update(reviews).where(reviews.c.id == left.id).values(mine))
    return msgspec.structs.replace(left, **mine)


def find_review(connection: Connection, id: str) -> base.ReviewRow | None:
    """Return one question."""
    found = _FIND.rows(connection, {"sought": id})
    return _row_of(found[0]) if found else None


def in_states(
    connection: Connection,
    states: Sequence[base.ReviewState] = ("pending",),
    limit: int = 1000,
    *,
    latest: bool = False,
    contents: bool = True,
    after: str | None = None,
) -> list[base.ReviewRow]:
    """Return the questions in these states: the oldest, oldest first, or the latest, newest first."""
    order = [column.desc() if latest else column for column in (reviews.c.created, reviews.c.id)]
    wanted = [column for column in reviews.c if contents or column is not reviews.c.item]
    chosen = select(*wanted).where(reviews.c.state.in_(states)).order_by(*order).limit(limit)
    if after is not None:
        place, last = tuple_(reviews.c.created, reviews.c.id), reviews.alias()
        end = select(last.c.created, last.c.id).where(last.c.id == after).scalar_subquery()
        chosen = chosen.where(place < end if latest else place > end)
    return [base.ReviewRow(**dict(row)) for row in connection.execute(chosen).mappings()]


def count_waiting(connection: Connection, now: float) -> int:
    """Return how many questions wait for a decision."""
    waits = and_(reviews.c.state == "pending", reviews.c.decision.is_(None), _match_valid(now))
    return connection.execute(select(func.count()).select_from(reviews).where(waits)).scalar_one()


def decide_reviews(connection: Connection, decisions: Sequence[base.Decided], now: float) -> str | None:
    """Store decisions. Returns the id of the first question that cannot be decided; the caller must then roll back."""
    for decided in decisions:
        pending = and_(reviews.c.id == decided.id, reviews.c.state == "pending")
        undecided = reviews.c.decision.is_(None)
        as_shown = or_(reviews.c.hash.is_(None), reviews.c.hash == decided.hash)
        state = "decided" if decided.release is None else "pending"
        kept = {"state": state, "decision": decided.decision, "by": decided.by, "decided": now}
        kept |= {"release": decided.release, "approvals": decided.approvals}
        deciding = update(reviews).where(pending, undecided, as_shown, _match_valid(now))
        if decided.approvals is not None:
            deciding = deciding.where(reviews.c.approvals.is_not_distinct_from(decided.seen))
        if decided.decision is None:
            kept = {"approvals": decided.approvals}
        if connection.execute(deciding.values(kept)).rowcount != 1:
            return decided.id
    notify_changes(connection, *(decided.id for decided in decisions))
    return None


def end_hold(connection: Connection, id: str, decided: float | None, values: Mapping[str, Any]) -> bool:
    """Let the held decision of this time take effect, or take it back: the values say which."""
    held = and_(reviews.c.id == id, reviews.c.state == "pending", reviews.c.decision.is_not(None))
    ending = update(reviews).where(held, reviews.c.decided == decided).values(values)
    if connection.execute(ending).rowcount != 1:
        return False
    notify_changes(connection, id)
    return True


def withdraw_from(connection: Connection, block: base.BlockRow, but: Sequence[str], *, keep_item: bool) -> None:
    """Withdraw all that waits from a blocked server and similar ones, except what was decided together with it."""
    ended = _prepare_end("withdrawn", keep_item=keep_item).values(outcome=base.BLOCKED)
    waiting = and_(reviews.c.state.in_(base.OPEN), reviews.c.id.not_in(but))
    connection.execute(ended.where(waiting, reviews.c.identity == block.identity))
    if block.coarse is not None:
        # An item may contain the text as a quotation: only its own origin decides.
        quoting = select(reviews.c.id, reviews.c.item).where(waiting, reviews.c.item.contains(block.coarse))
        alike = [row.id for row in connection.execute(quoting) if block.covers(base.identities_in(row.item))]
        for id in alike:
            connection.execute(ended.where(waiting, reviews.c.id == id))
    notify_changes(connection)


def withdraw_taken(connection: Connection, call: PendingCallRow, *, keep_item: bool) -> None:
    """Withdraw the other questions about a call that is sent now; their callers are told its outcome."""
    others = and_(reviews.c.fingerprint == call.fingerprint, reviews.c.id != call.id, reviews.c.shared)
    ended = _prepare_end("withdrawn", keep_item=keep_item).values(outcome=base.TAKEN)
    if connection.execute(ended.where(others, reviews.c.state.in_(base.OPEN))).rowcount:
        notify_changes(connection)


def record_end(connection: Connection, ended: base.Ended) -> None:
    """Record what became of a decision."""
    connection.execute(update(reviews).where(reviews.c.id.in_(ended.reviews)).values(outcome=ended.outcome))
    notify_changes(connection, *ended.reviews)


def keep_draft(connection: Connection, id: str, body: str | None) -> bool:
    """Store or delete a draft, without notifying those who wait."""
    connection.execute(delete(drafts).where(drafts.c.id == id))
    waits = select(reviews.c.id).where(reviews.c.id == id, reviews.c.state == "pending")
    if body is None or connection.execute(waits).one_or_none() is None:
        return False
    connection.execute(drafts.insert(), {"id": id, "body": body})
    return True


def read_draft(connection: Connection, id: str) -> str | None:
    """Return a draft."""
    return connection.execute(select(drafts.c.body).where(drafts.c.id == id)).scalar_one_or_none()


def close_review(connection: Connection, id: str, state: base.ReviewState, *, keep_item: bool) -> None:
    """End a question that is open."""
    notify_changes(connection, id)
    closing = _prepare_end(state, keep_item=keep_item)
    connection.execute(closing.where(reviews.c.id == id, reviews.c.state.in_(base.OPEN)))


def carry_out(connection: Connection, ticket: base.Ticket, keep_item: bool) -> bool:
    """End a question because its decision is carried out. Returns false if it has no decision of this time."""
    notify_changes(connection, ticket.id)
    ending = _prepare_end("done", keep_item=keep_item).where(reviews.c.id == ticket.id, reviews.c.state == "decided")
    return connection.execute(ending.where(reviews.c.decided == ticket.decided)).rowcount == 1


def claim_review(connection: Connection, id: str, host: str, expires: float | None) -> None:
    """Record until when a process waits for an open question for which no other process waits."""
    mine = and_(reviews.c.id == id, or_(reviews.c.host.is_(None), reviews.c.host == host))
    claiming = update(reviews).where(mine, reviews.c.state.in_(base.OPEN)).values(host=host, expires=expires)
    if connection.execute(claiming).rowcount == 1:
        notify_changes(connection, id)


def notify_changes(connection: Connection, *ids: str) -> None:
    """Notify those who wait that these questions have changed; without any, that some have."""
    if connection.dialect.name == "postgresql":
        connection.execute(_BUMP_AND_TELL, {"of": ids[0] if len(ids) == 1 else ""})
    else:
        _BUMP.count(connection, {})


def read_version(connection: Connection) -> int:
    """Return the number of changes so far."""
    return connection.execute(_VERSION).scalar_one()


def list_undecided(connection: Connection, host: str) -> set[str]:
    """Return the ids of the questions of a process that nobody has decided or ended."""
    waits = and_(reviews.c.state == "pending", reviews.c.host == host, reviews.c.decision.is_(None))
    return set(connection.scalars(select(reviews.c.id).where(waits)))


_COLUMNS = tuple(column.name for column in reviews.c)


def _match_valid(now: float) -> ColumnElement[bool]:
    return or_(reviews.c.expires.is_(None), reviews.c.expires > now)


def _prepare_end(state: base.ReviewState, *, keep_item: bool) -> Update:
    ended = update(reviews).values(state=state)
    return ended if keep_item else ended.values(item=None, decision=None, approvals=None)


def _row_of(values: Sequence[Any]) -> base.ReviewRow:
    return base.ReviewRow(**dict(zip(_COLUMNS, values, strict=True)))


def keep_timed_row(
    connection: Connection, now: float, kind: str, id: str, body: str, until: float, *, most: int
) -> None:
    """Store a row unless it is there; delete those that ended, and those of its kind that end first beyond ``most``."""
    connection.execute(delete(timed_rows).where(timed_rows.c.until <= now))
    adding = begin_upsert(connection.dialect.name, timed_rows).values(kind=kind, id=id, body=body, until=until)
    connection.execute(adding.on_conflict_do_nothing())
    rows = timed_rows.c
    old = select(rows.id).where(rows.kind == kind).order_by(rows.until.desc(), rows.id).offset(most)
    connection.execute(delete(timed_rows).where(rows.kind == kind, rows.id.in_(old)))


def take_timed_row(connection: Connection, now: float, kind: str, id: str) -> str | None:
    """Delete a row that has not ended, and return its body."""
    taking = delete(timed_rows).where(timed_rows.c.kind == kind, timed_rows.c.id == id, timed_rows.c.until > now)
    return connection.scalar(taking.returning(timed_rows.c.body))


def list_timed_rows(connection: Connection, now: float, kind: str) -> dict[str, str]:
    """Return the bodies of all rows of a kind that have not ended, by their ids."""
    rows = timed_rows.c
    valid = select(rows.id, rows.body).where(rows.kind == kind, rows.until > now).order_by(rows.until, rows.id)
    return {row.id: row.body for row in connection.execute(valid)}


_PARTIALS = select(partials).order_by(partials.c.began, partials.c.id)


def watch_process(connection: Connection, host: str, until: float) -> None:
    """Record until when somebody watches what a process shows."""
    connection.execute(update(hosts).where(hosts.c.id == host).values(watches=until))


def is_watched(connection: Connection, now: float) -> bool:
    """Tell whether anybody watches."""
    return connection.execute(select(hosts.c.id).where(hosts.c.watches > now).limit(1)).first() is not None


def keep_partial(connection: Connection, row: base.PartialRow) -> None:
    """Store what has arrived of an answer. The first part counts as a change; after that, viewers poll."""
    again = update(partials).where(partials.c.id == row.id).values(msgspec.structs.asdict(row))
    if connection.execute(again).rowcount != 1:
        connection.execute(partials.insert(), msgspec.structs.asdict(row))
        notify_changes(connection, row.id)


def drop_partial(connection: Connection, id: str) -> None:
    """Delete what has arrived of an answer."""
    connection.execute(delete(partials).where(partials.c.id == id))


def find_partials(connection: Connection) -> list[base.PartialRow]:
    """Return what has arrived of answers, in the order they began."""
    return [base.PartialRow(**dict(row)) for row in connection.execute(_PARTIALS).mappings()]


def sweep_partials(connection: Connection) -> None:
    """Delete what arrived for processes that are gone."""
    connection.execute(delete(partials).where(partials.c.host.not_in(select(hosts.c.id))))


MOST_KEPT = 10_000
"""Most calls that are kept; the ones that would be deleted first go before."""


def leave_review(connection: Connection, now: float, call: PendingCallRow, *, host: str, most: int) -> bool:
    """Keep an open question for which a process waits no longer. Returns false if the owner has too many."""
    waiting = and_(pending_calls.c.owner == call.owner, pending_calls.c.sent.is_(False), pending_calls.c.id != call.id)
    # A row outlives the end of its question, which a person may have denied.
    open_still = select(reviews.c.id).where(reviews.c.state.in_(OPEN), _match_valid(now))
    counted = select(func.count()).where(waiting, pending_calls.c.id.in_(open_still))
    if connection.execute(counted).scalar_one() >= most:
        return False
    mine = and_(reviews.c.id == call.id, reviews.c.host == host, reviews.c.state.in_(OPEN))
    if connection.execute(update(reviews).where(mine).values(host=None, expires=call.until)).rowcount == 1:
        keep_call(connection, call)
    return True


def keep_call(connection: Connection, row: PendingCallRow) -> None:
    """Store a call in place of what was known of it, and delete the oldest beyond ``MOST_KEPT``."""
    connection.execute(delete(pending_calls).where(pending_calls.c.id == row.id))
    connection.execute(pending_calls.insert(), msgspec.structs.asdict(row))
    kept = select(pending_calls.c.id).order_by(pending_calls.c.until.desc()).limit(1).offset(MOST_KEPT)
    over = connection.execute(kept).scalar_one_or_none()
    if over is not None:
        connection.execute(delete(pending_calls).where(pending_calls.c.id == over))
    notify_changes(connection, row.id)


def find_call(connection: Connection, now: float, *, id: str = "", fingerprint: str = "") -> PendingCallRow | None:
    """Return a call by its id, or the latest that was sent by its fingerprint."""
    sent = and_(pending_calls.c.fingerprint == fingerprint, pending_calls.c.sent.is_(True))
    chosen = select(pending_calls).where(pending_calls.c.id == id if id else sent, pending_calls.c.until > now)
    row = connection.execute(chosen.order_by(pending_calls.c.at.desc()).limit(1)).mappings().first()
    return None if row is None else PendingCallRow(**dict(row))


def list_run_entries(connection: Connection, run: str) -> list[str]:
    """Return what was recorded of a run, oldest first."""
    chosen = select(run_entries.c.body).where(run_entries.c.run == run).order_by(run_entries.c.at)
    return list(connection.execute(chosen).scalars())


def add_run_entry(connection: Connection, run: str, at: int, body: str) -> bool:
    """Record a step of a run. Returns false if there is one with this number."""
    adding = begin_upsert(connection.dialect.name, run_entries).values(run=run, at=at, body=body)
    return connection.execute(adding.on_conflict_do_nothing()).rowcount == 1


def forget_run(connection: Connection, run: str) -> None:
    """Delete what was recorded of a run."""
    connection.execute(delete(run_entries).where(run_entries.c.run == run))
