"""The record of decisions, as every surface reads it."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.host import Edit, Host, MemoryStore, Queue, Scripted, digest
from antiphon.host.audit import Audit, day_of
from antiphon.host.budget import DOLLAR, Account, Amount, Cap
from antiphon.host.review.history import DAYS, MOST, PAGE, read_ask, server_names, sought_by, sum_up_spending
from antiphon.host.store.ask_rows import Sought
from antiphon.host.store.base import Change, Hold
from antiphon.host.store.chain import Record
from tests.host.asks import Person, approve, origin, request


async def test_what_was_kept_of_an_ask_is_told():
    """The request, what was changed in it, the answer and each step."""
    shorter = request("Describe a hat", max_tokens=50)
    person = Person(lambda item: Edit(params=shorter, digest=digest(shorter)))
    store = MemoryStore()
    await Host(Scripted(["Warm"]), reviewer=person, store=store, keep_content=True)(request(), origin())
    await store.gather()
    [row] = (await store.asks(Sought())).rows
    full = await read_ask(store, row)
    assert full.asked is not None and full.answer is not None and full.changes is not None
    assert full.asked.params == shorter
    assert full.answer.answer_text == "Warm"
    assert any(line.text.endswith("Describe a hat") for line in full.changes)
    assert [step.record.step for step in full.steps][:3] == ["received", "policy", "review"]


async def test_of_what_was_not_kept_its_steps_are_told():
    """Contents are kept only where that is asked for."""
    store = MemoryStore()
    await Host(Scripted(["Warm"]), reviewer=Person(approve), store=store)(request(), origin())
    await store.gather()
    [row] = (await store.asks(Sought())).rows
    full = await read_ask(store, row)
    assert (full.asked, full.answer, full.form, full.texts) == (None, None, None, ())
    assert len(full.steps) == len(row.trail)


async def test_servers_have_the_names_they_are_known_by():
    """Those that wait now, those that have asked before, and those that are told."""
    store = MemoryStore()
    queue = Queue(store)
    asked, waits = origin(command=["asked"]), origin("2", command=["waits"])
    await Host(Scripted(["Warm"]), reviewer=Person(approve), store=store)(request(), asked)
    await store.gather()
    task = asyncio.create_task(Host(reviewer=queue, store=store)(request(), waits))
    async for _ in queue.changes():
        if await queue.pending():
            break
    names = await server_names(store, queue, {"told": "by somebody"}, [asked.identity, "nobody"])
    task.cancel()
    assert (names["told"], names[asked.identity], names[waits.identity]) == ("by somebody", "asked", "waits")
    assert "nobody" not in names


@pytest.mark.parametrize(
    ("fields", "sought"),
    [
        ({}, Sought(limit=PAGE)),
        ({"kind": "nonsense", "ending": "nonsense", "since": "soon", "before": "-1"}, Sought(limit=PAGE)),
        (
            {"kind": "tools/call", "ending": "refused", "before": "7"},
            Sought(method="tools/call", ending="refused", before=7, limit=PAGE),
        ),
        ({"q": "Hat shop"}, Sought(words=(("hat", ()), ("shop", ("i",))), limit=PAGE)),
    ],
)
def test_what_cannot_be_read_excludes_nothing(fields: dict[str, str], sought: Sought):
    """Words are also those of the names of servers."""
    assert sought_by(fields, {"i": "python Shop.py"}) == sought


NOW = 1_800_000_000.0
DAY = 86_400


def settled(ago: int, server: str, money: int) -> Record:
    """Make the record of a sum."""
    at = NOW - ago * DAY
    return Record(
        at=at,
        ask="1",
        identity=server,
        method="sampling/createMessage",
        step="settled",
        model="m",
        input_tokens=10,
        output_tokens=5,
        money=money,
    )


async def test_sums_are_by_day_and_by_server():
    """Of the last days; the dearest servers one by one, the others together."""
    store = MemoryStore()
    records = [settled(0, "a", DOLLAR), settled(1, "b", 2 * DOLLAR), settled(DAYS, "a", 5 * DOLLAR)]
    records += [settled(2, f"s{n}", n) for n in range(MOST)]
    await store.commit(Change(records=tuple(records)))
    await store.gather()
    figures = await sum_up_spending(store, Audit(store), NOW)
    assert (figures.today, figures.total) == (DOLLAR, 8 * DOLLAR + sum(range(MOST)))
    assert [share.identity for share in figures.shares[:2]] == ["b", "a"]
    assert figures.shares[-1].identity is None
    assert len(figures.shares) == MOST + 1
    assert figures.days[-1] == (day_of(NOW), {1: DOLLAR})
    assert (len(figures.days), figures.priced, figures.lines[0].day) == (DAYS, True, day_of(NOW))


async def test_what_has_no_price_is_counted_in_tokens():
    """A chart of nothing but zeros would say nothing."""
    store = MemoryStore()
    await store.commit(Change(records=(settled(0, "a", 0),)))
    await store.gather()
    figures = await sum_up_spending(store, Audit(store), NOW)
    assert (figures.priced, figures.days[-1]) == (False, (day_of(NOW), {0: 15}))


async def test_a_budget_says_what_is_used_and_reserved():
    """As the latest request has met it; one without a bound is none."""
    store = MemoryStore()
    accounts = (Account(key="server:a", cap=Cap(money=DOLLAR)), Account(key="total", cap=Cap()))
    hold = Hold(id="1", ask="1", identity="a", accounts=accounts, amount=Amount(money=7), sent=False)
    await store.commit(Change(hold=hold))
    figures = await sum_up_spending(store, Audit(store), NOW)
    [bound] = figures.bounds
    assert (bound.kind, bound.identity, bound.used, bound.held, bound.cap) == ("server", "a", 7, 7, DOLLAR)
    assert figures.held == 7
