"""Sets of tables that several processes share, while releases change.

Each set has one row with its revision, and the oldest revision whose code may work with it. A release that only adds
what older code may ignore (a table, an index) raises the revision; one that adds what older code must not ignore raises
both. Also the time of both databases, as statements on such tables need it.
"""

from __future__ import annotations

import logging
import time
from typing import NamedTuple

import sqlalchemy as sa

from antiphon.errors import ConfigError

_log = logging.getLogger("antiphon")

_LOCK = 0x72657673
"""Any number that nothing else uses: "revs". SQLite needs no lock, since it has one writer."""

_metadata = sa.MetaData()

_revisions = sa.Table(
    "table_revisions",
    _metadata,
    sa.Column("tables", sa.Text, primary_key=True),
    sa.Column("revision", sa.BigInteger, nullable=False),
    sa.Column("oldest", sa.BigInteger, nullable=False),
)


class TableSet(NamedTuple):
    """Tables that change together.

    ``name`` stands in errors; ``revision`` is that of this release, and ``oldest`` the oldest whose code may work with
    the tables.
    """

    name: str
    metadata: sa.MetaData
    revision: int = 1
    oldest: int = 1

    def make(self, connection: sa.Connection) -> bool:
        """Create the tables that are missing; return whether there were any.

        One process at a time: until the transaction ends, the others wait, since two that create a table at the same
        time fail. Raises ``ConfigError``: as ``check``; or something else has made some of them.
        """
        if self.are_made(connection):
            return False
        if connection.dialect.name == "postgresql":
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
        if self.are_made(connection):
            return False
        _metadata.create_all(connection)
        found = self.check(connection)
        if not found and not self.metadata.tables.keys().isdisjoint(sa.inspect(connection).get_table_names()):
            raise self._refuse(connection, "have no revision")
        self.metadata.create_all(connection)
        values = {"revision": self.revision, "oldest": self.oldest}
        if not found:
            connection.execute(sa.insert(_revisions).values(tables=self.name, **values))
        elif found < self.revision:
            connection.execute(sa.update(_revisions).where(_revisions.c.tables == self.name).values(**values))
        return True

    def are_made(self, connection: sa.Connection) -> bool:
        """Return whether all tables are there, as this release or a newer one makes them.

        Raises ``ConfigError``: as ``check``.
        """
        inspector = sa.inspect(connection)
        names = set(inspector.get_table_names())
        if _revisions.name not in names:
            return False
        found = self.check(connection)
        if found == self.revision:
            there = {
                name: {one["name"] for one in columns} for (_, name), columns in inspector.get_multi_columns().items()
            }
            if any(
                not there.get(name, set(table.c.keys())).issuperset(table.c.keys())
                for name, table in self.metadata.tables.items()
            ):
                raise self._refuse(connection, "lack columns")
        if found > self.revision:
            newer = "the tables %s are of a newer release (%d) than this one (%d)"
            _log.warning(newer, self.name, found, self.revision)
        return found >= self.revision and names.issuperset(self.metadata.tables)

    def check(self, connection: sa.Connection) -> int:
        """Return the revision of the tables, 0 without any, if this release may work with them.

        Raises ``ConfigError``: a newer release has added what this one must not ignore; says what to do.
        """
        found = connection.execute(sa.select(_revisions).where(_revisions.c.tables == self.name)).first()
        if found is None:
            return 0
        if found.oldest > self.revision:
            raise ConfigError(
                f"the tables {self.name} are of a newer release of antiphon: they are at revision {found.revision}, "
                f"which takes code of {found.oldest} or later, and this is {self.revision}. Update antiphon here, or "
                "use another database"
            )
        return found.revision

    def _refuse(self, connection: sa.Connection, problem: str) -> ConfigError:
        return ConfigError(
            f"{connection.engine.url.database}: the tables {self.name} {problem}: an unreleased version of antiphon "
            "or another program has made them. Move the database away, or use another one"
        )


def time_of(connection: sa.Connection, at: float | None = None) -> sa.ColumnElement[float]:
    """Return ``at`` as a part of statements, or without it the time of the database."""
    if at is None and connection.dialect.name != "sqlite":
        # One clock for all processes, since their own clocks may differ.
        return sa.literal_column("extract(epoch from clock_timestamp())::float8", sa.Double())
    return sa.literal(time.time() if at is None else at, sa.Double())
