"""How long anybody waits for a database."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.sql import patience
from antiphon.sql.patience import Patience, StoreStalled


async def test_what_answers_in_time_is_returned():
    """Or raised."""

    async def fails() -> None:
        raise LookupError

    assert await Patience().wait(asyncio.sleep(0, "done")) == "done"
    with pytest.raises(LookupError):
        await Patience().wait(fails())


async def test_who_does_not_answer_is_waited_for_more_shortly_the_next_time(monkeypatch: pytest.MonkeyPatch):
    """Until it answers again."""
    monkeypatch.setattr(patience, "_AGAIN", 0.001)
    waits = Patience()
    for seconds in ("0.002", "0.001", "0.001"):
        with pytest.raises(StoreStalled, match=f"within {seconds} s"):
            await waits.wait(asyncio.Event().wait(), 0.002)
    await waits.wait(asyncio.sleep(0))
    with pytest.raises(StoreStalled, match=r"within 0\.002 s"):
        await waits.wait(asyncio.Event().wait(), 0.002)


async def test_a_time_out_of_the_database_is_one_of_the_store():
    """Nobody takes it for that of a person."""

    async def times_out() -> None:
        raise TimeoutError

    with pytest.raises(StoreStalled):
        await Patience().wait(times_out())
