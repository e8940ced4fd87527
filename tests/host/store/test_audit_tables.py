"""Audit records are found by what they say, in every kind of store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from antiphon.host.audit import Audit
from antiphon.host.store import audit_tables as trail
from antiphon.host.store.ask_rows import Sought
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


async def filled(store: Store, asks: int = 6) -> None:
    """Record asks of two steps."""
    for ask in range(asks):
        end = record(ask, "refused", "user", call="7") if ask == 3 else record(ask, "answered", "handed-over")
        await store.commit(Change(records=(record(ask, "received", tool=f"tool {ask}"), end)))


async def numbers(store: Store, limit: int = 400, **search) -> list[int]:
    """Return the numbers of the records that are found."""
    wanted = RecordSearch(**search)
    return [entry.seq for entry in await store.find_records(wanted, limit) if entry.record in wanted]


async def test_records_are_found_by_each_member(store: Store):
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
    """Also those that are signs of a pattern, or written as escapes."""
    outcomes = [f"{LONG}1", f"{LONG}2", "a\0b", "a\0c", "\U0010ffff", "100%", "100_", 'a"b\\c']
    await store.commit(Change(records=tuple(record(1, "failed", outcome) for outcome in outcomes)))
    for outcome in outcomes:
        found = await store.find_records(RecordSearch(outcome=outcome))
        assert [entry.record.outcome for entry in found if entry.record in RecordSearch(outcome=outcome)] == [outcome]
    assert await numbers(store, outcome="\udcff") == []
    assert (await Audit(store).verify()).whole


async def test_each_page_of_a_search_has_what_the_chain_has(store: Store):
    """Whatever the filters, the bounds and the length of a page."""
    searches = [
        RecordSearch(call="7"),
        RecordSearch(step="received", after=59),
        RecordSearch(identities=("command:1",), before=131),
        RecordSearch(outcome="us", after=0, before=140),
    ]
    for _ in range(4):
        await filled(store, 20)
        entries = await store.entries()
        for search in searches:
            bounds = range((search.after or 0) + 1, search.before or 1_000)
            expected = [entry.seq for entry in entries if entry.seq in bounds and entry.record in search]
            for limit in (3, 400):
                found = [entry.seq for entry in await store.find_records(search, limit)]
                assert found == (expected if search.after is not None else expected[::-1])[:limit]


def record_history(ask: int, step: str, outcome: str = "", **more) -> Record:
    """Make a record_history of an ask of one of two servers."""
    method = "sampling/createMessage" if ask % 3 else "tools/call"
    identity = f"command:{ask % 2}"
    return Record(at=float(ask), ask=str(ask), identity=identity, method=method, step=step, outcome=outcome, **more)


async def filled_history(store: Store, asks: int = 10) -> None:
    """Record asks; those that a number of five divides are refused, the first one still waits."""
    for ask in range(asks):
        end = record_history(ask, "refused", "user") if ask % 5 == 0 else record_history(ask, "answered")
        spent = record_history(ask, "settled", model="m", input_tokens=2, output_tokens=1, money=ask)
        last = (spent, end) if ask else ()
        await store.commit(Change(records=(record_history(ask, "received", server=f"shop {ask}"), *last)))


async def found(store: Store, **sought) -> list[str]:
    """Return the ids of the asks that are found, once all is gathered."""
    while await store.gather():
        pass
    return [row.ask for row in (await store.asks(Sought(**sought))).rows]


async def test_asks_are_found_the_latest_first(store: Store):
    """All of them, or those of one server, kind, end or time, or with words."""
    await filled_history(store)
    assert await found(store) == [str(ask) for ask in range(9, -1, -1)]
    assert await found(store, identity="command:1", ending="refused") == ["5"]
    assert await found(store, ending="open") == ["0"]
    assert await found(store, method="tools/call") == ["9", "6", "3", "0"]
    assert await found(store, since=3.0, until=5.0) == ["4", "3"]
    assert await found(store, words=(("shop 7", ()),)) == ["7"]
    assert await found(store, words=(("shop", ()), ("elsewhere", ("command:0",)))) == ["8", "6", "4", "2", "0"]


@pytest.mark.parametrize("word", ["%", "_", "\\", "'"])
async def test_what_a_database_takes_as_a_pattern_is_a_word(store: Store, word: str):
    """Nothing here has such a sign."""
    await filled_history(store)
    assert await found(store, words=((word, ()),)) == []


async def test_pages_follow_one_another(store: Store):
    """Each begins where the last ended, whatever came meanwhile, and says how many there are in all."""
    await filled_history(store)
    await store.gather()
    first = await store.asks(Sought(limit=4))
    await store.commit(Change(records=(record_history(50, "received"),)))
    await store.gather()
    second = await store.asks(Sought(limit=4, before=first.rows[-1].seq))
    assert [row.ask for row in (*first.rows, *second.rows)] == ["9", "8", "7", "6", "5", "4", "3", "2"]
    assert (first.count, second.count) == (10, 11)


async def test_an_ask_is_found_by_its_first_record(store: Store):
    """For good: that is its address."""
    await filled_history(store)
    await store.gather()
    row = (await store.asks(Sought(words=(("shop 4", ()),)))).rows[0]
    assert await store.ask(row.seq) == msgspec.structs.replace(row, quoted="")
    assert [entry.record.step for entry in await store.entries_at(row.trail)] == ["received", "settled", "answered"]
    assert await store.ask(row.seq + 1) is None


async def test_what_comes_later_is_added(store: Store):
    """An ask whose records came in two pieces is one."""
    await filled_history(store, 1)
    assert await found(store, ending="open") == ["0"]
    await store.commit(Change(records=(record_history(0, "withdrawn"),)))
    assert (await store.asks(Sought())).behind == 1
    assert await found(store, ending="withdrawn") == ["0"]
    assert (await store.asks(Sought())).count == 1


async def test_what_was_spent_is_summed_up(store: Store):
    """The sums by day, server and model are those of all records, though none was gathered."""
    await filled_history(store)
    await filled_history(store, 3)
    sums, last = await store.spending()
    assert last == (await store.head()).seq
    assert sorted((row.identity, row.requests, row.input_tokens, row.money) for row in sums) == [
        ("command:0", 5, 10, 2 + 4 + 6 + 8 + 2),
        ("command:1", 6, 12, 1 + 3 + 5 + 7 + 9 + 1),
    ]


@pytest.mark.parametrize("kind", DURABLE)
async def test_a_refused_change_adds_to_no_sum(kind: str, tmp_path: Path):
    """Records and sums are stored in one transaction: both, or none."""
    spent = record_history(1, "settled", model="m", input_tokens=2, money=5)
    async with Place(kind, tmp_path) as place, place.open() as store:
        changes = [Change(records=(spent,)), Change(use="no such grant", records=(spent,))]
        assert await asyncio.gather(*map(store.commit, changes)) == [None, "grant"]
        [row] = (await store.spending())[0]
        assert (row.requests, row.money, (await store.head()).seq) == (1, 5, 1)


@pytest.mark.parametrize("kind", DURABLE)
async def test_processes_add_to_the_same_sums(kind: str, tmp_path: Path):
    """Two stores write at the same time, one of them with a clock that was set back by a day."""
    day = 86_400.0
    async with Place(kind, tmp_path) as place, place.open() as one, place.open() as two:
        today = record_history(1, "settled", model="m", input_tokens=2, money=5)
        before = msgspec.structs.replace(today, at=today.at - day)
        await asyncio.gather(
            *(store.commit(Change(records=(each,))) for each in (today, before, today) for store in (one, two) * 5)
        )
        sums, _ = await two.spending()
        assert [(row.day, row.money) for row in sorted(sums, key=lambda row: row.day)] == [
            ("1969-12-31", 50),
            ("1970-01-01", 100),
        ]


async def test_calls_of_tools_are_counted_by_server(store: Store):
    """Only calls since a time count, and only those of tools."""
    await filled_history(store)
    await store.gather()
    assert await store.calls(0.0) == {"command:0": 2, "command:1": 2}
    assert await store.calls(6.0) == {"command:0": 1, "command:1": 1}


async def test_servers_are_named_by_their_latest_asks(store: Store):
    """A server that never asked has no name."""
    await filled_history(store)
    await store.gather()
    assert await store.servers(["command:0", "command:1", "command:2"]) == {
        "command:0": "shop 8",
        "command:1": "shop 9",
    }


@pytest.mark.parametrize("kind", DURABLE)
async def test_pieces_make_the_same_whole(kind: str, tmp_path: Path):
    """One record_history at a time, or all at once; by one process, or by two in turn."""
    async with Place(kind, tmp_path) as place, place.open() as store, place.open() as other:
        await filled_history(store)
        left, turns = await store.gather(1), 1
        while left:
            left, turns = await (other if turns % 2 else store).gather(1), turns + 1
        assert turns == (await store.head()).seq
        assert len((await store.asks(Sought(ending="answered"))).rows) == 8
        assert sum(row.money for row in (await store.spending())[0]) == sum(range(10))


async def test_words_are_kept_apart_from_what_is_shown(store: Store):
    """What was said is searched also after more records of its ask have come."""
    said = '{"messages":[{"content":{"type":"text","text":"Warm WOOL"}}]}'
    await store.commit(Change(records=(record_history(1, "policy", "ask", content=said),)))
    assert await found(store, words=(("wool", ()),)) == ["1"]
    await store.commit(Change(records=(record_history(1, "answered"),)))
    assert await found(store, words=(("wool", ()),), ending="answered") == ["1"]


@pytest.mark.parametrize("kind", DURABLE)
async def test_gathering_reads_an_index(kind: str, tmp_path: Path):
    """Otherwise each piece would read all asks that were gathered before."""
    async with Place(kind, tmp_path) as place, place.open() as store:
        await filled_history(store)
        plan = await explained(place, lambda connection: trail.gather_more(connection, 20))
    assert "asks_by_name" in plan
    assert "SCAN asks" not in plan
