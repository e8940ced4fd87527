"""Both ends of a request that one replica receives and another serves, and what replicas keep for each other."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from antiphon.errors import ClusterUnavailable, InvalidParams
from antiphon.replicas.engines.base import Tallies
from antiphon.replicas.engines.unix import MemoryCluster
from antiphon.replicas.http import records, relay
from antiphon.replicas.http.records import KnownHomes, ReplicaCommons, SessionRecord, SessionRecords, SharedEvents
from antiphon.replicas.http.relay import Cut, Relays, give_up
from antiphon.transports.http.server.asgi import Http, send_unavailable
from tests.support.network import until
from tests.transports.http.server.driver import Open, Response, scope_of


def common(cluster: MemoryCluster) -> ReplicaCommons:
    """Return what replicas have in common, with a seal that only names what it is for."""

    def seal(data: bytes, purpose: bytes) -> bytes:
        return purpose + b"\n" + data

    def unseal(data: bytes, purpose: bytes) -> bytes:
        if not data.startswith(purpose + b"\n"):
            raise InvalidParams("sealed for another purpose")
        return data[len(purpose) + 1 :]

    return ReplicaCommons(
        cluster=cluster,
        name="shop",
        seal=seal,
        unseal=unseal,
        state_of=lambda peer: b"",
        restore=lambda peer, state, moved: None,
        tallies=Tallies(cluster, "tallies/shop", seal, unseal, time.monotonic),
    )


class Pair:
    """Two replicas: requests that arrive at the first are served by ``serve`` at the second."""

    def __init__(self, here: MemoryCluster, there: MemoryCluster) -> None:
        self.here, self.there = here, there
        self.served: asyncio.Queue[Http] = asyncio.Queue()
        self.done = asyncio.Event()
        self.cuts: list[Cut] = []
        self.from_here = Relays(common(here), self._never, "/mcp", None)
        self.at_home = Relays(common(there), self._serve, "/mcp", None)

    async def _never(self, http: Http, body: bytes | None) -> None:
        raise AssertionError("nothing is passed on to the first")

    async def _serve(self, http: Http, body: bytes | None) -> None:
        self.served.put_nowait(http)
        await self.done.wait()

    def open(self, body: bytes | None = None) -> Open:
        """Begin a request."""

        async def app(scope: Any, receive: Any, send: Any) -> None:
            http = Http(scope, receive, send)
            cut = await self.from_here.pass_on(self.there.replica, http, body)
            if cut is not None:
                self.cuts.append(cut)
                await give_up(http, cut, body)

        return Open(app, scope_of("POST", {}), [])

    async def begun(self) -> Http:
        """Wait until it is served."""
        async with asyncio.timeout(30):
            return await self.served.get()


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    """Make two replicas."""
    here = MemoryCluster()
    there = MemoryCluster(here)
    await here.open()
    await there.open()
    made = Pair(here, there)
    yield made
    made.done.set()
    await made.from_here.close()
    await made.at_home.close()
    await here.close()
    await there.close()


HEAD = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]}


def piece(data: bytes, *, more: bool = True) -> dict[str, Any]:
    """Make a part of a response."""
    return {"type": "http.response.body", "body": data, "more_body": more}


async def test_a_client_that_reads_slowly_holds_up_who_sends(pair: Pair, monkeypatch: pytest.MonkeyPatch):
    """What is under way between two replicas is bounded; once the client reads, the rest follows."""
    monkeypatch.setattr(relay, "_WINDOW", 10)
    read = asyncio.Event()
    response = Response()

    async def slowly(message: Any) -> None:
        await read.wait()
        await response.take(message)

    scope = scope_of("POST", {})
    never = asyncio.Event()

    async def receive() -> dict[str, Any]:
        await never.wait()
        return {"type": "http.disconnect"}

    passing = asyncio.ensure_future(pair.from_here.pass_on(pair.there.replica, Http(scope, receive, slowly), None))
    http = await pair.begun()
    await http.send(HEAD)
    await http.send(piece(b"12345678"))
    rest = asyncio.ensure_future(http.send(piece(b"9abc", more=False)))
    done, _ = await asyncio.wait((rest,), timeout=0)
    assert not done
    read.set()
    async with asyncio.timeout(30):
        await passing
        await rest
    assert response.body == b"123456789abc"


async def test_a_client_that_leaves_is_told_of_to_who_serves_it(pair: Pair):
    """There it looks as if its connection had closed; nothing more can be sent, and nobody waits here."""
    request = pair.open(b"{}")
    http = await pair.begun()
    request.disconnect()
    async with asyncio.timeout(30):
        assert await http.receive() == {"type": "http.disconnect"}
        await request.done()
    await http.send(HEAD)
    with pytest.raises(OSError, match="has left"):
        await http.send(piece(b"late"))


async def test_a_client_that_leaves_is_gone_before_the_engine_has_said_so(pair: Pair):
    """Its response does not go on at the home, which has ended it meanwhile and says so first."""
    request = pair.open(b"{}")
    await pair.begun()
    send, told, over = pair.here.send, asyncio.Event(), asyncio.Event()

    async def slowly(replica: str, topic: str, data: bytes) -> None:
        await send(replica, topic, data)
        told.set()
        await over.wait()

    pair.here.send = slowly
    request.disconnect()
    async with asyncio.timeout(30):
        await told.wait()
    pair.done.set()
    await request.done()
    over.set()
    assert pair.cuts == []


async def test_a_lost_message_ends_the_response(pair: Pair):
    """Half of a stream would make no sense."""
    request = pair.open(b'{"jsonrpc": "2.0", "id": 7, "method": "ping"}')
    http = await pair.begun()
    await http.send(HEAD)
    await http.send(piece(b"data: 1\n\n"))
    await request.response.until(b"1")
    there, pair.there.send = pair.there.send, _lose
    await http.send(piece(b"data: 2\n\n"))
    pair.there.send = there
    await http.send(piece(b"data: 3\n\n"))
    response = await request.done()
    assert b"data: 3" not in response.body
    assert b'"id":7,"error"' in response.body


async def _lose(replica: str, topic: str, data: bytes) -> None:
    """Send nothing."""


async def test_a_request_that_its_home_knows_nothing_of_is_given_up(pair: Pair):
    """After silence the home is asked; it may have missed the request."""
    asked = asyncio.Event()
    send = pair.here.send

    async def lose(replica: str, topic: str, data: bytes) -> None:
        asked.set()

    pair.here.send = lose
    request = pair.open(b'{"jsonrpc": "2.0", "id": 7, "method": "ping"}')
    async with asyncio.timeout(30):
        await asked.wait()
    pair.here.send = send
    [passed] = pair.from_here._passed.values()
    passed.heard -= 1.5 * relay._SILENCE
    await pair.from_here._ask_after_silent()
    assert (await request.done()).json["error"]["code"] == -32603


async def test_a_request_that_nobody_asks_after_ends_where_it_is_served(pair: Pair):
    """The replica that it came from was killed, or has given it up; it would stay open there for ever."""
    pair.open(b"{}")
    http = await pair.begun()
    [served] = pair.at_home._served.values()
    pair.here.die()
    served.heard -= 60
    async with asyncio.timeout(30):
        assert await http.receive() == {"type": "http.disconnect"}


async def test_a_request_that_is_asked_after_stays_open(pair: Pair):
    """However long nothing happens on it."""
    request = pair.open(b"{}")
    http = await pair.begun()
    [passed], [served] = pair.from_here._passed.values(), pair.at_home._served.values()
    before, passed.heard = served.heard, passed.heard - 1.5 * relay._SILENCE
    await until(lambda: served.heard > before)
    await http.send(HEAD)
    await http.send(piece(b"{}", more=False))
    assert (await request.done()).status == 200


async def test_many_silent_requests_cost_one_question_for_each_home(pair: Pair, monkeypatch: pytest.MonkeyPatch):
    """All that are served there go on; those that are asked after soon anyway are asked after at once."""
    requests, served, told = [], [], list[bytes]()
    for _ in range(5):
        requests.append(pair.open(b"{}"))
        served.append(await pair.begun())
    for passed, silence in zip(pair.from_here._passed.values(), (1.2, 0.9, 0.8, 0.6, 0.1), strict=True):
        passed.heard -= silence * relay._SILENCE
    send = pair.here.send

    async def note(replica: str, topic: str, data: bytes) -> None:
        told.append(data)
        await send(replica, topic, data)

    monkeypatch.setattr(pair.here, "send", note)
    await pair.from_here._ask_after_silent()
    await until(lambda: not any(each.is_asked for each in pair.from_here._passed.values()))
    assert len(told) == 1
    for request, http in zip(requests, served, strict=True):
        await http.send(HEAD)
        await http.send(piece(b"{}", more=False))
        assert (await request.done()).status == 200


async def test_what_is_under_way_when_a_home_is_asked_is_waited_for(pair: Pair):
    """A part may arrive after its home has told of it; if it is not there at the next question, it is lost."""
    request = pair.open(b"{}")
    http = await pair.begun()
    [passed] = pair.from_here._passed.values()
    there, pair.there.send = pair.there.send, _lose
    await http.send(HEAD)
    await http.send(piece(b"late"))
    pair.there.send = there
    passed.heard -= 1.2 * relay._SILENCE
    await pair.from_here._ask_after_silent()
    await until(lambda: not passed.is_asked)
    assert not passed.is_lost
    await pair.from_here._ask_after_silent()
    await until(lambda: passed.is_lost)
    await request.done()


async def test_a_replica_that_has_just_spoken_is_not_asked_after(pair: Pair, monkeypatch: pytest.MonkeyPatch):
    """It lives: the engine has no part in it."""
    request = pair.open(b"{}")
    http = await pair.begun()
    [passed] = pair.from_here._passed.values()
    assert not pair.from_here.has_spoken(passed.home)
    await http.send(HEAD)
    await http.send(piece(b"1"))
    await request.response.until(b"1")
    assert pair.from_here.has_spoken(passed.home)
    await http.send(piece(b"2", more=False))
    await request.done()


async def test_a_handler_that_fails_ends_the_response(pair: Pair):
    """Whoever waits for it need not ask."""
    request = pair.open()
    await pair.begun()
    pair.done.set()
    assert (await request.done()).status == 503


async def test_a_message_for_another_replica_is_not_taken(pair: Pair, caplog: pytest.LogCaptureFixture):
    """It is bound to its two replicas: who can write to the engine cannot replay it elsewhere."""
    sealed = common(pair.here).seal(b"anything", common(pair.here).purpose("relay", "x", "y"))
    pair.at_home._deliver(pair.here.replica, sealed)
    assert "cannot be read" in caplog.text
    assert pair.served.empty()


@pytest.fixture
async def events(pair: Pair) -> AsyncIterator[SharedEvents]:
    """Keep events in the engine of the pair."""
    made = SharedEvents(common(pair.here))
    yield made
    await made.close()


async def test_what_cannot_be_stored_is_stored_later(
    pair: Pair, events: SharedEvents, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    """The log says so once; until then whoever resumes the stream here gets it nevertheless."""
    monkeypatch.setattr(records, "_PAUSE", 0.001)
    await events.append("s/1", 1, b"one")
    pair.here.reachable(False)
    await events.append("s/1", 2, b"two")
    await events.append("s/1", 3, b"three")
    assert caplog.text.count("cannot be stored") == 1
    pair.here.reachable(True)
    await pair.here.append("s/1", 4, b"not sealed")
    assert await events.after("s/1", 1) == [(2, b"two"), (3, b"three")]
    assert events._storing is not None
    async with asyncio.timeout(30):
        await events._storing
    elsewhere = SharedEvents(common(pair.there))
    assert await elsewhere.after("s/1", 1) == [(2, b"two"), (3, b"three")]


async def test_nobody_waits_twice_for_an_engine_that_hangs(
    pair: Pair, events: SharedEvents, monkeypatch: pytest.MonkeyPatch
):
    """Each attempt costs its whole patience: the second event does not begin with one."""
    attempts = 0

    async def hang(stream: str, number: int, data: bytes) -> None:
        nonlocal attempts
        attempts += 1
        raise ClusterUnavailable("it hangs")

    monkeypatch.setattr(pair.here, "append", hang)
    await events.append("s/1", 1, b"one")
    before = attempts
    await events.append("s/1", 2, b"two")
    assert (before, attempts) == (1, 1)


async def test_what_waits_for_the_engine_is_bounded(pair: Pair, events: SharedEvents, monkeypatch: pytest.MonkeyPatch):
    """The oldest events are dropped, and a stream that has ended waits no longer."""
    monkeypatch.setattr(records, "MAX_LATE", 1_000)
    pair.here.reachable(False)
    for number in range(10):
        await events.append("s/1", number, b"x" * 100)
        await events.append("s/2", number, b"x" * 100)
    assert 1 <= len(events._late) <= 4
    await events.forget("s/1")
    assert {stream for stream, _ in events._late} == {"s/2"}
    await events.forget("s/2")
    assert (events._late, events._late_bytes) == ({}, 0)


async def test_a_record_that_cannot_be_read_is_none(pair: Pair, caplog: pytest.LogCaptureFixture):
    """As when a replica has other keys."""
    kept = SessionRecords(common(pair.here), 60)
    await pair.here.put(kept._key(b"id"), b"not sealed", 60)
    assert await kept.find(b"id") is None
    assert "same keys" in caplog.text


async def test_where_a_session_lives_is_known_to_its_principal_for_a_moment(monkeypatch: pytest.MonkeyPatch):
    """Nobody else learns that there is one."""
    homes, record = KnownHomes(), SessionRecord("first", "ann", None, "key", 0, b"")
    homes.note(b"id", record)
    assert (homes.of(b"id", "ann"), homes.of(b"id", "eve"), homes.of(b"other", None)) == ("first", None, None)
    monkeypatch.setattr(records, "KNOWN_FOR", 0)
    homes.note(b"id", record)
    assert homes.of(b"id", "ann") is None


async def test_homes_of_so_many_sessions_are_known(monkeypatch: pytest.MonkeyPatch):
    """The one that was found first is looked up again."""
    monkeypatch.setattr(records, "MAX_HOMES", 2)
    homes = KnownHomes()
    for id, home in ((b"a", "first"), (b"b", "first"), (b"a", "second"), (b"c", "first")):
        homes.note(id, SessionRecord(home, None, None, "key", 0, b""))
    assert [homes.of(id, None) for id in (b"a", b"b", b"c")] == ["second", None, "first"]


async def test_a_replica_that_stops_sends_the_ends_of_its_responses_first(pair: Pair, monkeypatch: pytest.MonkeyPatch):
    """They are on their way to an engine that takes its time; without them others would take them for cut."""
    may_send, sends, send = asyncio.Event(), asyncio.Event(), pair.there.send

    async def slow(replica: str, topic: str, data: bytes) -> None:
        sends.set()
        await may_send.wait()
        await send(replica, topic, data)

    async def refuse(http: Http, body: bytes | None) -> None:
        await send_unavailable(http, "leaves")

    monkeypatch.setattr(relay, "_ENDING", 30)
    monkeypatch.setattr(pair.there, "send", slow)
    monkeypatch.setattr(pair.at_home, "_serve", refuse)
    request = pair.open(b"{}")
    await sends.wait()
    closing = asyncio.ensure_future(pair.at_home.close())
    await asyncio.sleep(0)
    may_send.set()
    await closing
    await request.done()
    assert pair.cuts == [Cut(is_refused=True)]
