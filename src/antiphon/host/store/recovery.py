"""What a killed process leaves behind, how the next one notices that it is gone, and how it recovers it.

A process signals every few seconds that it is alive. One that has been silent for longer than its lease counts as gone.
On this machine, one that has ended counts as gone at once, and one that still runs keeps its lease. The unsent
reservations of a process that is gone are released, what it sent counts as spent, and its questions are asked again.
One that was only slow finds out when it wants to send: see ``money.mark_sent``.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from secrets import token_hex

from sqlalchemy import Connection, and_, delete, func, literal, or_, select, update

from antiphon.host.budget import Amount, task_account
from antiphon.host.store import audit_tables as trail
from antiphon.host.store import money
from antiphon.host.store import reviews as questions
from antiphon.host.store.base import OPEN, UNDECIDED, HoldRow, ReviewState
from antiphon.host.store.chain import Record
from antiphon.host.store.tables import accounts, drafts, grants, hosts, pending_calls, reviews, swept, task_asks
from antiphon.machine import running_processes

_OVER: tuple[ReviewState, ...] = ("done", "expired", "withdrawn")
_SAMPLING = "sampling/createMessage"
_CALL_KEPT = 24 * 3600.0
"""Seconds that the account of a call is kept after its last reservation: as long as a call may be continued."""
_TASK_KEPT = 30 * 24 * 3600.0
"""Seconds that the account of a task and its asks are kept: a task may ask after days, and must not begin anew."""
_SWEPT_KEPT = 24 * 3600.0
"""Seconds that the settlement of a slow process is expected: longer than a machine is suspended over night."""
_REVIEW_KEPT = 90 * 24 * 3600.0
"""Seconds that a review stays in the history."""


def record_beat(connection: Connection, host: str, mark: float) -> None:
    """Record that this process is alive, by a mark that it never had before."""
    if connection.execute(update(hosts).where(hosts.c.id == host).values(seen=mark)).rowcount != 1:
        connection.execute(hosts.insert(), {"id": host, "seen": mark})


SWEPT_AT_ONCE = 1_000
"""Most reservations of ended processes that are settled in one transaction; the next beat, seconds later, goes on."""


def record_leaving(connection: Connection, host: str) -> None:
    """Record that this process ends, so that others need not wait for the end of its lease."""
    connection.execute(delete(hosts).where(hosts.c.id == host))
    questions.sweep_partials(connection)


def recover_processes(
    connection: Connection, host: str, now: float, silent: Callable[[Mapping[str, float]], AbstractSet[str]]
) -> int:
    """Recover what ended processes left behind. Returns the number of things recovered.

    ``silent`` returns, for the marks of other processes, those that have not changed for a lease; see ``LeaseWatch``.
    """
    end = trail.lock_chain(connection)
    others = {row.id: row.seen for row in connection.execute(select(hosts).where(hosts.c.id != host))}
    quiet = silent(others)
    for other in others:
        if is_gone(other) or (other in quiet and not is_running(other)):
            record_leaving(connection, other)
    alive = select(hosts.c.id)
    left = money.find_left(connection, SWEPT_AT_ONCE)
    for hold in left:
        money.sweep_reservation(connection, hold, now)
    trail.append_records(connection, end, [_make_record(hold, host, now) for hold in left])
    gone = and_(reviews.c.host.is_not(None), reviews.c.host.not_in(alive), reviews.c.state.in_(OPEN))
    # A decision that was to be carried out may have been; one that can still be undone was not, and is kept.
    connection.execute(update(reviews).where(gone, reviews.c.state == "decided").values(UNDECIDED))
    # One without an end is kept as long as a call, since its server may never ask again.
    until = func.coalesce(reviews.c.expires, now + _CALL_KEPT)
    orphaned = connection.execute(update(reviews).where(gone).values(host=None, expires=until)).rowcount
    late = and_(reviews.c.host.is_(None), reviews.c.state.in_(OPEN), reviews.c.expires <= now)
    over = update(reviews).where(late).values(state="expired", item=None, decision=None, approvals=None)
    expired = connection.execute(over).rowcount
    ended = connection.execute(delete(grants).where(grants.c.host.is_not(None), grants.c.host.not_in(alive))).rowcount
    questions.sweep_partials(connection)
    # Nobody knows whether these calls ran.
    lost = and_(pending_calls.c.host.is_not(None), pending_calls.c.host.not_in(alive), pending_calls.c.body.is_(None))
    orphaned += connection.execute(update(pending_calls).where(lost).values(host=None)).rowcount
    if orphaned or expired:
        questions.notify_changes(connection)
    _tidy_store(connection, now)
    return len(left) + orphaned + expired + ended


def _make_record(hold: HoldRow, host: str, now: float) -> Record:
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


def _tidy_store(connection: Connection, now: float) -> None:
    idle = and_(accounts.c.held_money == 0, accounts.c.held_tokens == 0, accounts.c.changed < now - _CALL_KEPT)
    of_task = accounts.c.key.startswith(task_account(""))
    old = or_(~of_task, accounts.c.changed < now - _TASK_KEPT)
    connection.execute(delete(accounts).where(accounts.c.key.startswith("call:"), idle, old))
    connection.execute(delete(task_asks).where(task_asks.c.at < now - _TASK_KEPT))
    connection.execute(delete(pending_calls).where(pending_calls.c.until <= now))
    connection.execute(delete(swept).where(swept.c.at < now - _SWEPT_KEPT))
    # By name of the state: "not open" would read all reviews, every few seconds.
    over = and_(reviews.c.state.in_(_OVER), reviews.c.created < now - _REVIEW_KEPT)
    connection.execute(delete(reviews).where(over))
    connection.execute(delete(drafts).where(drafts.c.id.not_in(select(reviews.c.id).where(reviews.c.state.in_(OPEN)))))
    # Grants that are used up.
    used_up = and_(grants.c.max_uses.is_not(None), grants.c.used >= grants.c.max_uses)
    connection.execute(delete(grants).where(or_(used_up, grants.c.until <= now)))
    # And what was spent of their amounts.
    known = select(literal("grant:") + grants.c.id)
    connection.execute(delete(accounts).where(accounts.c.key.startswith("grant:"), idle, accounts.c.key.not_in(known)))


def name_process() -> str:
    """Make a name for this process: ``"75a5aacde519t8823-1f2e3d4c-12345"``, or its random part alone."""
    place = _find_namespace()
    if place is None:
        return token_hex(6)
    began = running_processes.find_start(os.getpid())
    return f"{token_hex(6)}{'' if began is None else f't{began}'}-{place}-{os.getpid()}"


def is_own(name: str) -> bool:
    """Tell whether a name belongs to this process. A name made before a fork is the parent's."""
    pid = _find_pid(name)
    return pid is None or pid == os.getpid()


def is_gone(name: str) -> bool:
    """Tell whether the process of a name has certainly ended, or its id is now that of another process."""
    pid = _find_pid(name)
    return pid is not None and not running_processes.is_running(pid, _find_start(name))


def is_running(name: str) -> bool:
    """Tell whether the process of a name certainly runs on this machine, even if it is suspended.

    Not for this process's own names: it may have stopped using a store under that name and still run.
    """
    pid = _find_pid(name)
    began = _find_start(name)
    return pid is not None and pid != os.getpid() and began != "" and running_processes.is_running(pid, began)


def _find_start(name: str) -> str:
    """Return when the process of a name began; empty in a name that does not say it."""
    return name.partition("-")[0].partition("t")[2]


def _find_pid(name: str) -> int | None:
    """Return the id of the process of a name, if it is in the process namespace that this process can see."""
    _, _, rest = name.partition("-")
    place, _, number = rest.partition("-")
    # No process id has nine digits, and 0 means a whole process group.
    known = place and place == _find_namespace() and number.isascii() and number.isdigit() and 0 < len(number) < 9
    return int(number) or None if known else None


def _find_namespace() -> str | None:
    """Return the id of the process namespace, or ``None`` if it cannot be found out."""
    told = running_processes.identify_place()
    return None if told is None else hashlib.sha256(told.encode()).hexdigest()[:8]


LEASE = 20.0
"""Seconds of silence after which a process counts as killed: far longer than any pause of a healthy event loop."""
BEATS = 4
"""Changes of the mark within one lease, of which three may fail."""


class LeaseWatch:
    """What one process has seen of the marks of the others. Call it ``BEATS`` times per lease."""

    def __init__(self, lease: float) -> None:
        """``lease`` is in seconds."""
        self._lease = lease
        self._seen: dict[str, tuple[float, float]] = {}
        """The mark of each process, and for how many seconds it has not changed."""
        self._looked: float | None = None

    def silent(self, marks: Mapping[str, float], now: float) -> frozenset[str]:
        """Return the processes whose marks have not changed for a lease.

        ``now`` is in seconds of a clock that is never set. Between two calls at most one beat is counted, because while
        this process was suspended, the others may have been too.
        """
        passed = 0.0 if self._looked is None else min(now - self._looked, self._lease / BEATS)
        self._looked = now
        before, self._seen = self._seen, {}
        for name, mark in marks.items():
            known = before.get(name)
            self._seen[name] = (mark, known[1] + passed if known is not None and known[0] == mark else 0.0)
        return frozenset(name for name, (_, silent) in self._seen.items() if silent >= self._lease)
