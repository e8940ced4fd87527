"""Statements that every request runs: with SQLite they are compiled once, and passed to the driver as text.

SQLAlchemy's own work around a statement takes ten times as long as the statement in SQLite. Owns how a statement is
run; its users define it. Parameters can be text, numbers and booleans only, since the driver converts no other types.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
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
        self._arrange: Callable[[Values], Sequence[Any]] = tuple
        """Puts the parameters in the order of the statement."""

    def rows(self, connection: Connection, values: Values) -> list[Sequence[Any]]:
        """Run it, and return the rows."""
        return list(map(tuple, self._run(connection, values)))

    def count(self, connection: Connection, values: Values) -> int:
        """Run it, and return the number of rows changed."""
        return self._run(connection, values).rowcount

    def _run(self, connection: Connection, values: Values) -> sqlite3.Cursor | CursorResult[Any]:
        if connection.dialect.name != "sqlite":
            return connection.execute(self._statement, dict(values))
        if not self._text:
            self._compile(connection)
        driver: Any = connection.connection.dbapi_connection
        return driver.execute(self._text, self._arrange(values))

    def many(self, connection: Connection, values: Sequence[Values]) -> None:
        """Run it once for each of the values."""
        if connection.dialect.name != "sqlite":
            connection.execute(self._statement, [dict(each) for each in values])
            return
        if not self._text:
            self._compile(connection)
        driver: Any = connection.connection.dbapi_connection
        driver.executemany(self._text, list(map(self._arrange, values)))

    def _compile(self, connection: Connection) -> None:
        # By position: for each name the driver would make a text of its own first.
        by_position = cast("type[DefaultDialect]", type(connection.dialect))(paramstyle="qmark")
        compiled = cast("SQLCompiler", cast("ClauseElement", self._statement).compile(dialect=by_position))
        fixed = {name: value for name, value in compiled.params.items() if not compiled.binds[name].required}
        self._arrange = _arrange_by(list(compiled.positiontup or ()), fixed)
        self._text = str(compiled)


def _arrange_by(names: list[str], fixed: Values) -> Callable[[Values], Sequence[Any]]:
    """Return a function that puts parameters in this order; ``fixed`` are those whose values stand in the statement."""
    if len(names) > 1 and not fixed:
        # Without a Python function for each row.
        return itemgetter(*names)
    if not names:
        return lambda _values: ()
    return lambda values: [values[name] if name in values else fixed[name] for name in names]
