"""Statements that every request runs: with SQLite compiled once, and handed to the driver as text.

SQLAlchemy takes ten times as long for what it does around a statement as SQLite for the statement. Owns only how a
statement is run; which ones there are is said where they are used. Types that a driver does not know by itself are none
of their business: text, numbers and booleans are all there is.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, cast

from sqlalchemy import ClauseElement, Connection, Executable
from sqlalchemy.sql.compiler import SQLCompiler

__all__ = ["Prepared"]

Values = Mapping[str, object]


class Prepared:
    """One statement. Its parameters are named, and none of them may stand for a list."""

    def __init__(self, statement: Executable) -> None:
        self._statement = statement
        self._text = ""
        self._names: tuple[str, ...] = ()
        self._fixed: dict[str, object] = {}

    def rows(self, connection: Connection, values: Values) -> list[Sequence[Any]]:
        """Run it, and return the rows it gives."""
        driver = self._driver(connection)
        if driver is not None:
            return driver.execute(self._text, self._row(values)).fetchall()
        return [tuple(row) for row in connection.execute(self._statement, dict(values))]

    def count(self, connection: Connection, values: Values) -> int:
        """Run it, and return the number of rows it changed."""
        driver = self._driver(connection)
        if driver is not None:
            return driver.execute(self._text, self._row(values)).rowcount
        return connection.execute(self._statement, dict(values)).rowcount

    def many(self, connection: Connection, values: Sequence[Values]) -> None:
        """Run it once for each of the values."""
        driver = self._driver(connection)
        if driver is not None:
            driver.executemany(self._text, [self._row(each) for each in values])
        else:
            connection.execute(self._statement, [dict(each) for each in values])

    def _driver(self, connection: Connection) -> sqlite3.Connection | None:
        """Return what runs the text; ``None`` where SQLAlchemy has to."""
        if connection.dialect.name != "sqlite":
            return None
        if not self._text:
            compiled = cast("SQLCompiler", cast("ClauseElement", self._statement).compile(dialect=connection.dialect))
            self._fixed = dict(compiled.params)
            self._names = tuple(compiled.positiontup or ())
            self._text = str(compiled)
        return cast("sqlite3.Connection", connection.connection.dbapi_connection)

    def _row(self, values: Values) -> list[Any]:
        return [values[name] if name in values else self._fixed[name] for name in self._names]
