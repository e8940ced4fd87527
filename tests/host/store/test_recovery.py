"""What is put in order every few seconds, whether anything is out of it or not."""

from __future__ import annotations

from typing import Any

from sqlalchemy import create_engine, event

from antiphon.host.store import recovery
from antiphon.host.store.tables import metadata


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
