"""A store of a server in a database."""

from __future__ import annotations

import asyncio
from pathlib import Path

from sqlalchemy import Connection

from antiphon.sql.database_store import DatabaseStore


class Notes(DatabaseStore):
    """One table with one column."""

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        self.made = 0
        self._make = self._count

    def _count(self, connection: Connection) -> None:
        self.made += 1
        connection.exec_driver_sql("CREATE TABLE notes (text TEXT)")

    async def write(self, text: str) -> None:
        """Add a note."""
        await self._run(lambda connection: connection.exec_driver_sql("INSERT INTO notes VALUES (?)", (text,)))

    async def read(self) -> list[str]:
        """Return all notes."""
        return await self._run(
            lambda connection: list(connection.exec_driver_sql("SELECT text FROM notes").scalars()), write=False
        )


async def test_it_opens_at_its_first_operation_and_makes_its_tables_once(tmp_path: Path):
    """Making it touches no file."""
    async with Notes(tmp_path / "notes.db") as notes:
        assert not await asyncio.to_thread(lambda: list(tmp_path.iterdir()))
        await notes.write("tea")
        await notes.write("cups")
        assert await notes.read() == ["tea", "cups"]
        assert notes.made == 1
