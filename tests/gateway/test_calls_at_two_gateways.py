"""The same call at two gateways that share a store: whose question ends when, and what the other caller gets."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from antiphon import Client
from antiphon.host.store import open_store
from antiphon.host.store.base import ReviewRow
from tests.gateway.test_pending_calls import OLDER, PATIENT, asked_twice, two_gateways
from tests.host.asks import approve


async def test_a_call_that_joined_one_of_another_gateway_outlives_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its question ends with the call that asked it, so it asks one of its own, and runs once it is approved."""
    async with (
        two_gateways(tmp_path / "host.db", within=PATIENT) as (one, other),
        Client(one.server, revision=OLDER) as first,
        Client(other.server, revision=OLDER) as second,
    ):
        gone = asyncio.create_task(first.call_tool("shop__order", {"sku": "P-1"}))
        [question] = await one.wait_for(1)
        put, joined = other.store.put_review, asyncio.Event()

        async def note_joining(row: ReviewRow) -> ReviewRow:
            found = await put(row)
            joined.set()
            return found

        monkeypatch.setattr(other.store, "put_review", note_joining)
        stays = asyncio.create_task(second.call_tool("shop__order", {"sku": "P-1"}))
        await joined.wait()
        gone.cancel()
        async with asyncio.timeout(PATIENT):
            async for _ in other.queue.changes(0.01):
                if [each.id for each in await other.queue.pending()] not in ([], [question.id]):
                    break
        await other.decide()
        assert (await stays).text == "ordered P-1"
    assert one.ran + other.ran == ["P-1"]


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
