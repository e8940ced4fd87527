"""DecisionWatch for decisions: questions that nobody changes cost no reads of the store."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from antiphon.host import MemoryStore
from antiphon.host.review.decision_watch import DecisionWatch
from antiphon.host.store.base import Decided, ReviewRow
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
