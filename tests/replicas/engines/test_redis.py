"""Replicas that share a real Redis."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from itertools import count

import pytest

from antiphon.errors import ClusterUnavailable, ConfigError
from antiphon.replicas.engines.redis import RedisCluster
from tests.replicas.engines.contract import Contract, Inbox, Together, eventually, is_served, joining
from tests.support.redis import OwnRedis, own_redis

pytestmark = pytest.mark.redis
PREFIXES = (f"test-{number}" for number in count())


@pytest.fixture(scope="module")
def server() -> Iterator[OwnRedis]:
    """Run one for all tests here; each has keys of its own."""
    with own_redis() as started:
        yield started


@pytest.fixture
async def together(server: OwnRedis) -> AsyncIterator[Together]:
    """Make replicas that leave at the end."""
    prefix = next(PREFIXES)
    async with joining(lambda: RedisCluster(server.url, prefix=prefix, patience=10)) as join:
        yield join


class TestRedisCluster(Contract):
    """It does what every engine does."""


async def test_messages_that_come_while_the_connection_is_broken_are_not_lost(server: OwnRedis, together: Together):
    """The reader goes on where it was, also after the engine was killed and started again."""
    one, other, inbox = await together(), await together(), Inbox()
    other.listen("topic", inbox)
    await one.send(other.replica, "topic", b"before")
    assert (await inbox.next())[1] == b"before"
    server.stop()
    server.start()

    async def sent() -> bool:
        await one.send(other.replica, "topic", b"after")
        return True

    assert await eventually(sent)
    assert (await inbox.next())[1] == b"after"


async def test_more_operations_than_connections_wait_their_turn(together: Together):
    """However many requests arrive at once, none fails for want of a connection."""
    one = await together()
    await asyncio.gather(*(one.put(f"key-{number}", b"value", 60) for number in range(300)))
    assert await one.get("key-299") == b"value"


async def test_an_engine_that_stands_still_costs_no_more_than_the_patience(server: OwnRedis):
    """The operation ends with an error, and the next one works when the engine does."""
    replica = RedisCluster(server.url, prefix=next(PREFIXES), patience=0.2)
    assert await eventually(lambda: is_served(replica))
    server.stand_still()
    try:
        with pytest.raises(ClusterUnavailable, match="Redis did not do it"):
            await replica.get("key")
    finally:
        server.go_on()
    assert await eventually(lambda: is_served(replica))
    await replica._leave()


async def test_the_error_does_not_tell_the_password():
    """It would stand in a log."""
    replica = RedisCluster("redis://:secret@127.0.0.1:1/0", patience=5)
    with pytest.raises(ClusterUnavailable) as caught:
        await replica.open()
    assert "secret" not in repr(caught.value)
    await replica._leave()


def test_an_address_that_is_none_is_refused():
    """With what redis-py says of it."""
    with pytest.raises(ConfigError, match="RedisCluster"):
        RedisCluster("http://127.0.0.1")


@pytest.mark.parametrize("oldest", [1, 2])
async def test_what_a_newer_release_keeps_is_used_or_refused(server: OwnRedis, oldest: int):
    """As that release says; who is refused learns both numbers, and what to do."""
    prefix = next(PREFIXES)
    replica = RedisCluster(server.url, prefix=prefix, patience=10)
    await replica._redis.hset(f"{prefix}:revision", mapping={"revision": 2, "oldest": oldest})
    if oldest > 1:
        with pytest.raises(ConfigError, match=r"revision 2.*code of 2 or later, and this is 1\. Update.*prefix="):
            await replica.open()
        return
    await replica.open()
    await replica.put("key", b"value", 60)
    assert await replica.get("key") == b"value"
    await replica.close()
