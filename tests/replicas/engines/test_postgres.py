"""Replicas that share a real PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import count

import asyncpg
import pytest

from antiphon.errors import ClusterUnavailable, ConfigError
from antiphon.replicas.engines.postgres import PostgresCluster
from tests.replicas.engines.contract import Contract, Inbox, Together, eventually, is_served, joining
from tests.replicas.replicated import Kill, Replicated, trio
from tests.support.postgres import Postgres, own_postgres

__all__ = ["trio"]

PREFIXES = (f"test_{number}" for number in count())


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    """Run one for all tests here; each has tables of its own."""
    with own_postgres() as started:
        yield started


@pytest.fixture
async def together(server: Postgres) -> AsyncIterator[Together]:
    """Make replicas that leave at the end."""
    prefix = next(PREFIXES)
    async with joining(lambda: PostgresCluster(server.address, prefix=prefix, patience=20)) as join:
        yield join


@pytest.mark.postgres
class TestPostgresCluster(Contract):
    """It does what every engine does."""


@pytest.mark.postgres
class TestReplicasOnPostgres(Replicated):
    """They do what replicas do on every engine."""

    @pytest.fixture
    def engine(self, server: Postgres) -> Callable[[], PostgresCluster]:
        """Make replicas' parts in one cluster."""
        prefix = next(PREFIXES)
        return lambda: PostgresCluster(server.address, prefix=prefix, patience=20)

    @pytest.fixture
    def kill(self) -> Kill:
        """Let a replica vanish for the others."""

        async def die(cluster: PostgresCluster) -> None:
            assert cluster._heart is not None
            cluster._heart.cancel()
            await cluster._do("execute", "DELETE FROM ~replicas WHERE replica = $1", cluster.replica)

        return die


@pytest.mark.postgres
async def test_messages_go_on_after_the_database_was_killed(server: Postgres, together: Together):
    """Replicas connect again by themselves; those that waited in it may be lost."""
    one, other, inbox = await together(), await together(), Inbox()
    other.listen("topic", inbox)
    server.stop()
    server.start()

    async def sent() -> bool:
        await one.send(other.replica, "topic", b"after")
        return True

    assert await eventually(sent)
    assert (await inbox.next())[1] == b"after"


@pytest.mark.postgres
async def test_tables_are_made_again_in_a_database_that_was_made_anew(together: Together):
    """A replica need not be started again for that; it is told that everything is lost."""
    one, told = await together(), asyncio.Event()
    one.on_lapse(told.set)
    for table in ("records", "events", "replicas", "messages"):
        await one._do("execute", f"DROP TABLE ~{table}")
    await one.put("key", b"value", 60)
    assert await one.get("key") == b"value"
    async with asyncio.timeout(60):
        await told.wait()


@pytest.mark.postgres
async def test_a_database_that_stands_still_costs_no_more_than_the_patience(server: Postgres):
    """The operation ends with an error, and the next one works when the database does."""
    replica = PostgresCluster(server.address, prefix=next(PREFIXES), patience=1)
    await eventually(lambda: _joined(replica))
    server.stand_still()
    try:
        with pytest.raises(ClusterUnavailable, match="PostgreSQL did not do it"):
            await replica.get("key")
    finally:
        server.go_on()
    assert await eventually(lambda: is_served(replica))
    await replica.close()


@pytest.mark.postgres
async def test_a_sign_of_life_waits_for_no_removal(server: Postgres, monkeypatch: pytest.MonkeyPatch):
    """What has expired may be much, or another transaction may hold its table for longer than a lease."""
    prefix = next(PREFIXES)
    replica = PostgresCluster(server.address, prefix=prefix, patience=1)
    await eventually(lambda: _joined(replica))
    monkeypatch.setattr("antiphon.replicas.engines.postgres._SWEEP", 0.0)
    other = await asyncpg.connect(server.address)
    async with other.transaction():
        await other.execute(f"LOCK TABLE {prefix}_records")
        await replica.give_sign()
    await other.close()
    await replica.close()


async def _joined(replica: PostgresCluster) -> bool:
    await replica.open()
    return True


async def test_the_error_does_not_tell_the_password():
    """It would stand in a log; and before it has joined, a replica says that it has not."""
    replica = PostgresCluster("postgresql://antiphon:secret@127.0.0.1:1/none", patience=5)
    with pytest.raises(ClusterUnavailable) as caught:
        await replica.open()
    assert "secret" not in repr(caught.value)
    with pytest.raises(ClusterUnavailable, match="has not joined"):
        await replica.get("key")


def test_a_prefix_is_part_of_a_name():
    """It stands in statements."""
    with pytest.raises(ConfigError, match="prefix="):
        PostgresCluster("postgresql://x", prefix="a; drop")


@pytest.mark.postgres
@pytest.mark.parametrize("oldest", [1, 2])
async def test_what_a_newer_release_keeps_is_used_or_refused(server: Postgres, oldest: int):
    """As that release says, whose tables have more columns; who is refused learns both numbers, and what to do."""
    prefix = next(PREFIXES)
    newer, replica = (PostgresCluster(server.address, prefix=prefix, patience=20) for _ in range(2))
    await newer.open()
    await newer._do("execute", f"UPDATE ~revision SET revision = 2, oldest = {oldest}")
    for table in ("records", "events", "replicas", "messages"):
        await newer._do("execute", f"ALTER TABLE ~{table} ADD COLUMN more int NOT NULL DEFAULT 0")
    if oldest > 1:
        with pytest.raises(ConfigError, match=r"revision 2.*code of 2 or later, and this is 1\. Update.*prefix="):
            await replica.open()
    else:
        await replica.open()
        inbox = Inbox()
        replica.listen("topic", inbox)
        await replica.put("key", b"value", 60)
        await replica.append("stream", 0, b"event")
        await replica.send(replica.replica, "topic", b"message")
        await newer.publish("topic", b"to all")
        assert await replica.get("key") == b"value"
        assert await replica.after("stream", -1) == [(0, b"event")]
        assert {(await inbox.next())[1] for _ in range(2)} == {b"message", b"to all"}
        await replica.close()
    await newer.close()
