"""The tables of a store.

Integers have 64 bits: nine thousand million dollars in nano-dollars. Times are seconds since the epoch.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Double,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    insert,
    select,
    text,
)

from antiphon.host.store.chain import GENESIS
from antiphon.sql.revision import TableSet

__all__ = [
    "TABLES",
    "accounts",
    "asks",
    "audit",
    "audit_head",
    "blocks",
    "browsers",
    "definitions",
    "drafts",
    "gathered",
    "grants",
    "holds",
    "hosts",
    "make",
    "pages",
    "partials",
    "record_keys",
    "reviews",
    "reviews_head",
    "spent",
    "swept",
    "task_asks",
]

metadata = MetaData()

_NUMBER = BigInteger().with_variant(Integer(), "sqlite")
"""Type of a table's own key. SQLite orders a table by an ``INTEGER`` key; any other type needs an index beside the
table, which is written in each transaction, too."""


hosts = Table(
    "hosts",
    metadata,
    Column("id", Text, primary_key=True),
    Column("seen", Double, nullable=False),
    Column("watches", Double),
)
"""The processes that use the store, their last sign of life, and until when somebody watches what they show."""

accounts = Table(
    "accounts",
    metadata,
    Column("key", Text, primary_key=True),
    Column("spent_money", BigInteger, nullable=False),
    Column("spent_tokens", BigInteger, nullable=False),
    Column("held_money", BigInteger, nullable=False),
    Column("held_tokens", BigInteger, nullable=False),
    Column("cap_money", BigInteger),
    Column("cap_tokens", BigInteger),
    Column("changed", Double, nullable=False),
)
"""Amounts spent and held; the caps are those of the latest reservation, kept for lists of accounts."""

holds = Table(
    "holds",
    metadata,
    Column("id", Text, primary_key=True),
    Column("host", Text, nullable=False),
    Column("ask", Text, nullable=False),
    Column("identity", Text, nullable=False),
    Column("keys", Text, nullable=False),
    Column("money", BigInteger, nullable=False),
    Column("tokens", BigInteger, nullable=False),
    Column("sent", Boolean, nullable=False),
)

swept = Table(
    "swept",
    metadata,
    Column("id", Text, primary_key=True),
    Column("keys", Text, nullable=False),
    Column("money", BigInteger, nullable=False),
    Column("tokens", BigInteger, nullable=False),
    Column("at", Double, nullable=False),
)
"""Reservations of silent processes that another one settled, and the amount charged, for a settlement that comes
late."""

task_asks = Table(
    "task_asks",
    metadata,
    Column("task", Text, primary_key=True),
    Column("ask", Text, primary_key=True),
    Column("at", Double, nullable=False),
    Index("task_asks_by_time", "at"),
)
"""The asks of tasks, by hashes: how many there were, and since when."""

grants = Table(
    "grants",
    metadata,
    Column("id", Text, primary_key=True),
    Column("identity", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("given", Double, nullable=False),
    Column("host", Text),
    Column("max_uses", BigInteger),
    Column("until", Double),
    Column("used", BigInteger, nullable=False),
    Index("grants_of_server", "identity"),
)

definitions = Table(
    "definitions",
    metadata,
    Column("identity", Text, primary_key=True),
    Column("tool", Text, primary_key=True),
    Column("digest", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("allowed", Double, nullable=False),
    Column("by", Text),
    Column("off", Double),
)
"""The definitions of tools as they were allowed, and since when a tool is switched off."""

blocks = Table(
    "blocks",
    metadata,
    Column("identity", Text, primary_key=True),
    Column("target", Text, nullable=False),
    Column("since", Double, nullable=False),
    Column("by", Text),
    Column("coarse", Text),
)
"""The servers that a person has blocked."""

reviews = Table(
    "reviews",
    metadata,
    Column("id", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("group", Text, nullable=False),
    Column("identity", Text, nullable=False),
    Column("created", Double, nullable=False),
    Column("expires", Double),
    Column("host", Text),
    Column("state", Text, nullable=False),
    Column("item", Text),
    Column("decision", Text),
    Column("by", Text),
    Column("decided", Double),
    Column("hash", Text),
    Column("release", Double),
    Column("outcome", Text),
    Index("reviews_by_state", "state", "created"),
    Index("reviews_by_fingerprint", "fingerprint"),
)

drafts = Table(
    "drafts",
    metadata,
    Column("id", Text, primary_key=True),
    Column("body", Text, nullable=False),
)
"""What somebody has begun to write about a review; deleted with the review."""

reviews_head = Table(
    "reviews_head",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("version", BigInteger, nullable=False),
)
"""One row: counts the changes of all reviews, for those who wait for one."""

partials = Table(
    "partials",
    metadata,
    Column("id", Text, primary_key=True),
    Column("host", Text, nullable=False),
    Column("began", Double, nullable=False),
    Column("body", Text, nullable=False),
)
"""What has arrived of unfinished answers."""

pages = Table(
    "pages",
    metadata,
    Column("name", Text, primary_key=True),
    Column("port", Integer, nullable=False),
    Column("used", Double, nullable=False),
)
"""Where review pages are served, so that name and port are the same after a restart."""

browsers = Table(
    "browsers",
    metadata,
    Column("digest", Text, primary_key=True),
    Column("page", Text, nullable=False),
    Column("number", Integer, nullable=False),
    Column("opened", Double, nullable=False),
)
"""The browsers with access to a page, by the digest of the secret in their cookie."""

audit = Table(
    "audit",
    metadata,
    Column("seq", _NUMBER, primary_key=True, autoincrement=False),
    Column("body", Text, nullable=False),
    Column("hash", Text, nullable=False),
)

_key = Text().with_variant(Text(collation="C"), "postgresql")
"""A text in the order of its characters, so that a prefix is a range."""

record_keys = Table(
    "record_keys",
    metadata,
    Column("seq", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False),
    Column("at", Double, nullable=False),
    Column("ask", _key, nullable=False),
    Column("identity", _key, nullable=False),
    Column("step", Text, nullable=False),
    Column("outcome", _key),
    Column("call", _key),
    Index("records_of_ask", "ask"),
    Index("records_of_server", "identity"),
    Index("records_by_outcome", "outcome", sqlite_where=text("outcome IS NOT NULL")),
    Index("records_of_call", "call", sqlite_where=text("call IS NOT NULL")),
)
"""What each audit record is found by, written with it. A step or a time has no index: a search for it reads these
narrow rows, of which a million take a fifth of a second."""

audit_head = Table(
    "audit_head",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("seq", BigInteger, nullable=False),
    Column("hash", Text, nullable=False),
)
"""One row: the end of the chain. Every writer locks it first, so that there is one writer at a time."""

asks = Table(
    "asks",
    metadata,
    Column("seq", _NUMBER, primary_key=True, autoincrement=False),
    Column("host", Text, nullable=False),
    Column("ask", Text, nullable=False),
    Column("at", Double, nullable=False),
    Column("identity", Text, nullable=False),
    Column("method", Text, nullable=False),
    Column("ending", Text, nullable=False),
    Column("found", Text, nullable=False),
    Column("body", Text, nullable=False),
    Index("asks_by_name", "host", "ask"),
    Index("asks_of_server", "identity", "seq"),
    Index("asks_by_ending", "ending", "seq"),
    Index("asks_by_time", "method", "at", "identity"),
)
"""What became of each ask, computed from the audit when somebody looks: ``body`` is its row, ``found`` is searched."""

spent = Table(
    "spent",
    metadata,
    Column("day", Text, primary_key=True),
    Column("identity", Text, primary_key=True),
    Column("model", Text, primary_key=True),
    Column("requests", BigInteger, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("money", BigInteger, nullable=False),
)
"""What was spent: sums, which the transaction of each record changes."""

gathered = Table(
    "gathered",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("seq", BigInteger, nullable=False),
)
"""One row: the last record that is counted in ``asks``."""

TABLES = TableSet("host", metadata)
"""Code of an older revision may work with them only if it obeys everything that decides about a request: blocks,
permissions that can still be undone, reservations."""


def make(connection: Connection) -> None:
    """Create the tables that are missing, and the rows that count."""
    if not TABLES.make(connection):
        return
    for head, values in (
        (audit_head, {"seq": 0, "hash": GENESIS}),
        (reviews_head, {"version": 0}),
        (gathered, {"seq": 0}),
    ):
        if connection.execute(select(head)).first() is None:
            connection.execute(insert(head).values(id=1, **values))
