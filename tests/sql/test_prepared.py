"""Statements that are handed to the driver."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import Connection, bindparam, insert, select, text, update

from antiphon.host.store import tables
from antiphon.host.store.tables import holds
from antiphon.sql.prepared import Prepared
from antiphon.sql.runner import PostgresRunner, SqliteRunner
from tests.host.store.stores import DURABLE, Place

ROW = {"host": "h", "ask": "1", "identity": "x", "keys": "[]", "money": 5, "tokens": 2, "sent": True}
ADD = Prepared(insert(holds))
MOVE = Prepared(update(holds).where(holds.c.id == bindparam("hold")).values(money=bindparam("new"), sent=False))
FIND = Prepared(
    select(holds.c.id, holds.c.money)
    .where(holds.c.money > bindparam("over"), holds.c.id != bindparam("but", "nothing"))
    .order_by(holds.c.id)
)


@pytest.fixture(params=DURABLE)
async def runner(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SqliteRunner | PostgresRunner]:
    """Make a database of each kind, with its tables."""
    async with Place(request.param, tmp_path) as place:
        runner = place.runner()
        await runner.run(tables.make_tables)
        yield runner
        await runner.aclose()


async def test_rows_are_added_changed_and_found(runner: SqliteRunner | PostgresRunner):
    """As SQLAlchemy would; values that the statement brings along hold unless others are given."""

    def work(connection: Connection) -> None:
        ADD.many(connection, [{**ROW, "id": id} for id in ("a", "b", "c")])
        assert MOVE.count(connection, {"hold": "b", "new": 9}) == 1
        assert MOVE.count(connection, {"hold": "z", "new": 9}) == 0
        assert FIND.rows(connection, {"over": 0}) == [("a", 5), ("b", 9), ("c", 5)]
        assert FIND.rows(connection, {"over": 4, "but": "a"}) == [("b", 9), ("c", 5)]
        sent = connection.execute(text("SELECT id FROM holds WHERE sent ORDER BY id")).scalars().all()
        assert sent == ["a", "c"]

    await runner.run(work)


async def test_what_is_undone_is_undone(runner: SqliteRunner | PostgresRunner):
    """They are part of the transaction like any other."""

    def work(connection: Connection) -> None:
        ADD.many(connection, [{**ROW, "id": "a"}])
        raise LookupError

    with pytest.raises(LookupError):
        await runner.run(work)
    assert await runner.run(lambda connection: FIND.rows(connection, {"over": 0})) == []
