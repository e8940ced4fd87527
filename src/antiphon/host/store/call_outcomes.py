"""The calls of tools whose callers may ask again, in a database, within transactions of the caller."""

from __future__ import annotations

import msgspec
from sqlalchemy import Connection, and_, delete, func, select, update

from antiphon.host.store.base import OPEN, PendingCallRow
from antiphon.host.store.reviews import notify_changes
from antiphon.host.store.tables import pending_calls, reviews

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
