"""Replicas of a server that share a cluster: in memory, and on a real Redis."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
from msgspec import structs

from antiphon import Server
from antiphon.errors import ClusterUnavailable, ConfigError
from antiphon.machine.state_store import MemoryStateStore
from antiphon.replicas import replica_server
from antiphon.replicas.http import membership, records, relay
from antiphon.server import MemoryCluster, RedisCluster
from antiphon.server.serving.network import _check_workers
from antiphon.transports.http.server.legacy_session import LegacySession
from tests.replicas.replicated import Kill, Replicated, Trio, trio
from tests.support.network import until
from tests.support.redis import OwnRedis, own_redis
from tests.transports.http.server.driver import ask

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
            await cluster._redis.delete(cluster._key("alive", cluster.replica))

        return die


async def test_the_engine_learns_no_secret(trio: Trio):
    """Neither tokens nor ids of sessions nor what is said stand in it, in keys or values."""
    await trio.open(0)
    call = trio.call(0, "describe", product="secret-hat")
    await call.response.until(b"sampling/createMessage")
    shared = trio.replicas[0].cluster._shared
    kept = repr((vars(shared.records), shared.events))
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
    first._shared.members[name] = first
    for lapse in list(first._lapses):
        lapse()
    await trio.replicas[0].app._endpoint.homes._recorder
    assert trio.replicas[0].app._endpoint.sessions.all() == []
    assert (await trio.call(0, "whoami").done()).json["result"]


async def test_a_session_that_could_not_be_restored_is_restored_later(trio: Trio, monkeypatch: pytest.MonkeyPatch):
    """Its record names a replica that does not have it: that one makes up for it, whoever asks."""
    await trio.open(0)
    restore, tried = LegacySession.restore_standing, list[LegacySession]()

    async def fail_once(session: LegacySession) -> None:
        tried.append(session)
        if len(tried) == 1:
            raise ClusterUnavailable("not now")
        await restore(session)

    monkeypatch.setattr(LegacySession, "restore_standing", fail_once)
    await trio.die(0)
    assert (await trio.call(1, "whoami").done()).status == 503
    assert tried[0].peer.is_over, "nothing of the first attempt is left"
    assert (await trio.call(2, "whoami").done()).json["result"]
    assert (await trio.call(1, "whoami", id=2).done()).json["result"]


async def test_a_request_that_waits_for_its_session_to_leave_goes_on_when_that_has_ended(trio: Trio):
    """The client has deleted the session, so it never leaves."""
    await trio.open(0)
    call = trio.call(0, "describe", product="hat")
    await call.response.until(b"sampling/createMessage")
    stopping = asyncio.ensure_future(trio.replicas[0].app.drain(30))
    home = trio.replicas[0].app._endpoint
    await until(lambda: home._draining)
    later = trio.call(0, "whoami", id=5)
    await until(lambda: home.homes._released)
    assert (await ask(trio.replicas[0].app, "DELETE", **trio.headers())).status == 204
    assert (await later.done()).status == 404
    await stopping


async def test_a_call_that_a_stopping_replica_gives_up_does_not_end_its_session(trio: Trio):
    """The status of its response would say so, if it were 404."""
    await trio.open(0)
    held = trio.replicas[0].hold()
    call = trio.call(0, "look_up", product="hat")
    await held.wait()
    await trio.replicas[0].app._endpoint.close()
    assert (await call.done()).status == 503
    await trio.replicas[0].app.close()
    assert (await trio.call(1, "whoami").done()).json["result"]


async def test_a_request_for_a_session_that_moves_on_finds_it(trio: Trio, monkeypatch: pytest.MonkeyPatch):
    """It was passed on to a replica where the session lives no more."""
    await trio.open(0)
    kept = trio.replicas[1].app._endpoint.homes._records
    find, stale = kept.find, [trio.replicas[2].cluster.replica]

    async def found(id: bytes) -> Any:
        record, stored = await find(id)
        return (structs.replace(record, home=stale.pop()) if stale else record), stored

    monkeypatch.setattr(kept, "find", found)
    assert (await trio.post(1, {"id": 3, "method": "tools/list"})).json["result"]["tools"]
    assert stale == []


@pytest.fixture
def long_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let replicas remember where sessions live for as long as a test takes."""
    monkeypatch.setattr(records, "KNOWN_FOR", 3_600)
    monkeypatch.setattr(relay, "LEASE", 1e9)


@pytest.mark.usefixtures("long_known")
async def test_a_session_that_was_found_is_not_looked_up_again(trio: Trio, monkeypatch: pytest.MonkeyPatch):
    """Many requests of one cost the engine one lookup in all, and their messages."""
    await trio.open(0)
    asked: list[str] = []

    def count(cluster: MemoryCluster, name: str) -> None:
        operation = getattr(cluster, name)

        async def counted(*given: Any) -> Any:
            asked.append(name)
            return await operation(*given)

        monkeypatch.setattr(cluster, name, counted)

    for at, names in ((0, ["send"]), (1, ["get", "is_alive", "send"])):
        for name in names:
            count(trio.replicas[at].cluster, name)
    for number in range(20):
        assert (await trio.call(1, "whoami", id=number).done()).json["result"]
    # On a busy machine a call takes long enough for its home to be asked whether it still serves it: further messages.
    assert (asked.count("get"), asked.count("is_alive"), asked.count("send") >= 40) == (1, 1, True)


@pytest.mark.usefixtures("long_known")
async def test_others_are_refused_where_a_session_was_found(trio: Trio):
    """Also a moment after its principal was served there."""
    await trio.open(0)
    assert (await trio.call(1, "whoami").done()).json["result"]
    assert (await trio.post(1, {"id": 5, "method": "tools/list"}, "eve")).status == 404


@pytest.mark.usefixtures("long_known")
async def test_a_call_finds_a_session_that_has_left_since_it_was_found(trio: Trio):
    """Its replica refuses, and may not be repeated otherwise; so it runs once, and has its result."""
    await trio.open(0)
    assert (await trio.call(1, "whoami").done()).json["result"]
    await trio.replicas[0].app.drain(30)
    assert (await trio.call(1, "whoami", id=2).done()).json["result"]["content"][0]["text"] == "ann blue"
    assert [len(each.app._endpoint.sessions) for each in trio.replicas] == [0, 1, 0]


@pytest.mark.usefixtures("long_known")
async def test_a_replica_that_stops_stays_until_no_other_remembers_its_sessions(
    trio: Trio, monkeypatch: pytest.MonkeyPatch
):
    """It refuses what is passed on to it; if it were gone, a call that may not run twice would end with an error."""
    await trio.open(0)
    assert (await trio.call(1, "whoami").done()).json["result"]
    home = trio.replicas[0].app._endpoint
    with monkeypatch.context() as patch:
        patch.setattr(membership, "_STAYS", 3_600)
        stopping = asyncio.ensure_future(home.close())
        await until(lambda: home.homes._relays._is_closed)
        assert (await trio.call(1, "whoami", id=2).done()).json["result"]["content"][0]["text"] == "ann blue"
        assert not stopping.done()
    stopping.cancel()
    await asyncio.wait((stopping,))


@pytest.mark.usefixtures("long_known")
async def test_a_call_finds_a_session_that_has_moved_since_it_was_found(trio: Trio):
    """Its replica was taken for dead, and says that it has the session no more: nothing was begun there."""
    await trio.open(0)
    assert (await trio.call(1, "whoami").done()).json["result"]
    first = trio.replicas[0].cluster
    await trio.die(0)
    assert (await trio.call(2, "whoami", id=2).done()).json["result"]
    first._shared.members[first.replica] = first
    for lapse in list(first._lapses):
        lapse()
    await trio.replicas[0].app._endpoint.homes._recorder
    assert trio.replicas[0].app._endpoint.sessions.all() == []
    assert (await trio.call(1, "whoami", id=3).done()).json["result"]["content"][0]["text"] == "ann blue"


async def test_a_request_to_a_replica_that_has_died_since_goes_on_if_it_may(
    trio: Trio, monkeypatch: pytest.MonkeyPatch
):
    """The replica may have begun it, for all that is known: so it has no second run unless that does no harm."""
    monkeypatch.setattr(records, "KNOWN_FOR", 3_600)
    await trio.open(0)
    assert (await trio.call(1, "whoami").done()).json["result"]
    relays = trio.replicas[1].app._endpoint.homes._relays
    trio.replicas[0].cluster.die()
    listing = trio.begin(1, {"id": 2, "method": "tools/list"})
    call = trio.call(1, "describe", id=3, product="hat")
    await until(lambda: len(relays._passed) == 2)
    relays._spoken.clear()
    assert (await listing.done()).json["result"]["tools"]
    assert "has stopped" in (await call.done()).json["error"]["message"]
    assert sum(each.runs for each in trio.replicas) == 0


async def test_no_token_is_passed_on(trio: Trio):
    """It is checked where it arrives; who has sent the request is told instead."""
    await trio.open(0)
    relays, cluster = trio.replicas[0].app._endpoint.homes._relays, trio.replicas[0].cluster
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


async def test_sessions_outlive_an_engine_that_has_lost_everything(trio: Trio):
    """Until they are recorded again it is not known whether a session lives: that is no "session not found"."""
    await trio.open(0)
    first = trio.replicas[0].cluster
    first._shared.records = MemoryStateStore()
    other = trio.replicas[1].cluster
    del first._shared.members[other.replica]
    unsure = await trio.call(1, "whoami").done()
    assert (unsure.status, unsure.headers["retry-after"]) == (503, "5")
    first._shared.members[other.replica] = other
    for lapse in list(first._lapses):
        lapse()
    await trio.replicas[0].app._endpoint.homes._recorder
    assert (await trio.call(1, "whoami").done()).json["result"]


async def test_what_a_client_changes_while_the_engine_is_gone_is_recorded_later(
    trio: Trio, monkeypatch: pytest.MonkeyPatch
):
    """The replica it lives in may die afterwards: another goes on with all that was agreed."""
    monkeypatch.setattr(membership, "LEASE", 0.004)
    await trio.open(0)
    trio.replicas[0].cluster.reachable(False)
    for number, uri in enumerate(("catalogue://hat", "catalogue://coat")):
        subscribed = await trio.post(0, {"id": number, "method": "resources/subscribe", "params": {"uri": uri}})
        assert subscribed.json["result"] == {}
    trio.replicas[0].cluster.reachable(True)
    async with asyncio.timeout(30):
        await trio.replicas[0].app._endpoint.homes._recorder
    await trio.die(0)
    assert (await trio.call(1, "whoami").done()).json["result"]
    subscriptions = trio.replicas[1].server._service.subscriptions
    [session] = trio.replicas[1].app._endpoint.sessions.all()
    assert sorted(subscriptions.of(session.peer)) == ["catalogue://coat", "catalogue://hat"]


async def test_a_change_is_told_when_the_engine_works_again(trio: Trio, monkeypatch: pytest.MonkeyPatch):
    """Once, however often it has changed meanwhile."""
    monkeypatch.setattr(replica_server, "_PAUSE", 0.001)
    await trio.open(0)
    heard: list[tuple[str, str]] = []
    arrived = asyncio.Event()

    def noticed(kind: str, uri: str) -> None:
        heard.append((kind, uri))
        if uri.endswith("last"):
            arrived.set()

    other = trio.replicas[1]
    await trio.post(1, {"id": 5, "method": "ping"})
    monkeypatch.setattr(other.server._service.replicas, "_noticed", noticed)
    trio.replicas[0].cluster.reachable(False)
    for uri in ("catalogue://hat", "catalogue://hat", "catalogue://last"):
        trio.replicas[0].server.resource_updated(uri)
        await asyncio.sleep(0)
    trio.replicas[0].cluster.reachable(True)
    async with asyncio.timeout(30):
        await arrived.wait()
    assert heard == [("resource", "catalogue://hat"), ("resource", "catalogue://last")]


async def test_a_change_that_was_told_late_is_told_again(trio: Trio, monkeypatch: pytest.MonkeyPatch):
    """An engine that was started again may not have known who is to be told."""
    monkeypatch.setattr(replica_server, "_PAUSE", 0.001)
    monkeypatch.setattr(replica_server, "LEASE", 0.002)
    cluster, served = trio.replicas[0].cluster, trio.replicas[0].server._service.replicas
    await trio.open(0)
    told, twice = list[str](), asyncio.Event()

    async def publish(topic: str, data: bytes) -> None:
        told.append(topic)
        if len(told) == 2:
            twice.set()

    cluster.reachable(False)
    trio.replicas[0].server.resource_updated("catalogue://hat")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    monkeypatch.setattr(cluster, "publish", publish)
    cluster.reachable(True)
    async with asyncio.timeout(30):
        await twice.wait()
    assert told == [served._topic] * 2


async def test_a_key_that_was_made_is_stored_again():
    """The engine has lost it, and a replica that is started next must have the same."""
    cluster = MemoryCluster()
    served = Server("shop", cluster=cluster)._service.replicas
    assert served is not None
    async with served.joined():
        key = await cluster.get("key/shop")
        await cluster.delete("key/shop")
        for lapse in list(cluster._lapses):
            lapse()
        assert served._storing_key is not None
        await served._storing_key
        assert key is not None
        assert await cluster.get("key/shop") == key
