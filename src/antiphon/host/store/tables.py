"""The tables of a store.

Integers have 64 bits, so amounts in nano-dollars reach 9.2 billion dollars. Times are seconds since the epoch.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.types import TypeEngine

from antiphon.host.store.chain import GENESIS
from antiphon.sql.revision import TableSet

metadata = sa.MetaData()

# SQLite orders a table by an ``INTEGER`` key; any other type needs an index beside the table, which is written in each
# transaction, too. A ``prefix`` is a text in the order of its characters, so that a prefix is a range.
_TYPES: dict[str, TypeEngine[Any]] = {
    "text": sa.Text(),
    "prefix": sa.Text().with_variant(sa.Text(collation="C"), "postgresql"),
    "int": sa.BigInteger(),
    "small": sa.Integer(),
    "number": sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
    "time": sa.Double(),
    "flag": sa.Boolean(),
}
"""The types of columns by their names here; ``number`` is that of a table's own key."""


def _table(name: str, *parts: str | sa.Index) -> sa.Table:
    """Describe a table by its columns and indexes: ``*`` marks a part of its key, ``?`` a column that may be empty."""
    columns = (column.split() for part in parts if isinstance(part, str) for column in part.split(", "))
    described = [
        sa.Column(title, _TYPES[kind.rstrip("*?")], primary_key="*" in kind, nullable="?" in kind, autoincrement=False)
        for title, kind in columns
    ]
    return sa.Table(name, metadata, *described, *(part for part in parts if isinstance(part, sa.Index)))


hosts = _table("hosts", "id text*, seen time, watches time?")
"""The processes that use the store, their last sign of life, and until when somebody watches what they show."""

accounts = _table(
    "accounts",
    "key text*, spent_money int, spent_tokens int, held_money int, held_tokens int, cap_money int?",
    "cap_tokens int?, changed time",
)
"""Amounts spent and held; the caps are those of the latest reservation, kept for lists of accounts."""

holds = _table("holds", "id text*, host text, ask text, identity text, keys text, money int, tokens int, sent flag")

swept = _table("swept", "id text*, keys text, money int, tokens int, at time")
"""Reservations of silent processes that another one settled, and the amount charged, for a settlement that comes
late."""

task_asks = _table("task_asks", "task text*, ask text*, at time", sa.Index("task_asks_by_time", "at"))
"""The asks of tasks, by hashes: how many there were, and since when."""

grants = _table(
    "grants",
    "id text*, identity text, body text, given time, host text?, max_uses int?, until time?, used int",
    sa.Index("grants_of_server", "identity"),
)

definitions = _table(
    "definitions", "identity text*, tool text*, digest text, body text, allowed time, by text?, off time?, labels text?"
)
"""The definitions of tools as they were allowed, and since when a tool is switched off."""

blocks = _table("blocks", "identity text*, target text, since time, by text?, coarse text?")
"""The servers that a person has blocked."""

reviews = _table(
    "reviews",
    "id text*, kind text, fingerprint text, group text, identity text, created time, expires time?, host text?",
    "state text, item text?, decision text?, by text?, decided time?, hash text?, release time?, outcome text?",
    "shared flag, approvals text?",
    sa.Index("reviews_by_state", "state", "created"),
    sa.Index("reviews_by_fingerprint", "fingerprint"),
)

pending_calls = _table(
    "pending_calls",
    "id text*, fingerprint text, owner text, until time, sent flag, host text?, at time, body text?",
    sa.Index("pending_calls_by_fingerprint", "fingerprint"),
    sa.Index("pending_calls_of_owner", "owner"),
)
"""The calls of tools whose callers may ask again, and their outcomes."""

run_entries = _table("run_entries", "run text*, at small*, body text")
"""The steps of agents' runs, so that a run that was interrupted can go on."""

drafts = _table("drafts", "id text*, body text")
"""What somebody has begun to write about a review; deleted with the review."""

reviews_head = _table("reviews_head", "id small*, version int")
"""One row: counts the changes of all reviews, for those who wait for one."""

partials = _table("partials", "id text*, host text, began time, body text")
"""What has arrived of unfinished answers."""

timed_rows = _table("timed_rows", "kind text*, id text*, body text, until time")
"""What ends by itself: where review pages are served; the browsers with access to one, by the digest of the secret in
their cookie; the links of notices that nobody has followed yet; the devices that are told of questions."""

audit = _table("audit", "seq number*, body text, hash text")

audit_head = _table("audit_head", "id small*, seq int, hash text")
"""One row: the end of the chain. Every writer locks it first, so that there is one writer at a time."""

asks = _table(
    "asks",
    "seq number*, host text, ask text, at time, identity text, method text, ending text, found text, body text",
    sa.Index("asks_by_name", "host", "ask"),
    sa.Index("asks_of_server", "identity", "seq"),
    sa.Index("asks_by_ending", "ending", "seq"),
    sa.Index("asks_by_time", "method", "at", "identity"),
)
"""What became of each ask, computed from the audit when somebody looks: ``body`` is its row, ``found`` is searched."""

spent = _table(
    "spent", "day text*, identity text*, model text*, requests int, input_tokens int, output_tokens int, money int"
)
"""What was spent: sums, which the transaction of each record changes."""

gathered = _table("gathered", "id small*, seq int")
"""One row: the last record that is counted in ``asks``."""

TABLES = TableSet("host", metadata)
"""Code of an older revision may work with them only if it obeys everything that decides about a request: blocks,
permissions that can still be undone, reservations."""


def make_tables(connection: sa.Connection) -> None:
    """Create the tables that are missing, and the rows that count."""
    if not TABLES.make(connection):
        return
    for head, values in (
        (audit_head, {"seq": 0, "hash": GENESIS}),
        (reviews_head, {"version": 0}),
        (gathered, {"seq": 0}),
    ):
        if connection.execute(sa.select(head)).first() is None:
            connection.execute(sa.insert(head).values(id=1, **values))
