"""Every state store keeps the promises of the seam: in memory, in a file, in PostgreSQL."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from sqlalchemy import text

from antiphon.machine.state_store import CompareAndSetStore, MemoryStateStore
from antiphon.server.state.sql_state_store import SqlStateStore
from antiphon.sql.database_store import runner_at
from tests.support.postgres import shared_postgres

KINDS = ["memory", "sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]
Opens = Callable[..., AbstractAsyncContextManager[CompareAndSetStore]]


class Clock:
    """Time that a test moves."""

    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    """Make the clock of the stores."""
    return Clock()


@pytest.fixture(params=KINDS)
async def opens(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Opens:
    """Give each test what opens a store of its own, of each kind."""
    if request.param == "postgres":
        runner = runner_at(shared_postgres(), extra="sql")
        await runner.run(lambda connection: connection.execute(text("DROP TABLE IF EXISTS server_states")))
        await runner.aclose()
    place = shared_postgres() if request.param == "postgres" else tmp_path / "states.db"

    @asynccontextmanager
    async def opened(**options) -> AsyncIterator[CompareAndSetStore]:
        if request.param == "memory":
            yield MemoryStateStore(clock=clock, **options)
            return
        async with SqlStateStore(place, clock=clock, **options) as store:
            yield store

    return opened


@pytest.fixture
async def store(opens: Opens) -> AsyncIterator[CompareAndSetStore]:
    """Open a store."""
    async with opens() as store:
        yield store


async def test_what_is_put_is_found_until_it_is_too_old(store: CompareAndSetStore, clock: Clock):
    """A value lives for its time, and is replaced by a later one."""
    assert await store.get("a") is None
    await store.put("a", b"old", 5)
    await store.put("a", b"\x00new\xff", 10)
    clock.now += 9.9
    assert await store.get("a") == b"\x00new\xff"
    clock.now += 0.1
    assert await store.get("a") is None


async def test_only_the_first_adds(store: CompareAndSetStore, clock: Clock):
    """Of two that claim, one wins; after its time anybody may."""
    assert await store.add("a", b"first", 10)
    assert not await store.add("a", b"second", 10)
    assert await store.get("a") == b"first"
    clock.now += 11.0
    assert await store.add("a", b"third", 10)
    assert await store.get("a") == b"third"


async def test_of_many_that_add_at_once_one_does(store: CompareAndSetStore):
    """Whoever is first."""
    added = await asyncio.gather(*(store.add("a", str(number).encode(), 10) for number in range(20)))
    assert added.count(True) == 1
    assert await store.get("a") == str(added.index(True)).encode()


async def test_what_is_deleted_is_gone(store: CompareAndSetStore):
    """Deleting twice does no harm."""
    await store.put("a", b"value", 10)
    await store.delete("a")
    await store.delete("a")
    assert await store.get("a") is None


async def test_a_value_is_replaced_only_where_it_is_the_expected_one(store: CompareAndSetStore, clock: Clock):
    """Of two that saw the same value, one replaces it; what is too old is not there to be replaced."""
    assert not await store.replace("a", b"new", 10, expected=b"old")
    await store.put("a", b"old", 10)
    assert await store.replace("a", b"new", 10, expected=b"old")
    assert not await store.replace("a", b"newer", 10, expected=b"old")
    assert await store.get("a") == b"new"
    clock.now += 11.0
    assert not await store.replace("a", b"newest", 10, expected=b"new")


async def test_of_many_that_replace_at_once_one_does(store: CompareAndSetStore):
    """The others are told."""
    await store.put("a", b"old", 10)
    replaced = await asyncio.gather(
        *(store.replace("a", str(number).encode(), 10, expected=b"old") for number in range(20))
    )
    assert replaced.count(True) == 1


async def test_a_large_value_comes_back_whole(store: CompareAndSetStore):
    """The longest that a server puts there."""
    value = bytes(range(256)) * 4096
    await store.put("a" * 99, value, 10)
    assert await store.get("a" * 99) == value


async def test_the_oldest_makes_room(opens: Opens):
    """What is kept is bounded, whatever the size and the number of values."""
    async with opens(limit=10_000) as store:
        for number in range(100):
            await store.put(f"k{number}", b"", 10 + number)
        if isinstance(store, SqlStateStore):
            await store.sweep()
        kept = [number for number in range(100) if await store.get(f"k{number}") is not None]
        assert 40 < len(kept) < 50
        assert kept == list(range(100 - len(kept), 100))


def test_of_many_threads_that_add_at_once_one_does():
    """Servers in several threads share a store in memory, and each round of a call is claimed once."""
    store, keys = MemoryStateStore(), range(20_000)

    async def claim() -> int:
        return sum([await store.add(str(key), b"", 60.0) for key in keys])

    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            assert sum(threads.map(lambda _: asyncio.run(claim()), range(4))) == len(keys)
    finally:
        sys.setswitchinterval(usual)
