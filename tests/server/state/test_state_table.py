"""The table of a state store in a database."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import Connection, select

from antiphon.server.state import state_table
from antiphon.sql.database_store import runner_at
from antiphon.sql.runner import Runner
from tests.support.postgres import shared_postgres


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
async def runner(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Runner]:
    """Open a database with an empty table, which is made twice: the second time nothing happens."""
    place = shared_postgres() if request.param == "postgres" else tmp_path / "states.db"
    runner = runner_at(place, extra="sql")
    await runner.run(state_table.metadata.drop_all)
    await runner.run(state_table.TABLES.make)
    await runner.run(state_table.TABLES.make)
    yield runner
    await runner.aclose()


async def test_without_a_time_the_clock_of_the_database_counts(runner: Runner):
    """Which here is that of this machine."""

    def end(connection: Connection) -> float:
        state_table.put(connection, "a", b"value", 1000.0, None)
        return connection.execute(select(state_table.states.c.until)).scalar_one()

    before = time.time()
    assert before + 999 <= await runner.run(end) <= time.time() + 1001
    assert await runner.run(lambda connection: state_table.get(connection, "a", None)) == b"value"


async def test_a_row_counts_what_it_costs(runner: Runner):
    """Its key, its value, and what the database adds."""

    def size(connection: Connection) -> int:
        state_table.put(connection, "four", b"12345", 10.0, 0.0)
        assert state_table.replace(connection, "four", b"123", 10.0, b"12345", 0.0)
        return connection.execute(select(state_table.states.c.size)).scalar_one()

    assert await runner.run(size) == 4 + 3 + 200


async def test_a_sweep_forgets_what_is_too_old_and_then_what_ends_first(runner: Runner):
    """As many as are beyond the limit."""

    def kept(connection: Connection) -> list[str]:
        for number in range(6):
            state_table.put(connection, f"k{number}", b"", 10.0 * number, 0.0)
        state_table.sweep(connection, 3 * 202, 15.0)
        return list(connection.scalars(select(state_table.states.c.key).order_by(state_table.states.c.key)))

    assert await runner.run(kept) == ["k3", "k4", "k5"]
