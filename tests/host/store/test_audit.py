"""Audit records are found by their keys, in every kind of store."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from antiphon.host.audit.log import Audit
from antiphon.host.store import audit as trail
from antiphon.host.store.base import Change, Store
from antiphon.host.store.chain import Record, RecordSearch
from tests.host.store.stores import DURABLE, KINDS, Place, explained

LONG = "/messages/" * 20


@pytest.fixture(params=KINDS)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """Open a store of each kind."""
    async with Place(request.param, tmp_path) as place, place.open() as store:
        yield store


def record(ask: int, step: str, outcome: str = "", **more) -> Record:
    """Make a record of an ask of one of two servers."""
    return Record(
        at=float(ask), ask=str(ask), identity=f"command:{ask % 2}", method="m", step=step, outcome=outcome, **more
    )


async def filled(store: Store) -> None:
    """Record six asks of two steps."""
    for ask in range(6):
        end = record(ask, "refused", "user", call="7") if ask == 3 else record(ask, "answered", "handed-over")
        await store.commit(Change(records=(record(ask, "received", tool=f"tool {ask}"), end)))


async def numbers(store: Store, limit: int = 400, **search) -> list[int]:
    """Return the numbers of the records that are found."""
    return [entry.seq for entry in await store.find_records(RecordSearch(**search), limit)]


async def test_records_are_found_by_each_key(store: Store):
    """The latest come first; those after a number come in their order."""
    await filled(store)
    assert await numbers(store) == list(range(12, 0, -1))
    assert await numbers(store, since=4.0) == [12, 11, 10, 9]
    assert await numbers(store, identities=("command:1",), step="received") == [11, 7, 3]
    assert await numbers(store, identities=("command:0", "url:")) == [10, 9, 6, 5, 2, 1]
    assert await numbers(store, outcome="us") == await numbers(store, call="7") == [8]
    assert await numbers(store, ask=("", "3", "command:1"), after=0) == [7, 8]
    assert await numbers(store, step="withdrawn") == await numbers(store, outcome="nothing") == []


async def test_records_are_read_in_pages(store: Store):
    """In either direction."""
    await filled(store)
    assert await numbers(store, 2, step="received") == [11, 9]
    assert await numbers(store, 2, step="received", before=9) == [7, 5]
    assert await numbers(store, 2, step="received", after=0) == [1, 3]
    assert await numbers(store, 2, step="received", after=3) == [5, 7]


async def test_an_outcome_may_have_any_length_and_characters(store: Store):
    """Databases cannot store each character, and bound what an index holds."""
    outcomes = [f"{LONG}1", f"{LONG}2", "a\0b", "a\0c", "\U0010ffff"]
    await store.commit(Change(records=tuple(record(1, "failed", outcome) for outcome in outcomes)))
    for outcome in outcomes:
        found = await store.find_records(RecordSearch(outcome=outcome))
        assert [entry.record.outcome for entry in found if entry.record in RecordSearch(outcome=outcome)] == [outcome]
    assert await numbers(store, outcome="\udcff") == []
    assert (await Audit(store).verify()).whole


@pytest.mark.parametrize("kind", DURABLE)
@pytest.mark.parametrize(
    ("search", "index"),
    [
        ({"outcome": "user"}, "records_by_outcome"),
        ({"outcome": "user", "since": 1.0, "step": "refused"}, "records_by_outcome"),
        ({"call": "7"}, "records_of_call"),
        ({"ask": ("", "3", "command:1"), "after": 0}, "records_of_ask"),
        ({"identities": ("command:none",)}, "records_of_server"),
    ],
)
async def test_a_search_reads_an_index(kind: str, search: dict[str, object], index: str, tmp_path: Path):
    """Rare records among a million are found without reading the others."""
    async with Place(kind, tmp_path) as place, place.open() as store:
        await filled(store)
        plan = await explained(place, lambda connection: trail.find(connection, RecordSearch(**search), 50))
    assert index in plan
    assert "SCAN audit" not in plan


@pytest.mark.parametrize("change", ["UPDATE record_keys SET outcome = 'allow'", "DELETE FROM record_keys"])
async def test_changed_keys_are_found(change: str, tmp_path: Path):
    """A record that is hidden from a search is a fault, as a changed one is."""
    async with Place("sqlite", tmp_path) as place:
        async with place.open() as store:
            await filled(store)
            assert (await Audit(store).verify()).whole
        database = sqlite3.connect(place.path, isolation_level=None)
        database.execute(f"{change} WHERE seq = 8")
        database.close()
        async with place.open() as store:
            fault = (await Audit(store).verify()).fault
    assert fault is not None
    assert fault.seq == 8
