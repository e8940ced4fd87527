"""The cluster of the processes of one machine, over pairs of sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import msgspec
import pytest
import uvloop

from antiphon.errors import ClusterUnavailable
from antiphon.replicas.engines import unix
from antiphon.replicas.engines.base import MAX_MESSAGE
from antiphon.replicas.engines.unix import Hub, UnixCluster
from tests.replicas.engines.contract import Contract, Together, joining
from tests.support.network import until


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


async def test_a_stream_of_more_than_a_message_is_read_whole(
    together: Together, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its events are one reply of the hub, which is larger than anything that a process sends."""
    monkeypatch.setattr(unix, "PATIENCE", 60)
    one = await together()
    for number in range(4):
        await one.append("stream", number, bytes(MAX_MESSAGE // 3))
    assert [(number, len(data)) for number, data in await one.after("stream", -1)] == [
        (number, MAX_MESSAGE // 3) for number in range(4)
    ]


async def test_a_record_of_the_largest_size_is_replaced(together: Together, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was expected and what is stored instead travel in one frame."""
    monkeypatch.setattr(unix, "PATIENCE", 60)
    one = await together()
    await one.put("key", bytes(MAX_MESSAGE), 60)
    assert await one.replace("key", b"1" * MAX_MESSAGE, 60, expected=bytes(MAX_MESSAGE))


async def test_nothing_works_without_the_hub(hub: Hub, together: Together) -> None:
    """It fails clearly, also what waits for its answer."""
    one = await together()
    await hub.close()
    with pytest.raises(ClusterUnavailable, match="cannot reach each other"):
        await one.get("key")


@pytest.mark.parametrize("is_cancelled", [True, False])
async def test_a_process_that_cannot_join_leaves_nothing_open(
    monkeypatch: pytest.MonkeyPatch, *, is_cancelled: bool
) -> None:
    """Neither if nobody answers, nor if whoever waits for that gives up."""
    monkeypatch.setattr(unix, "PATIENCE", 30 if is_cancelled else 0.05)
    before = asyncio.all_tasks()
    ours, theirs = socket.socketpair()
    with ours:
        replica = UnixCluster(theirs)
        opening = asyncio.create_task(replica.open())
        await until(lambda: replica._reading is not None)
        if is_cancelled:
            monkeypatch.setattr(unix, "PATIENCE", 0.05)
            opening.cancel()
        with pytest.raises(asyncio.CancelledError if is_cancelled else ClusterUnavailable):
            await opening
        assert asyncio.all_tasks() == before
        assert replica._writer is not None and replica._writer.is_closing()


async def test_a_process_that_reads_nothing_is_given_up(
    hub: Hub, together: Together, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that what others send to it does not fill the memory; whoever keeps the processes is told."""
    monkeypatch.setattr(unix, "MAX_BEHIND", 64 * 1024)
    monkeypatch.setattr(unix, "PATIENCE", 60)
    one, given_up = await together(), asyncio.Event()
    ours, theirs = socket.socketpair()
    hub.serve(ours, given_up.set)
    with theirs:
        join = msgspec.msgpack.encode((1, "join", ("stalled",), {}))
        theirs.sendall(len(join).to_bytes(4, "big") + join)
        async with asyncio.timeout(30):
            while not await one.is_alive("stalled"):
                pass
            while await one.is_alive("stalled"):
                await one.send("stalled", "topic", bytes(64 * 1024))
            await given_up.wait()


async def test_nobody_is_told_of_a_process_that_ends(hub: Hub) -> None:
    """Only of one that was cut off."""
    told: list[str] = []
    ours, theirs = socket.socketpair()
    hub.serve(ours, lambda: told.append("given up"))
    theirs.close()
    async with asyncio.timeout(30):
        await asyncio.wait(list(hub._serving))
    assert told == []


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


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_a_connection_that_was_just_closed_makes_the_cluster_unavailable(
    run: Callable[[Coroutine[Any, Any, None]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its reader has not seen the end yet; uvloop raises an error of its own for a write then."""
    writers: list[asyncio.StreamWriter] = []
    connect = asyncio.open_connection

    async def remembered(**options: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await connect(**options)
        writers.append(writer)
        return reader, writer

    async def main() -> None:
        hub = Hub()
        ours, theirs = socket.socketpair()
        hub.serve(ours)
        async with joining(lambda: UnixCluster(theirs)) as join:
            cluster = await join()
            for writer in writers:
                writer.transport.abort()
            await asyncio.sleep(0)
            with pytest.raises(ClusterUnavailable):
                await cluster.send("other", "topic", b"data")
        await hub.close()

    monkeypatch.setattr(asyncio, "open_connection", remembered)
    run(main())
