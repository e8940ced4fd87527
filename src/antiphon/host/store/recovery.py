"""What a killed process leaves behind, and how it is put in order by the next one.

A process says every few seconds that it is there; one that has been silent for longer than its lease is gone, and so
is one of this machine that does not run any more. What it had reserved and not sent is given back; what it had sent
counts as spent, because nobody knows. What it had asked a person is asked again.
"""

from __future__ import annotations

from sqlalchemy import Connection, and_, delete, literal, or_, select, update

from antiphon.host.budget import Amount
from antiphon.host.store import audit as trail
from antiphon.host.store import money
from antiphon.host.store import reviews as questions
from antiphon.host.store.base import OPEN, HoldRow
from antiphon.host.store.chain import Record
from antiphon.host.store.process import is_gone
from antiphon.host.store.schema import accounts, grants, hosts, reviews

__all__ = ["beat", "leave", "recover"]

_SAMPLING = "sampling/createMessage"
_CALL_KEPT = 24 * 3600.0
"""Seconds that the account of a call is kept after its last reservation: as long as a call may be taken up again."""
_REVIEW_KEPT = 90 * 24 * 3600.0
"""Seconds that a review stays in the history."""


def beat(connection: Connection, host: str, now: float) -> None:
    """Say that this process is there."""
    if connection.execute(update(hosts).where(hosts.c.id == host).values(seen=now)).rowcount != 1:
        connection.execute(hosts.insert(), {"id": host, "seen": now})


def leave(connection: Connection, host: str) -> None:
    """Say that this process goes, so that the next one need not wait for its lease to end."""
    connection.execute(delete(hosts).where(hosts.c.id == host))


def recover(connection: Connection, host: str, now: float, lease: float) -> int:
    """Put in order what the processes left that are gone. Returns how many things there were."""
    end = trail.lock(connection)
    others = connection.scalars(select(hosts.c.id).where(hosts.c.id != host)).all()
    for killed in filter(is_gone, others):
        leave(connection, killed)
    connection.execute(delete(hosts).where(hosts.c.id != host, hosts.c.seen <= now - lease))
    alive = select(hosts.c.id)
    left = [hold for hold in money.find_holds(connection) if hold.host not in set(connection.scalars(alive))]
    for hold in left:
        money.settle(connection, hold.id, hold.amount if hold.sent else Amount())
    trail.append(connection, end, [_record(hold, host, now) for hold in left])
    gone = and_(reviews.c.host.is_not(None), reviews.c.host.not_in(alive), reviews.c.state.in_(OPEN))
    again = {"state": "pending", "host": None, "decision": None, "by": None, "decided": None}
    orphaned = connection.execute(update(reviews).where(gone).values(again)).rowcount
    late = and_(reviews.c.host.is_(None), reviews.c.state.in_(OPEN), reviews.c.expires <= now)
    expired = connection.execute(update(reviews).where(late).values(state="expired", item=None, decision=None)).rowcount
    ended = connection.execute(delete(grants).where(grants.c.host.is_not(None), grants.c.host.not_in(alive))).rowcount
    if orphaned or expired:
        questions.changed(connection)
    _tidy(connection, now)
    return len(left) + orphaned + expired + ended


def _record(hold: HoldRow, host: str, now: float) -> Record:
    spent = hold.amount if hold.sent else Amount()
    return Record(
        at=now,
        ask=hold.ask,
        identity=hold.identity,
        method=_SAMPLING,
        step="recovered",
        outcome="counted" if hold.sent else "released",
        host=hold.host,
        by=host,
        input_tokens=spent.tokens if hold.sent else None,
        output_tokens=0 if hold.sent else None,
        money=spent.money if hold.sent else None,
    )


def _tidy(connection: Connection, now: float) -> None:
    idle = and_(accounts.c.held_money == 0, accounts.c.held_tokens == 0, accounts.c.changed < now - _CALL_KEPT)
    connection.execute(delete(accounts).where(accounts.c.key.startswith("call:"), idle))
    over = and_(reviews.c.state.not_in(OPEN), reviews.c.created < now - _REVIEW_KEPT)
    connection.execute(delete(reviews).where(over))
    # Grants that ended by themselves.
    used_up = and_(grants.c.max_uses.is_not(None), grants.c.used >= grants.c.max_uses)
    connection.execute(delete(grants).where(or_(used_up, grants.c.until <= now)))
    # And what was spent of their sums.
    known = select(literal("grant:") + grants.c.id)
    connection.execute(delete(accounts).where(accounts.c.key.startswith("grant:"), idle, accounts.c.key.not_in(known)))
