"""The same call at two gateways that share a store: whose question ends when, and what the other caller gets."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from antiphon import Client
from antiphon.host.store import open_store
from antiphon.host.store.base import ReviewRow
from tests.gateway.test_pending_calls import OLDER, PATIENT, asked_twice, two_gateways
from tests.host.asks import approve


@asynccontextmanager
async def asked_together(path: Path, monkeypatch: pytest.MonkeyPatch):
    """Yield two gateways, the question that the same call at both of them waits for, and these two calls."""
    async with (
        two_gateways(path, within=PATIENT) as (one, other),
        Client(one.server, revision=OLDER) as first,
        Client(other.server, revision=OLDER) as second,
    ):
        asks = asyncio.create_task(first.call_tool("shop__order", {"sku": "P-1"}))
        [question] = await one.wait_for(1)
        put, joined = other.store.put_review, asyncio.Event()

        async def note_joining(row: ReviewRow) -> ReviewRow:
            found = await put(row)
            joined.set()
            return found

        monkeypatch.setattr(other.store, "put_review", note_joining)
        joins = asyncio.create_task(second.call_tool("shop__order", {"sku": "P-1"}))
        await joined.wait()
        yield (one, other), question, (asks, joins)


async def test_a_call_that_joined_one_of_another_gateway_outlives_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its question ends with the call that asked it, so it asks one of its own, and runs once it is approved."""
    async with asked_together(tmp_path / "host.db", monkeypatch) as ((one, other), question, (gone, stays)):
        gone.cancel()
        async with asyncio.timeout(PATIENT):
            async for _ in other.queue.changes(0.01):
                if [each.id for each in await other.queue.pending()] not in ([], [question.id]):
                    break
        await other.decide()
        assert (await stays).text == "ordered P-1"
        assert one.ran + other.ran == ["P-1"]


async def test_a_block_ends_the_calls_of_both_gateways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is asked about anew, and nothing runs."""
    async with asked_together(tmp_path / "host.db", monkeypatch) as ((one, other), question, calls):
        await one.queue.block(question.identity, "shop")
        results = await asyncio.gather(*calls)
        assert [result.text.partition(":")[0] for result in results] == ["The call was refused"] * 2
        assert await one.queue.pending() == one.ran + other.ran == []


async def test_the_outcome_is_told_although_many_calls_of_the_principal_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that was decided elsewhere is not left, so it does not count towards those that wait."""
    monkeypatch.setattr("antiphon.host.review.queue.MAX_LEFT", 0)
    async with asked_twice(open_store(tmp_path / "host.db"), open_store(tmp_path / "host.db")) as (desks, calls):
        first = (await desks[0].wait_for(2))[0]
        await desks[0].queue.decide(first.id, approve(first.item), hash=first.hash, by="ann")
        assert {result.content[0].text for result in await asyncio.gather(*calls)} == {"ordered P-1"}
        assert desks[0].ran + desks[1].ran == ["P-1"]
