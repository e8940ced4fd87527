"""Counts that replicas tell each other; that they travel on each engine is in ``contract``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from antiphon.errors import InvalidParams
from antiphon.replicas.engines import base as module
from antiphon.replicas.engines.base import _INTERVAL, Tallies
from antiphon.replicas.engines.unix import MemoryCluster


class Counting:
    """A replica that counts, and what it has heard."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self.cluster = cluster
        self.now = 0.0
        self.counts: dict[str, int] = {}
        self.heard: dict[str, dict[str, int]] = {}
        self.tallies = Tallies(cluster, "tallies/shop", self.seal, self.unseal, lambda: self.now)
        self.end = self.tallies.add("things", lambda: self.counts, self.hear, self.heard.pop)
        cluster.listen(self.tallies._topic, self.tallies._deliver)

    def hear(self, replica: str, counts: dict[str, int]) -> None:
        """Add up what comes."""
        self.heard.setdefault(replica, {}).update(counts)

    def seal(self, data: bytes, purpose: bytes) -> bytes:
        """Name what it is for."""
        return purpose + data

    def unseal(self, data: bytes, purpose: bytes) -> bytes:
        """Refuse what is for something else."""
        if not data.startswith(purpose):
            raise InvalidParams("sealed for another purpose")
        return data[len(purpose) :]


@pytest.fixture
async def two() -> AsyncIterator[tuple[Counting, Counting]]:
    """Make two replicas."""
    first = MemoryCluster()
    second = MemoryCluster(first)
    await first.open()
    await second.open()
    yield Counting(first), Counting(second)
    await first.close()
    await second.close()


async def delivered() -> None:
    """Let messages within this process arrive."""
    await asyncio.sleep(0)


async def test_what_one_has_counted_the_others_hear(two: tuple[Counting, Counting]):
    """And both know how many they are."""
    one, other = two
    one.counts = {"ann": 3, "bob": 4}
    await one.tallies.tell()
    await delivered()
    assert other.heard == {one.cluster.replica: {"ann": 3, "bob": 4}}
    assert (one.tallies.replicas, other.tallies.replicas) == (1, 2)


async def test_a_silent_replica_counts_no_longer(two: tuple[Counting, Counting]):
    """As one that has died, or is cut off: each then holds its limits by itself."""
    one, other = two
    one.counts = {"ann": 3}
    await one.tallies.tell()
    await delivered()
    other.now += 4 * _INTERVAL
    await other.tallies.tell()
    assert other.tallies.replicas == 2
    other.now += _INTERVAL
    await other.tallies.tell()
    assert (other.heard, other.tallies.replicas) == ({}, 1)


async def test_one_that_counts_nothing_is_one_of_them(two: tuple[Counting, Counting]):
    """What is free is shared out to all."""
    one, other = two
    one.end()
    await one.tallies.tell()
    await delivered()
    assert (other.heard, other.tallies.replicas) == ({}, 2)


async def test_much_is_told_in_parts(two: tuple[Counting, Counting], monkeypatch: pytest.MonkeyPatch):
    """A message to all is limited; together they have everything."""
    monkeypatch.setattr(module, "_MAX_BYTES", 100)
    one, other = two
    one.counts = {f"principal-{number}": number for number in range(20)}
    sizes: list[int] = []
    publish = one.cluster.publish

    async def measured(topic: str, data: bytes) -> None:
        sizes.append(len(data))
        await publish(topic, data)

    monkeypatch.setattr(one.cluster, "publish", measured)
    await one.tallies.tell()
    await delivered()
    assert other.heard[one.cluster.replica] == one.counts
    assert len(sizes) > 5
    assert max(sizes) < 200


async def test_what_others_have_sealed_is_not_counted(two: tuple[Counting, Counting], caplog: pytest.LogCaptureFixture):
    """The log says so."""
    one, other = two
    await one.cluster.publish(one.tallies._topic, b"anything")
    await delivered()
    assert "cannot be read" in caplog.text
    assert other.tallies.replicas == 1


async def test_it_tells_on_while_the_engine_is_gone(two: tuple[Counting, Counting], monkeypatch: pytest.MonkeyPatch):
    """And the others hear it once the engine is back."""
    monkeypatch.setattr(module, "_INTERVAL", 0.001)
    one, other = two
    one.counts = {"ann": 1}
    one.cluster.reachable(False)
    running = asyncio.ensure_future(one.tallies.run())
    heard = asyncio.Event()
    other.end()
    other.tallies.add("things", dict, lambda _replica, _counts: heard.set())
    await delivered()
    assert not heard.is_set()
    one.cluster.reachable(True)
    async with asyncio.timeout(30):
        await heard.wait()
    running.cancel()
    await asyncio.wait((running,))
