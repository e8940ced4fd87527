"""What is put in order every few seconds, whether anything is out of it or not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, event

from antiphon.host.budget import Cap
from antiphon.host.store import recovery
from antiphon.host.store.base import BlockRow, Change
from antiphon.host.store.tables import metadata
from tests.host.store.stores import Place, hold


def test_old_reviews_are_found_without_reading_all_of_them():
    """A store of 100,000 reviews is tidied by every process every few seconds: an index leads to what is too old."""
    plans: list[str] = []
    engine = create_engine("sqlite://")

    def explained(connection: Any, cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if statement.startswith("DELETE FROM reviews"):
            cursor.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)
            plans.extend(row[3] for row in cursor.fetchall())

    with engine.begin() as connection:
        metadata.create_all(connection)
        event.listen(engine, "before_cursor_execute", explained)
        recovery._tidy(connection, 1e9)
    engine.dispose()
    assert plans
    assert all("SEARCH reviews USING INDEX reviews_by_state" in plan for plan in plans), plans


async def test_what_many_ended_processes_left_is_settled_a_part_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One transaction reads and settles so many reservations; the next beat goes on."""
    monkeypatch.setattr("antiphon.host.store.recovery.SWEPT_AT_ONCE", 2)
    async with Place("sqlite", tmp_path) as place:
        async with place.open() as ended:
            for number in range(5):
                await ended.commit(Change(hold=hold(id=f"h{number}", money=1, tokens=1)))
        async with place.open() as store:
            left = [len(await store.holds())]
            for _ in range(2):
                await store.recover()
                left.append(len(await store.holds()))
            assert left == [3, 1, 0]


async def test_a_read_returns_so_many_rows_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever can write to a store fills no memory of those who read it; a block is found all the same."""
    for module in ("grants", "money"):
        monkeypatch.setattr(f"antiphon.host.store.{module}.MAX_LISTED", 2)
    async with Place("sqlite", tmp_path) as place, place.open() as store:
        for number in range(3):
            await store.block(BlockRow(identity=f"command:{number}", target="x", since=float(number)))
            account = {f"total{number}": Cap(money=100)}
            await store.commit(Change(hold=hold(id=f"h{number}", caps=account)))
        assert [len(rows) for rows in (await store.blocks(), await store.holds(), await store.balances())] == [2, 2, 2]
        assert [row.identity for row in await store.blocks("command:2")] == ["command:2"]
