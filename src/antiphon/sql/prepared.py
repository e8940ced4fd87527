"""Statements that every request runs: with SQLite they are compiled once, and passed to the driver as text.

SQLAlchemy's own work around a statement takes ten times as long as the statement in SQLite. Owns how a statement is
run; its users define it. Parameters can be text, numbers and booleans only, since the driver converts no other types.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from sqlalchemy import ClauseElement, Connection, CursorResult, Executable, Table
from sqlalchemy.sql.compiler import SQLCompiler

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite
    from sqlalchemy.engine.default import DefaultDialect

Values = Mapping[str, object]


def begin_upsert(dialect: str, table: Table) -> sqlite.Insert | postgresql.Insert:
    """Begin an insertion that may meet a row. Both databases support this, in different dialects of SQLAlchemy."""
    # Imported here, because a dialect takes long to load, and only one of the two is needed.
    if dialect == "sqlite":
        from sqlalchemy.dialects import sqlite

        return sqlite.insert(table)
    from sqlalchemy.dialects import postgresql

    return postgresql.insert(table)


class Prepared:
    """One statement. Its parameters are named, and none may stand for a list."""

    def __init__(self, statement: Executable) -> None:
        self._statement = statement
        self._text = ""
        self._names: list[str] = []
        """The parameters in the order of the statement."""
        self._fixed: dict[str, object] = {}
        """Parameters whose values stand in the statement."""

    def rows(self, connection: Connection, values: Values) -> list[Sequence[Any]]:
        """Run it, and return the rows."""
        return list(map(tuple, self._run(connection, values)))

    def count(self, connection: Connection, values: Values) -> int:
        """Run it, and return the number of rows changed."""
        return self._run(connection, values).rowcount

    def _run(self, connection: Connection, values: Values) -> sqlite3.Cursor | CursorResult[Any]:
        driver = self._driver(connection)
        if driver is not None:
            return driver.execute(self._text, self._all(values))
        return connection.execute(self._statement, dict(values))

    def many(self, connection: Connection, values: Sequence[Values]) -> None:
        """Run it once for each of the values."""
        driver = self._driver(connection)
        if driver is not None:
            driver.executemany(self._text, [self._all(each) for each in values])
        else:
            connection.execute(self._statement, [dict(each) for each in values])

    def _driver(self, connection: Connection) -> sqlite3.Connection | None:
        """Return the driver's connection, which runs the text directly; ``None`` if SQLAlchemy has to run it."""
        if connection.dialect.name != "sqlite":
            return None
        if not self._text:
            # By position: for each name the driver would make a text of its own first.
            by_position = cast("type[DefaultDialect]", type(connection.dialect))(paramstyle="qmark")
            compiled = cast("SQLCompiler", cast("ClauseElement", self._statement).compile(dialect=by_position))
            self._names = list(compiled.positiontup or ())
            self._fixed = {name: value for name, value in compiled.params.items() if not compiled.binds[name].required}
            self._text = str(compiled)
        driver: Any = connection.connection.dbapi_connection
        return driver

    def _all(self, values: Values) -> list[Any]:
        return list(map(({**self._fixed, **values} if self._fixed else values).__getitem__, self._names))
