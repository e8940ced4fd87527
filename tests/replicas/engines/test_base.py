"""What all engines have in common."""

from __future__ import annotations

import asyncio
import logging

import pytest

from antiphon.errors import ClusterUnavailable
from antiphon.replicas.engines.base import ClusterMember
from antiphon.replicas.engines.unix import MemoryCluster
from tests.support.network import until


class _Silent(ClusterMember):
    """Gives a sign of life when it is allowed to, and says so."""

    def __init__(self) -> None:
        super().__init__(lease=0.02)
        self.fails = 0
        self.is_known = True
        self.renewed = asyncio.Event()

    async def _join(self) -> None:
        """Nothing to reach."""

    async def _leave(self) -> None:
        """Nothing to free."""

    async def _renew(self) -> bool:
        if self.fails:
            self.fails -= 1
            raise ClusterUnavailable("silence")
        self.renewed.set()
        return self.is_known


async def test_a_replica_that_was_silent_for_too_long_is_told():
    """Others have taken its sessions over by then; it is told once it can reach the engine again."""
    member, told = _Silent(), asyncio.Event()
    end = member.on_lapse(told.set)
    member.fails = 20
    await member.open()
    async with asyncio.timeout(30):
        await told.wait()
    end()
    end()
    await member.close()


async def test_a_replica_that_the_engine_has_forgotten_is_told():
    """The engine was started again without its data, and so quickly that nobody was silent."""
    member, told = _Silent(), asyncio.Event()
    member.on_lapse(told.set)
    await member.open()
    async with asyncio.timeout(30):
        await member.renewed.wait()
        member.is_known = False
        await told.wait()
    await member.close()


async def test_a_listener_that_fails_costs_only_its_message(caplog: pytest.LogCaptureFixture):
    """The log says so, and the next message is delivered."""
    replica, arrived = MemoryCluster(), asyncio.Event()

    def deliver(sender: str, data: bytes) -> None:
        if data == b"bad":
            raise ValueError(data)
        arrived.set()

    await replica.open()
    replica.listen("topic", deliver)
    with caplog.at_level(logging.ERROR, "antiphon.cluster"):
        await replica.send(replica.replica, "topic", b"bad")
        await replica.send(replica.replica, "topic", b"good")
        async with asyncio.timeout(30):
            await arrived.wait()
    assert "could not be handled" in caplog.text
    await replica.close()


async def test_leaving_more_often_than_joining_does_nothing():
    """Closing twice is no error anywhere here."""
    replica = MemoryCluster()
    other = MemoryCluster(beside=replica)
    await other.open()
    await replica.close()
    await replica.open()
    left = replica.replica
    assert await other.is_alive(left)
    await replica.close()
    await replica.close()
    assert not await other.is_alive(left)
    await other.close()


async def test_a_replica_knows_that_it_is_past_its_lease_until_it_gives_a_sign():
    """A sign that does not arrive changes nothing; the first one that does also calls the functions."""
    member, told = _Silent(), asyncio.Event()
    member.on_lapse(told.set)
    member.fails = 1_000
    await member.open()
    assert not member.is_past_lease
    await until(lambda: member.is_past_lease, 60)
    with pytest.raises(ClusterUnavailable):
        await member.give_sign()
    assert (member.is_past_lease, told.is_set()) == (True, False)
    member.fails = 0
    await member.give_sign()
    assert (member.is_past_lease, told.is_set()) == (False, True)
    await member.close()
