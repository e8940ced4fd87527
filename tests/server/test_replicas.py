"""Replicas of a server that share a cluster: in memory, and on a real Redis."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import count

import pytest

from antiphon import Server
from antiphon.errors import ConfigError
from antiphon.server import MemoryCluster, RedisCluster
from antiphon.server.network import _check_workers
from tests.server.replicated import Kill, Replicated, Trio, trio
from tests.support.redis import OwnRedis, own_redis

__all__ = ["trio"]

PREFIXES = (f"trio-{number}" for number in count())


@pytest.fixture
def engine() -> Callable[[], MemoryCluster]:
    """Make replicas' parts in one cluster."""
    first = MemoryCluster()
    made: list[MemoryCluster] = []

    def make() -> MemoryCluster:
        made.append(MemoryCluster(first))
        return made[-1]

    return make


@pytest.fixture
def kill() -> Kill:
    """Let a replica vanish for the others."""

    async def die(cluster: MemoryCluster) -> None:
        cluster.die()

    return die


class TestReplicas(Replicated):
    """They do what replicas do on every engine."""


@pytest.fixture(scope="module")
def redis() -> Iterator[OwnRedis]:
    """Run one for all tests on it; each has keys of its own."""
    with own_redis() as started:
        yield started


@pytest.mark.redis
class TestReplicasOnRedis(Replicated):
    """They do what replicas do on every engine."""

    @pytest.fixture
    def engine(self, redis: OwnRedis) -> Callable[[], RedisCluster]:
        """Make replicas' parts in one cluster."""
        prefix = next(PREFIXES)
        return lambda: RedisCluster(redis.url, prefix=prefix, patience=10)

    @pytest.fixture
    def kill(self) -> Kill:
        """Let a replica vanish for the others."""

        async def die(cluster: RedisCluster) -> None:
            assert cluster._heart is not None
            cluster._heart.cancel()
            await cluster._redis.delete(cluster._life(cluster.replica))

        return die


async def test_the_engine_learns_no_secret(trio: Trio):
    """Neither tokens nor ids of sessions nor what is said stand in it, in keys or values."""
    await trio.open(0)
    call = trio.call(0, "describe", product="secret-hat")
    await call.response.until(b"sampling/createMessage")
    shared = trio.replicas[0].cluster.shared
    kept = repr((shared.records, shared.events))
    assert shared.records
    assert shared.events
    assert [word for word in (trio.session, "ann", "token-of", "secret-hat", "sampling") if word in kept] == []
    await trio.post(0, {"id": call.response.messages[-1]["id"], "error": {"code": -1, "message": "no"}})
    await call.done()


async def test_what_needs_nothing_of_the_engine_goes_on_without_it(trio: Trio):
    """Calls at the home of a session do; others fail clearly, and work again when the engine does."""
    await trio.open(0)
    shared = trio.replicas[0].cluster
    shared.reachable(False)
    assert (await trio.call(0, "whoami").done()).json["result"]["content"]
    elsewhere = await trio.call(1, "whoami").done()
    assert (elsewhere.status, elsewhere.headers["retry-after"]) == (503, "5")
    assert "cannot reach each other" in elsewhere.json["error"]["message"]
    session, trio.session = trio.session, ""
    refused = await trio.post(
        1,
        {
            "id": 0,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "c", "version": "1"},
            },
        },
    )
    assert refused.status == 503
    trio.session = session
    call = trio.call(0, "describe", product="hat")
    await call.response.until(b"sampling/createMessage")
    shared.reachable(True)
    await trio.post(1, {"id": call.response.messages[-1]["id"], "error": {"code": -1, "message": "no"}})
    assert (await call.done()).messages[-1]["result"]["isError"]


async def test_a_replica_that_was_taken_for_dead_gives_its_sessions_up(trio: Trio):
    """Another has taken them over: it must not serve them, too."""
    await trio.open(0)
    first = trio.replicas[0].cluster
    name = first.replica
    await trio.die(0)
    assert (await trio.call(1, "whoami").done()).json["result"]
    first.shared.members[name] = first
    for lapse in list(first._lapses):
        lapse()
    membership = trio.replicas[0].app.endpoint._membership
    await asyncio.gather(*membership._tasks)
    assert trio.replicas[0].app.endpoint._sessions.all() == []
    assert (await trio.call(0, "whoami").done()).json["result"]


async def test_no_token_is_passed_on(trio: Trio):
    """It is checked where it arrives; who has sent the request is told instead."""
    await trio.open(0)
    relays, cluster = trio.replicas[0].app.endpoint._membership._relays, trio.replicas[0].cluster
    arrived: list[bytes] = []

    def deliver(sender: str, data: bytes) -> None:
        arrived.append(relays._common.unseal(data, relays._purpose(sender, cluster.replica)))
        relays._deliver(sender, data)

    cluster.listen(relays._topic, deliver)
    assert (await trio.call(1, "whoami").done()).status == 200
    assert [word for word in (b"ann", b"x-color", b"token-of", b"crumb") if word in arrived[0]] == [b"ann", b"x-color"]


@pytest.mark.parametrize("cluster", [MemoryCluster(), RedisCluster("redis://127.0.0.1:1")])
def test_workers_have_sessions_if_they_share_them(cluster: MemoryCluster | RedisCluster):
    """A cluster in memory joins no processes, so that it is refused."""
    service = Server("shop", cluster=cluster)._service
    if isinstance(cluster, MemoryCluster):
        with pytest.raises(ConfigError, match="a MemoryCluster joins servers of one process"):
            _check_workers(service, "http")
    else:
        _check_workers(service, "http")
