"""DecisionWatch for decisions: questions that nobody changes cost no reads of the store."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from antiphon.host import MemoryStore
from antiphon.host.review.decision_watch import DecisionWatch
from antiphon.host.store.base import Decided, PendingCallRow, ReviewRow
from tests.host.store.stores import review


async def test_a_decision_reads_only_its_own_question(monkeypatch: pytest.MonkeyPatch):
    """Of 200 questions that wait, the store reads the decided one, and no other."""
    store = MemoryStore()
    waiting = DecisionWatch(store, lambda: 1_000_000.0, lambda: 0.0)
    reads: list[str] = []
    all_read = asyncio.Event()
    read = store.review

    async def count(id: str) -> ReviewRow | None:
        reads.append(id)
        if len(reads) == 200:
            all_read.set()
        return await read(id)

    monkeypatch.setattr(store, "review", count)
    monkeypatch.setattr("antiphon.host.review.decision_watch.CHECK", 0.001)
    rows = [msgspec.structs.replace(review(host=store.host), id=f"r{at}", expires=None) for at in range(200)]
    async with asyncio.timeout(60):
        tasks = [asyncio.create_task(waiting.wait(await store.put_review(row))) for row in rows]
        await all_read.wait()
        reads.clear()
        for at in (7, 8):
            await store.decide([Decided(id=f"r{at}", decision="1", hash=rows[at].hash or "")])
            assert (await tasks[at]).state == "decided"
        assert reads == ["r7", "r8"]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_question_that_its_last_call_has_left_is_not_claimed(monkeypatch: pytest.MonkeyPatch):
    """It was just being read, because of another call that waits here; it stays for when its own call is made again."""
    store = MemoryStore(clock=lambda: 1_000_000.0)
    waiting = DecisionWatch(store, lambda: 1_000_000.0, lambda: 0.0)
    reading, has_left = asyncio.Event(), asyncio.Event()
    read = store.review

    async def read_slowly(id: str) -> ReviewRow | None:
        if id == "left":
            reading.set()
            await has_left.wait()
        return await read(id)

    monkeypatch.setattr(store, "review", read_slowly)
    rows = [await store.put_review(review(id, host=store.host, fingerprint=id)) for id in ("left", "other")]
    async with asyncio.timeout(60):
        left, other = (asyncio.create_task(waiting.wait(row)) for row in rows)
        await reading.wait()
        left.cancel()
        await asyncio.wait([left])
        call = PendingCallRow(id="left", fingerprint="left", owner="x", until=1_000_100.0)
        assert await store.leave_review(call, most=1)
        has_left.set()
        await store.decide([Decided(id="other", decision="1")])
        assert (await other).state == "decided"
    kept = await read("left")
    assert kept is not None
    assert (kept.host, kept.expires) == (None, 1_000_100.0)
