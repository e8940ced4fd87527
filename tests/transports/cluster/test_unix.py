"""The cluster of the processes of one machine, over pairs of sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from antiphon.errors import ClusterUnavailable
from antiphon.transports.cluster.unix import Hub, UnixCluster
from tests.transports.cluster.contract import Contract, Together, joining


@pytest.fixture
async def hub() -> AsyncIterator[Hub]:
    """Make a hub that serves nobody in the end."""
    made = Hub()
    yield made
    await made.close()


@pytest.fixture
async def together(hub: Hub) -> AsyncIterator[Together]:
    """Make replicas that leave at the end."""

    def make() -> UnixCluster:
        ours, theirs = socket.socketpair()
        hub.serve(ours)
        return UnixCluster(theirs)

    async with joining(make) as join:
        yield join


class TestUnixCluster(Contract):
    """It does what every engine does."""


async def test_a_process_that_is_gone_is_dead_at_once(hub: Hub, together: Together) -> None:
    """The system closes its end, however it ended; nobody waits for a lease."""
    one = await together()
    ours, theirs = socket.socketpair()
    hub.serve(ours)
    other = UnixCluster(theirs)
    await other.open()
    assert await one.is_alive(other.replica)
    assert other._writer is not None
    other._writer.transport.abort()
    async with asyncio.timeout(30):
        while await one.is_alive(other.replica):
            pass
    await other.close()


async def test_nothing_works_without_the_hub(hub: Hub, together: Together) -> None:
    """It fails clearly, also what waits for its answer."""
    one = await together()
    await hub.close()
    with pytest.raises(ClusterUnavailable, match="cannot reach each other"):
        await one.get("key")


async def test_a_process_that_sends_something_else_is_given_up(hub: Hub, together: Together) -> None:
    """And the others go on."""
    one = await together()
    ours, theirs = socket.socketpair()
    hub.serve(ours)
    reader, writer = await asyncio.open_connection(sock=theirs)
    writer.write((5).to_bytes(4, "big") + b"xxxxx")
    async with asyncio.timeout(30):
        assert await reader.read() == b""
    writer.transport.abort()
    await one.put("key", b"value", 60)
    assert await one.get("key") == b"value"
