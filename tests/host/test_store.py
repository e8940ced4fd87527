"""Stores in a database: where they are, who may read them, what they do after a crash."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import Connection, select

from antiphon.errors import ConfigError
from antiphon.host import Host, Scripted
from antiphon.host.budget import Amount, Cap
from antiphon.host.store import MemoryStore, open_store, usual_store
from antiphon.host.store.base import Change, Decided, GrantRow, Settlement
from antiphon.host.store.chain import Head
from antiphon.host.store.recovery import BEATS, LEASE, name_process
from antiphon.host.store.sql_store import SqlStore
from antiphon.host.store.store_location import state_folder
from antiphon.host.store.tables import hosts
from antiphon.sql.runner import PostgresRunner, SqliteRunner
from tests.host.asks import origin, request
from tests.host.store.stores import DURABLE, Place, hold, record, review, ticket


@pytest.fixture(params=DURABLE)
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    """Give each test a place of its own, of each kind."""
    async with Place(request.param, tmp_path) as place:
        yield place


async def killed(place: Place, *changes: Change, reviews: bool = False, name: str | None = None) -> str:
    """Do something as a process that does not close its store. Returns its name."""
    store = place.make()
    assert isinstance(store, SqlStore)
    if name is not None:
        await store.recover()
        store.host = name
        await store.recover()
    for change in changes:
        assert await store.commit(change) is None
    if reviews:
        await store.put_review(review("pending", host=store.host, fingerprint="1"))
        await store.put_review(review("decided", host=store.host, fingerprint="2"))
        await store.decide([Decided(id="decided", decision="1")])
        await store.add_grant(GrantRow(id="session", identity="x", body="{}", given=1.0, host=store.host))
        await store.add_grant(GrantRow(id="always", identity="x", body="{}", given=2.0))
    store._heart.cancel()
    await store._runner.aclose()
    return store.host


async def test_everything_outlives_the_process(place: Place):
    """Closed and opened again, it is all there."""
    async with place.open() as store:
        await store.commit(Change(hold=hold(), records=(record(),)))
        await store.commit(Change(settle=Settlement(id="h", amount=Amount(money=4, tokens=2)), records=(record(),)))
        await store.add_grant(GrantRow(id="g", identity="x", body="{}", given=1.0, max_uses=5))
        await store.commit(Change(use="g"))
        head = await store.head()
    async with place.open() as store:
        assert [balance.spent for balance in await store.balances()] == [Amount(money=4, tokens=2)]
        assert [(row.id, row.used) for row in await store.grants()] == [("g", 1)]
        assert (await store.head(), len(await store.entries())) == (head, 2)


async def test_what_was_not_sent_is_given_back(place: Place):
    """Of a killed process, once its lease has ended; and the audit says so."""
    await killed(place, Change(hold=hold()))
    async with place.open() as store:
        assert len(await store.holds()) == 1
        assert await place.outlast(store) == 1
        assert (await store.holds(), [balance.held for balance in await store.balances()]) == ([], [Amount()])
        [entry] = await store.entries()
        assert (entry.record.step, entry.record.outcome, entry.record.ask) == ("recovered", "released", "1")
        assert await store.recover() == 0


@pytest.mark.parametrize("later", [False, True])
async def test_what_was_sent_counts_as_spent(place: Place, later: bool):
    """Nobody knows what the provider took: the worst case."""
    changes = (Change(hold=hold()), Change(send="h")) if later else (Change(hold=hold(sent=True)),)
    await killed(place, *changes)
    async with place.open() as store:
        await place.outlast(store)
        assert [balance.spent for balance in await store.balances()] == [Amount(money=10, tokens=5)]
        [entry] = await store.entries()
        assert (entry.record.outcome, entry.record.money, entry.record.input_tokens) == ("counted", 10, 5)


async def test_a_question_without_an_end_does_not_wait_for_ever(place: Place):
    """Its server may never ask again; while a process waits for it, it has as much time as it likes."""
    store = place.make()
    assert isinstance(store, SqlStore)
    await store.put_review(review(host=store.host, expires=None))
    store._heart.cancel()
    await store._runner.aclose()
    async with place.open() as other:
        for seconds, state in ((0.0, "pending"), (LEASE, "pending"), (23 * 3600.0, "pending"), (3600.0, "expired")):
            place.clock.now += seconds
            await place.outlast(other)
            row = await other.review("r")
            assert row is not None
            assert row.state == state


def ended() -> int:
    """Return the number of a process that was."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


async def test_a_process_that_runs_no_more_is_not_waited_for(place: Place):
    """One of this machine that was killed: the next one puts in order at once what it left."""
    await killed(place, Change(hold=hold()), name=f"{name_process().rpartition('-')[0]}-{ended()}")
    async with place.open() as store:
        assert await store.holds() == []


async def test_a_living_process_keeps_what_it_holds(place: Place):
    """Whoever else opens the store, and however late its own clock is."""
    async with place.open() as mine:
        await mine.commit(Change(hold=hold()))
        async with place.open() as other:
            for _ in range(3 * BEATS):
                place.clock.now += LEASE / BEATS
                assert (await mine.recover(), await other.recover()) == (0, 0)
            assert [row.host for row in await other.holds()] == [mine.host]


@pytest.mark.parametrize("ahead", [-60.0, 60.0, 1e9])
async def test_a_neighbour_whose_clock_is_wrong_sweeps_nothing(place: Place, ahead: float):
    """It looks whether a mark moves, not at which time it is from."""
    wrong = place.make(lambda: place.clock.now + ahead)
    async with place.open() as mine:
        await mine.commit(Change(hold=hold()))
        for _ in range(3 * BEATS):
            place.clock.now += LEASE / BEATS
            assert (await mine.recover(), await wrong.recover()) == (0, 0)
        assert [row.host for row in await wrong.holds()] == [mine.host]
    await wrong.aclose()


async def test_a_clock_that_stands_still_is_seen_to_live(place: Place):
    """The mark moves with each sign of life, whatever the time is."""
    frozen = place.make(lambda: 1_000_000.0)
    await frozen.commit(Change(hold=hold()))
    async with place.open() as other:
        for _ in range(2 * BEATS):
            place.clock.now += LEASE / BEATS
            assert (await frozen.recover(), await other.recover()) == (0, 0)
        assert len(await other.holds()) == 1
    await frozen.aclose()


async def test_what_another_gave_back_cannot_be_sent(place: Place):
    """The process stood still for longer than its lease: it is told, and nothing of the change happens."""
    async with place.open() as slow, place.open() as other:
        await slow.commit(Change(hold=hold()))
        assert await place.outlast(other) == 1
        assert await slow.commit(Change(send="h", records=(record("generate"),))) == "hold"
        assert [entry.record.step for entry in await slow.entries()] == ["recovered"]


async def test_a_late_settlement_of_what_was_given_back_is_charged(place: Place):
    """In full, once, and its record says that it came late."""
    async with place.open() as slow, place.open() as other:
        await slow.commit(Change(hold=hold()))
        assert await place.outlast(other) == 1
        used = record("settled", "used", money=7, input_tokens=1, output_tokens=2)
        settling = Change(settle=Settlement(id="h", amount=Amount(money=7, tokens=3)), records=(used,))
        for _ in range(2):
            assert await slow.commit(settling) is None
        assert [balance.spent for balance in await slow.balances()] == [Amount(money=7, tokens=3)]
        said = [entry.record for entry in await slow.entries() if entry.record.step == "settled"]
        assert [(each.outcome, each.money, each.input_tokens, each.output_tokens) for each in said] == [
            ("late", 7, 1, 2),
            ("late", None, None, None),
        ]


async def test_a_late_settlement_that_is_over_the_worst_case_charges_the_rest(place: Place):
    """What was sent was counted with its worst case already."""
    async with place.open() as slow, place.open() as other:
        await slow.commit(Change(hold=hold(sent=True)))
        assert await place.outlast(other) == 1
        used = record("settled", "used", money=12, input_tokens=4, output_tokens=4)
        await slow.commit(Change(settle=Settlement(id="h", amount=Amount(money=12, tokens=8)), records=(used,)))
        assert [balance.spent for balance in await slow.balances()] == [Amount(money=12, tokens=8)]
        said = [(each.record.outcome, each.record.money, each.record.input_tokens) for each in await slow.entries()]
        assert said == [("counted", 10, 5), ("late", 2, 3)]


async def test_a_process_that_was_thought_dead_changes_nothing_twice(place: Place):
    """It slept longer than its lease: what it settles then was settled already."""
    async with place.open() as sleepy:
        await sleepy.commit(Change(hold=hold(sent=True)))
        async with place.open() as other:
            assert await place.outlast(other) == 1
        late = record("settled", "used", money=1, input_tokens=1, output_tokens=0)
        await sleepy.commit(Change(settle=Settlement(id="h", amount=Amount(money=1, tokens=1)), records=(late,)))
        assert [balance.spent for balance in await sleepy.balances()] == [Amount(money=10, tokens=5)]
        steps = [(entry.record.step, entry.record.outcome, entry.record.money) for entry in await sleepy.entries()]
        assert steps == [("recovered", "counted", 10), ("settled", "late", None)]


async def test_a_half_answered_review_is_pending_again(place: Place):
    """Whether it was decided or not; a grant for the session has ended with it, others have not."""
    await killed(place, reviews=True)
    async with place.open() as store:
        await place.outlast(store)
        rows = {row.id: row for row in await store.reviews(("pending", "decided"))}
        assert {(row.state, row.host, row.decision) for row in rows.values()} == {("pending", None, None)}
        assert set(rows) == {"pending", "decided"}
        assert [row.id for row in await store.grants()] == ["always"]
        again = await store.put_review(review("new", host=store.host, fingerprint="2"))
        assert (again.id, again.host, len(await store.reviews())) == ("decided", store.host, 2)


async def test_a_question_that_nobody_asks_again_expires(place: Place):
    """Its content goes with it."""
    await killed(place, reviews=True)
    async with place.open() as store:
        await place.outlast(store)
        place.clock.now += 601
        await store.recover()
        rows = await store.reviews(("expired",))
        assert {(row.id, row.item) for row in rows} == {("pending", None), ("decided", None)}


async def test_what_is_long_over_is_forgotten(place: Place):
    """Accounts of calls after a day, reviews after three months, grants that ended and their sums; the audit never."""
    caps = {"call:h:1": Cap(), "day:x": Cap(), "grant:g": Cap(), "grant:kept": Cap()}
    async with place.open() as store:
        await store.commit(Change(hold=hold(caps=caps), records=(record(),)))
        await store.commit(Change(settle=Settlement(id="h", amount=Amount(money=1))))
        await store.put_review(review(host=store.host))
        await store.close_review("r", "withdrawn", keep_item=False)
        await store.add_grant(GrantRow(id="g", identity="x", body="{}", given=1.0, until=place.clock.now + 1))
        await store.add_grant(GrantRow(id="kept", identity="x", body="{}", given=1.0))
        place.clock.now += 25 * 3600
        await store.recover()
        assert [balance.key for balance in await store.balances()] == ["day:x", "grant:kept"]
        assert len(await store.reviews(("withdrawn",))) == 1
        place.clock.now += 91 * 24 * 3600
        await store.recover()
        assert await store.reviews(("withdrawn",)) == []
        assert (await store.head()).seq == 1


async def test_many_processes_open_a_new_store_at_once(place: Place):
    """One makes the tables; none fails."""
    stores = [place.make() for _ in range(4)]
    await asyncio.gather(*(store.commit(Change(records=(record(),))) for store in stores))
    assert (await stores[0].head()).seq == 4
    for store in stores:
        await store.aclose()


async def test_a_closed_store_says_that_it_has_gone(place: Place):
    """The next one need not wait for its lease to end."""
    async with place.open() as store:
        await store.commit(Change(hold=hold()))
    async with place.open() as store:
        assert await store.holds() == []


async def test_the_lease_is_renewed_by_itself(tmp_path: Path):
    """As long as the loop runs, the mark by which others see that the process lives is a new one."""

    def read_mark(connection: Connection) -> float:
        return connection.execute(select(hosts.c.seen).where(hosts.c.id == store.host)).scalar_one()

    store = SqlStore(SqliteRunner(tmp_path / "host.db"), clock=lambda: 1_000_000.0, lease=0.01)
    first = await store.run_work(read_mark)
    while await store.run_work(read_mark) <= first + 0.002:
        pass
    await store.aclose()


async def test_a_file_is_for_its_user_alone(tmp_path: Path):
    """0600, with all that SQLite keeps beside it, in a folder of 0700."""
    path = tmp_path / "state" / "antiphon" / "host.db"
    store = open_store(path)
    assert not path.parent.exists()
    await store.commit(Change(records=(record(),)))
    files = await asyncio.to_thread(lambda: list(path.parent.iterdir()))
    assert [file.stat().st_mode & 0o777 for file in files] == [0o600] * 3
    assert path.parent.stat().st_mode & 0o777 == 0o700
    await store.aclose()


async def test_a_place_is_a_path_or_an_address(tmp_path: Path):
    """PostgreSQL by its URL; nothing is opened yet."""
    in_memory = open_store("memory", keep_content=True)
    assert isinstance(in_memory, MemoryStore)
    row = await in_memory.put_review(review("a", expires=None))
    await in_memory.decide([Decided(id="a", decision="1")])
    assert await in_memory.commit(Change(finish=await ticket(in_memory, "a"))) is None
    kept = await in_memory.review("a")
    assert kept is not None and (kept.state, kept.item) == ("done", row.item)
    for place in (tmp_path / "a.db", str(tmp_path / "a.db"), f"sqlite:///{tmp_path}/a.db"):
        store = open_store(place)
        assert isinstance(store, SqlStore)
        assert await store.head() == Head()
        await store.aclose()
    remote = open_store("postgresql://ada@db.example/antiphon")
    assert isinstance(remote, SqlStore)
    assert isinstance(remote._runner, PostgresRunner)
    with pytest.raises(ConfigError, match="mysql"):
        open_store("mysql://ada@db.example/antiphon")


@pytest.mark.parametrize(
    ("platform", "environ", "folder"),
    [
        ("linux", {"HOME": "/users/ada"}, "/users/ada/.local/state/antiphon"),
        ("linux", {"HOME": "/users/ada", "XDG_STATE_HOME": "/state"}, "/state/antiphon"),
        ("linux", {"HOME": "/users/ada", "XDG_STATE_HOME": "here"}, "/users/ada/.local/state/antiphon"),
        ("darwin", {"HOME": "/users/ada"}, "/users/ada/Library/Application Support/antiphon"),
        ("win32", {"HOME": "/users/ada", "LOCALAPPDATA": "/local"}, "/local/antiphon"),
    ],
)
def test_by_default_it_is_where_programs_keep_their_state(platform: str, environ: dict[str, str], folder: str):
    """Each system has its own; a relative path would be another folder for each program."""
    assert state_folder(environ, platform) == Path(folder)


async def test_the_usual_store_is_made_when_it_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Closing it before makes nothing; after that it is a file like any."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    await usual_store().aclose()
    assert not (tmp_path / "antiphon").exists()
    store = usual_store()
    await Host(Scripted(["ok"]), reviewer=None, review="never", store=store)(request(), origin())
    assert (store.bounded, (await store.head()).seq > 0, store.host[:12].isalnum()) == (False, True, True)
    await store.aclose()
    assert (tmp_path / "antiphon" / "host.db").stat().st_mode & 0o777 == 0o600


def test_the_usual_store_can_be_loaded_soon(tmp_path: Path):
    """In the background, with what its first use needs; only for the database that it is, and nothing is made."""
    code = (
        "import sys, threading; from antiphon.host.store import usual_store; usual_store(soon=True); "
        "[each.join() for each in threading.enumerate() if each.name == 'antiphon-store-load']; "
        "print(*sys.modules)"
    )
    environ = os.environ | {"XDG_STATE_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, check=True, text=True)
    loaded = set(done.stdout.split())
    assert "antiphon.host.store.sql_store" in loaded
    assert "asyncpg" not in loaded
    assert not (tmp_path / "antiphon").exists()


@pytest.mark.parametrize("lacking", ["sqlalchemy", "folder"])
def test_where_nothing_can_be_kept_it_is_in_memory(lacking: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Without the packages, or where the state folder cannot be made."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    if lacking == "folder":
        (tmp_path / "antiphon").write_text("a file")
    else:
        monkeypatch.setattr(
            "antiphon.host.store.store_location.find_spec", lambda name: None if name == lacking else object()
        )
    assert isinstance(usual_store(), MemoryStore)


def test_a_host_without_a_store_loads_no_database():
    """It works with nothing of the extra installed."""
    code = (
        "import sys; from antiphon.host import Host, open_store; Host(reviewer=None, store=open_store('memory')); "
        "heavy = {'sqlalchemy', 'asyncpg', 'aiosqlite', 'sqlite3'} & set(sys.modules); "
        "sys.exit(str(sorted(heavy)) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
