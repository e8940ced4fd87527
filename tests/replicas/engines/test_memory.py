"""The cluster within one process."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from antiphon.errors import ClusterUnavailable
from antiphon.replicas.engines import unix
from antiphon.replicas.engines.unix import MemoryCluster
from tests.replicas.engines.contract import Contract, Together, joining


@pytest.fixture
async def together() -> AsyncIterator[Together]:
    """Make replicas that leave at the end."""
    first = MemoryCluster()
    async with joining(lambda: MemoryCluster(first)) as join:
        yield join


class TestMemoryCluster(Contract):
    """It does what every engine does."""


async def test_the_oldest_are_dropped_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch):
    """Records and events are bounded apart from each other, and the newest of each stays whatever its size."""
    monkeypatch.setattr(unix, "MAX_KEPT", 1_000)
    one = unix.MemoryCluster()
    for each in "abc":
        await one.put(each, bytes(400), 60)
        await one.append(each, 1, bytes(400))
    assert [await one.get(each) is not None for each in "abc"] == [False, False, True]
    assert [len(await one.after(each, -1)) for each in "abc"] == [0, 0, 1]


async def test_a_stream_drops_its_own_oldest_events(together: Together, monkeypatch: pytest.MonkeyPatch):
    """One stream alone is within the bound, too, and its newest event stays whatever its size."""
    monkeypatch.setattr(unix, "MAX_KEPT", 1_500)
    one = await together()
    for number in range(5):
        await one.append("stream", number, bytes(400))
    assert [number for number, _ in await one.after("stream", -1)] == [3, 4]
    await one.append("stream", 5, bytes(2_000))
    assert [number for number, _ in await one.after("stream", -1)] == [5]
    await one.forget("stream")
    for number in range(2):
        await one.append("again", number, bytes(400))
    assert len(await one.after("again", -1)) == 2


async def test_nothing_works_while_it_cannot_be_reached(together: Together):
    """As with an engine that has stopped."""
    one = await together()
    one.reachable(False)
    with pytest.raises(ClusterUnavailable):
        await one.get("key")
    one.reachable(True)
    assert await one.get("key") is None
