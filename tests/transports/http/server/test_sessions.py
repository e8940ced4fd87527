"""The table of sessions: a cap, and an end for those nobody uses."""

from __future__ import annotations

import asyncio
import itertools

from antiphon.transports.http.server.sessions import Sessions
from tests.transports.http.server.driver import begin, closing, post
from tests.transports.http.server.fakes import Bench, call, initialize


class Idle:
    """A session as the table sees it."""

    def __init__(self, id, principal=None):
        self.id = id
        self.principal = principal
        self.used = 0.0
        self.is_busy = self.is_awaited = False
        self.peer = self
        self.is_over = False
        self.ended = asyncio.Event()

    async def close(self):
        self.is_over = True
        self.ended.set()


async def test_a_session_that_nobody_uses_is_ended():
    """After the idle timeout."""
    sessions = Sessions(10, 0.01)
    session = Idle(b"a")
    sessions.add(session)
    async with asyncio.timeout(30):
        await session.ended.wait()
    assert sessions.find(b"a", None) is None
    assert len(sessions) == 0
    await sessions.close()


async def test_a_session_that_is_busy_is_not():
    """However long that takes."""
    sessions = Sessions(10, 0.0)
    busy, idle = Idle(b"a"), Idle(b"b")
    busy.is_busy = True
    sessions.add(busy)
    sessions.add(idle)
    async with asyncio.timeout(30):
        await idle.ended.wait()
    assert not busy.is_over
    await sessions.close()
    assert busy.is_over


async def test_a_session_whose_peer_has_ended_is_gone():
    """Its client is told 404 and opens another."""
    sessions = Sessions(10, 60)
    session = Idle(b"a")
    sessions.add(session)
    session.is_over = True
    assert sessions.find(b"a", None) is None
    await sessions.close()


async def test_the_number_of_sessions_is_bounded():
    """One that is over makes room."""
    sessions = Sessions(1, 60)
    session = Idle(b"a")
    sessions.add(session)
    assert sessions.is_full(None)
    session.is_over = True
    assert not sessions.is_full(None)
    await sessions.close()


async def test_a_client_beyond_the_bound_is_told_to_come_back():
    """503, and those that have a session are served on."""
    bench = Bench(max_sessions=1)
    async with closing(bench.app) as app:
        opened = await post(app, initialize())
        assert (await post(app, initialize())).status == 503
        served = await post(app, call("echo"), mcp_session_id=opened.headers["mcp-session-id"])
    assert served.status == 200


async def test_a_session_in_use_outlives_the_timeout():
    """A call that waits keeps it."""
    bench = Bench(idle_timeout=0.0)
    async with closing(bench.app) as app:
        opened = await post(app, initialize())
        waiting = begin(app, call("wait"), mcp_session_id=opened.headers["mcp-session-id"])
        await bench.waiting.wait()
        app.sessions._sweep()
        bench.peer.go.set()
        assert (await waiting.done()).json["result"] == "waited"


async def test_a_principal_has_a_share():
    """One that opens session after session leaves places for others; alone, it may have half of them."""
    sessions = Sessions(8, 60)
    for number in range(8):
        if not sessions.is_full("greedy"):
            sessions.add(Idle(b"g%d" % number, "greedy"))
    assert len(sessions) == 4
    assert not sessions.is_full("modest")
    sessions.add(Idle(b"m", "modest"))
    assert not sessions.is_full("modest")
    assert not sessions.is_full(None)
    for number in range(3):
        await sessions.remove(sessions.find(b"g%d" % number, "greedy"))
    assert not sessions.is_full("greedy")
    await sessions.close()
    assert sessions._owned == {}


async def test_one_principal_does_not_take_all_sessions():
    """Over HTTP: it gets a 503, and somebody else a session."""
    bench = Bench(max_sessions=8, check_token={"g": "greedy", "m": "modest"}.get)
    async with closing(bench.app) as app:
        greedy = [(await post(app, initialize(), authorization="Bearer g")).status for _ in range(8)]
        modest = await post(app, initialize(), authorization="Bearer m")
    assert greedy == [200] * 4 + [503] * 4
    assert modest.status == 200


NUMBERS = itertools.count()


def told(*tables: Sessions) -> None:
    """Let replicas tell each other what they have, all at the same moment."""
    counts = [table.counts() for table in tables]
    for table in tables:
        for number, count in enumerate(counts):
            if tables[number] is not table:
                table.heard(str(number), count)


def filled(table: Sessions, principal: str | None, most: int = 1_000) -> int:
    """Open sessions until there is no place; return how many."""
    for number in range(most):
        if table.is_full(principal):
            return number
        table.add(Idle(b"%d" % next(NUMBERS), principal))
    return most


async def test_the_places_are_those_of_all_replicas():
    """What is free is shared out: however many come at once, and wherever, the bound holds but for a rounding."""
    tables = [Sessions(100, 60) for _ in range(3)]
    for each in tables:
        each.sharers = lambda: 3
    told(*tables)
    assert filled(tables[0], None) == 34
    told(*tables)
    assert [filled(each, None) for each in tables] == [22, 22, 22]
    told(*tables)
    assert [filled(each, None) for each in tables] == [0, 0, 0]
    assert sum(map(len, tables)) <= 102
    [gone, *_] = tables[1].all()
    await tables[1].remove(gone)
    assert filled(tables[1], None) == 1
    tables[0].left("1")
    assert filled(tables[0], None) > 0
    for each in tables:
        await each.close()


async def test_a_principal_has_one_share_at_all_replicas_together():
    """It does not get another at each."""
    tables = [Sessions(400, 60) for _ in range(2)]
    for each in tables:
        each.sharers = lambda: 2
    told(*tables)
    filled(tables[0], "greedy", 60)
    filled(tables[1], "others", 60)
    for number, table in enumerate(tables):
        filled(table, f"one-{number}", 50)
    told(*tables)
    assert filled(tables[1], "greedy") == 20
    assert filled(tables[0], "greedy") == 20
    told(*tables)
    assert [filled(each, "greedy") for each in tables] == [0, 0]
    assert filled(tables[0], "modest", 3) == 3
    for each in tables:
        await each.close()


async def test_sessions_that_are_being_opened_count():
    """Many at once would all find the last place free."""
    sessions = Sessions(1, 60)
    with sessions.opening("ann"):
        assert sessions.is_full(None)
    assert not sessions.is_full(None)
    await sessions.close()
