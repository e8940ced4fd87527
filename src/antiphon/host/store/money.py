"""Accounts and reservations in a database, within transactions of the caller.

A reservation is one conditional update per account, so that concurrent processes never overspend together.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec
import sqlalchemy as sa

from antiphon.host.budget import Amount, Cap, task_account
from antiphon.host.store.base import Balance, Hold, HoldRow, TaskSoFar
from antiphon.host.store.grant_tables import MAX_LISTED, list_blocks
from antiphon.host.store.tables import accounts, holds, hosts, swept, task_asks
from antiphon.sql.prepared import Prepared, begin_upsert

_KEEP = Prepared(sa.insert(holds))
_DROP = Prepared(
    sa.delete(holds).where(holds.c.id == sa.bindparam("hold")).returning(holds.c["keys"], holds.c.money, holds.c.tokens)
)
_SEND = Prepared(sa.update(holds).where(holds.c.id == sa.bindparam("hold")).values(sent=True))
_DROP_SWEPT = Prepared(
    sa.delete(swept).where(swept.c.id == sa.bindparam("hold")).returning(swept.c["keys"], swept.c.money, swept.c.tokens)
)
_BALANCES = sa.select(*(column for column in accounts.c if column is not accounts.c.changed))


class RefusedChange(Exception):
    """A change is not allowed, and the transaction is rolled back; the text is the key of what prevents it."""


def take_reservation(connection: sa.Connection, hold: Hold, *, host: str, now: float) -> None:
    """Reserve from all accounts, or from none.

    Raises ``RefusedChange``: an account has not enough left, or the server is blocked (``"block"``).
    """
    if list_blocks(connection, hold.identity, *hold.coarser):
        raise RefusedChange("block")
    kept = {
        "id": hold.id,
        "host": host,
        "ask": hold.ask,
        "identity": hold.identity,
        "keys": _encode_keys([account.key for account in hold.accounts]),
        "money": hold.amount.money,
        "tokens": hold.amount.tokens,
        "sent": hold.sent,
    }
    _KEEP.count(connection, kept)
    if hold.accounts:
        statement = _prepare_take(connection.dialect.name, len(hold.accounts))
        taken: set[str] = {row[0] for row in statement.rows(connection, _bind_rows(hold, now))}
        for account in hold.accounts:
            # A new account has no row whose condition could fail.
            if account.key not in taken or not account.cap.allows(hold.amount):
                raise RefusedChange(account.key)


def mark_sent(connection: sa.Connection, id: str) -> None:
    """Record that the provider is now called for a reservation.

    Raises ``RefusedChange``: it does not exist any more (``"hold"``): another process took this one for dead, and
    released it.
    """
    if _SEND.count(connection, {"hold": id}) != 1:
        raise RefusedChange("hold")


def settle_reservation(connection: sa.Connection, id: str, amount: Amount) -> bool:
    """Convert a reservation to spending. Returns whether it still existed."""
    found = _DROP.rows(connection, {"hold": id})
    if not found:
        return False
    [(encoded, money, tokens)] = found
    _shift_amounts(connection, msgspec.json.decode(encoded, type=list[str]), Amount(money=money, tokens=tokens), amount)
    return True


def sweep_reservation(connection: sa.Connection, hold: HoldRow, now: float) -> Amount:
    """Settle the reservation of another process that is silent. Returns what was charged.

    If the request was sent that is all of it, else nothing. The amount is kept, because a process that was only slow
    will still settle it.
    """
    charged = hold.amount if hold.sent else Amount()
    settle_reservation(connection, hold.id, charged)
    kept = {"id": hold.id, "keys": _encode_keys(hold.keys), "money": charged.money, "tokens": charged.tokens, "at": now}
    connection.execute(sa.insert(swept), kept)
    return charged


def settle_late(connection: sa.Connection, id: str, amount: Amount) -> Amount | None:
    """Charge the difference between what a sweep charged and the actual cost.

    Returns the difference, or ``None`` if there was no sweep, because the process has settled it itself.
    """
    found = _DROP_SWEPT.rows(connection, {"hold": id})
    if not found:
        return None
    [(encoded, money, tokens)] = found
    rest = Amount(money=max(0, amount.money - money), tokens=max(0, amount.tokens - tokens))
    _shift_amounts(connection, msgspec.json.decode(encoded, type=list[str]), Amount(), rest)
    return rest


def list_balances(connection: sa.Connection, prefix: str = "") -> list[Balance]:
    """Return the accounts whose key starts with ``prefix``."""
    chosen = _BALANCES.where(accounts.c.key.startswith(prefix, autoescape=True)).order_by(accounts.c.key)
    return [_read_balance(row) for row in connection.execute(chosen.limit(MAX_LISTED))]


def balances_of(connection: sa.Connection, keys: Sequence[str]) -> list[Balance]:
    """Return the accounts with these keys."""
    found = _prepare_balances(len(keys)).rows(connection, _bind_keys(keys)) if keys else []
    return [_read_balance(row) for row in found]


def task_so_far(connection: sa.Connection, now: float, task: str, ask: str) -> TaskSoFar:
    """Note an ask of a task; see ``base.Store.task_so_far``."""
    of_task = sa.select(task_asks.c.ask, task_asks.c.at).where(task_asks.c.task == task)
    of_task = of_task.order_by(task_asks.c.at, task_asks.c.ask)
    known = connection.execute(of_task).all()
    if all(row.ask != ask for row in known):
        # Another process may just have done so.
        noting = begin_upsert(connection.dialect.name, task_asks).on_conflict_do_nothing()
        connection.execute(noting, {"task": task, "ask": ask, "at": now})
        known = connection.execute(of_task).all()
    account = next(iter(balances_of(connection, [task_account(task)])), None)
    spent = Amount() if account is None else account.spent
    return TaskSoFar(first=known[0].at, asks=[row.ask for row in known].index(ask), spent=spent)


def find_holds(connection: sa.Connection) -> list[HoldRow]:
    """Return the reservations."""
    return [_read_hold(row) for row in connection.execute(sa.select(holds).order_by(holds.c.id).limit(MAX_LISTED))]


def find_left(connection: sa.Connection, most: int) -> list[HoldRow]:
    """Return reservations of processes that are not there any more."""
    left = sa.select(holds).where(holds.c.host.not_in(sa.select(hosts.c.id))).order_by(holds.c.id).limit(most)
    return [_read_hold(row) for row in connection.execute(left)]


def _shift_amounts(connection: sa.Connection, keys: Sequence[str], held: Amount, spent: Amount) -> None:
    """Move amounts from what accounts hold to what they have spent."""
    if keys:
        move = {"was_money": held.money, "was_tokens": held.tokens, "is_money": spent.money, "is_tokens": spent.tokens}
        _prepare_move(len(keys)).count(connection, move | _bind_keys(keys))


def _encode_keys(keys: Sequence[str]) -> str:
    return msgspec.json.encode(keys).decode()


def _read_balance(row: Sequence[Any]) -> Balance:
    key, spent_money, spent_tokens, held_money, held_tokens, cap_money, cap_tokens = row
    return Balance(
        key=key,
        spent=Amount(money=spent_money, tokens=spent_tokens),
        held=Amount(money=held_money, tokens=held_tokens),
        cap=Cap(money=cap_money, tokens=cap_tokens),
    )


def _read_hold(row: sa.Row[Any]) -> HoldRow:
    return HoldRow(
        id=row.id,
        host=row.host,
        ask=row.ask,
        identity=row.identity,
        keys=tuple(msgspec.json.decode(row.keys, type=list[str])),
        amount=Amount(money=row.money, tokens=row.tokens),
        sent=row.sent,
    )


def _bind_keys(keys: Sequence[str]) -> dict[str, object]:
    return {f"key{at}": key for at, key in enumerate(keys)}


def _match_keys(count: int) -> sa.ColumnElement[bool]:
    return accounts.c.key.in_([sa.bindparam(f"key{at}", type_=sa.Text()) for at in range(count)])


@cache
def _prepare_balances(count: int) -> Prepared:
    return Prepared(_BALANCES.where(_match_keys(count)))


@cache
def _prepare_move(count: int) -> Prepared:
    moved: dict[str, sa.ColumnElement[int]] = {}
    for unit in ("money", "tokens"):
        held, spent = accounts.c[f"held_{unit}"], accounts.c[f"spent_{unit}"]
        moved[held.name] = held - sa.bindparam(f"was_{unit}", type_=sa.BigInteger())
        moved[spent.name] = spent + sa.bindparam(f"is_{unit}", type_=sa.BigInteger())
    return Prepared(sa.update(accounts).where(_match_keys(count)).values(moved))


def _bind_rows(hold: Hold, now: float) -> dict[str, object]:
    values: dict[str, object] = {"money": hold.amount.money, "tokens": hold.amount.tokens, "now": now}
    for at, account in enumerate(hold.accounts):
        values[f"key{at}"] = account.key
        values[f"cap_money{at}"] = account.cap.money
        values[f"cap_tokens{at}"] = account.cap.tokens
    return values


@cache
def _prepare_take(dialect: str, count: int) -> Prepared:
    """Make the conditional update of some accounts: each row is inserted, or updated if the sum is allowed.

    Returns the keys of those that were.
    """
    statement = begin_upsert(dialect, accounts).from_select(list(accounts.c), _select_wanted(count))
    new, old = statement.excluded, accounts.c
    held = {"held_money": old.held_money + new.held_money, "held_tokens": old.held_tokens + new.held_tokens}
    taken = statement.on_conflict_do_update(
        index_elements=[old.key],
        set_={**held, "cap_money": new.cap_money, "cap_tokens": new.cap_tokens, "changed": new.changed},
        where=sa.or_(new.cap_money.is_(None), old.spent_money + held["held_money"] <= new.cap_money)
        & sa.or_(new.cap_tokens.is_(None), old.spent_tokens + held["held_tokens"] <= new.cap_tokens),
    ).returning(old.key)
    return Prepared(taken)


def _select_wanted(count: int) -> sa.SelectBase:
    """Make rows from parameters. One statement for all is several times as fast as one for each."""
    integer, moment = sa.BigInteger(), accounts.c.changed.type
    return sa.union_all(
        *(
            sa.select(
                sa.bindparam(f"key{at}", type_=sa.Text()),
                sa.literal_column("0", integer),
                sa.literal_column("0", integer),
                sa.bindparam("money", type_=integer),
                sa.bindparam("tokens", type_=integer),
                sa.bindparam(f"cap_money{at}", type_=integer),
                sa.bindparam(f"cap_tokens{at}", type_=integer),
                sa.bindparam("now", type_=moment),
            ).where(sa.true())  # SQLite needs a WHERE to tell the ON of the conflict from that of a join.
            for at in range(count)
        )
    )
