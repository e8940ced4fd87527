"""What was called and what became of it, in a database, within transactions of the caller.

Owns the calls of tools whose callers may ask again, and the steps of agents' runs.
"""

from __future__ import annotations

import msgspec
from sqlalchemy import Connection, and_, delete, func, select, update

from antiphon.host.store.base import OPEN, PendingCallRow
from antiphon.host.store.reviews import notify_changes
from antiphon.host.store.tables import pending_calls, reviews, run_entries
from antiphon.sql.revision import insert_into

MOST_KEPT = 10_000
"""Most calls that are kept; the ones that would be deleted first go before."""


def leave_review(connection: Connection, call: PendingCallRow, *, host: str, most: int) -> bool:
    """Keep an open question for which a process waits no longer. Returns false if the owner has too many."""
    waiting = and_(pending_calls.c.owner == call.owner, pending_calls.c.sent.is_(False), pending_calls.c.id != call.id)
    if connection.execute(select(func.count()).select_from(pending_calls).where(waiting)).scalar_one() >= most:
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


def find_call(connection: Connection, *, id: str, fingerprint: str, now: float) -> PendingCallRow | None:
    """Return a call by its id, or the latest that was sent by its fingerprint."""
    sent = and_(pending_calls.c.fingerprint == fingerprint, pending_calls.c.sent.is_(True))
    chosen = select(pending_calls).where(pending_calls.c.id == id if id else sent, pending_calls.c.until > now)
    row = connection.execute(chosen.order_by(pending_calls.c.at.desc()).limit(1)).mappings().first()
    return None if row is None else PendingCallRow(**dict(row))


def list_run_entries(connection: Connection, *, run: str) -> list[str]:
    """Return what was recorded of a run, oldest first."""
    chosen = select(run_entries.c.body).where(run_entries.c.run == run).order_by(run_entries.c.at)
    return list(connection.execute(chosen).scalars())


def add_run_entry(connection: Connection, *, run: str, at: int, body: str) -> bool:
    """Record a step of a run. Returns false if there is one with this number."""
    adding = insert_into(connection, run_entries).values(run=run, at=at, body=body).on_conflict_do_nothing()
    return connection.execute(adding).rowcount == 1


def forget_run(connection: Connection, *, run: str) -> None:
    """Delete what was recorded of a run."""
    connection.execute(delete(run_entries).where(run_entries.c.run == run))
