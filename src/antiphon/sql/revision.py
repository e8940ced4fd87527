"""Which code may work with a set of tables that several processes share, while releases change.

Each set of tables has one row with its revision, and the oldest revision whose code may work with it. A release that
only adds what older code may ignore (a table, an index, a column with a default) raises the revision; one that adds
what older code must not ignore raises both.
"""

from __future__ import annotations

import logging

from sqlalchemy import BigInteger, Column, Connection, MetaData, Table, Text, func, insert, select, update

from antiphon.errors import ConfigError

__all__ = ["check_revision", "revisions"]

_log = logging.getLogger("antiphon")

_LOCK = 0x72657673
"""Any number that nothing else uses: "revs". SQLite needs no lock, since it has one writer."""

_metadata = MetaData()

revisions = Table(
    "server_revisions",
    _metadata,
    Column("tables", Text, primary_key=True),
    Column("revision", BigInteger, nullable=False),
    Column("oldest", BigInteger, nullable=False),
)


def check_revision(connection: Connection, tables: str, revision: int, oldest: int) -> None:
    """Check that this code may work with a set of tables, and record its revision if that is newer.

    ``tables`` names the set; ``revision`` and ``oldest`` are those of this release. Call it
    before the tables are made: until the transaction ends, other processes wait, since two that create a table at the
    same time fail.

    Raises:
        ConfigError: a newer release has added what this one must not ignore; says what to do.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(_LOCK)))
    _metadata.create_all(connection)
    row = revisions.c.tables == tables
    found = connection.execute(select(revisions).where(row)).first()
    if found is None:
        connection.execute(insert(revisions).values(tables=tables, revision=revision, oldest=oldest))
    elif found.revision < revision:
        connection.execute(update(revisions).where(row).values(revision=revision, oldest=oldest))
    elif found.oldest > revision:
        raise ConfigError(
            f"the tables {tables} are of a newer release of antiphon: they are at revision {found.revision}, which "
            f"takes code of {found.oldest} or later, and this is {revision}. Update antiphon here, or use another "
            "database"
        )
    elif found.revision > revision:
        _log.warning("the tables %s are of a newer release (%d) than this one (%d)", tables, found.revision, revision)
