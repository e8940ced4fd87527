"""The figures of what was spent, as every surface shows them."""

from __future__ import annotations

from antiphon.host import MemoryStore
from antiphon.host.audit.log import Audit, day_of
from antiphon.host.budget import DOLLAR, Account, Amount, Cap
from antiphon.host.review.spending import DAYS, MOST, spending
from antiphon.host.store.base import Change, Hold
from antiphon.host.store.chain import Record

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
    figures = await spending(store, Audit(store), NOW)
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
    figures = await spending(store, Audit(store), NOW)
    assert (figures.priced, figures.days[-1]) == (False, (day_of(NOW), {0: 15}))


async def test_a_budget_says_what_is_used_and_reserved():
    """As the latest request has met it; one without a bound is none."""
    store = MemoryStore()
    accounts = (Account(key="server:a", cap=Cap(money=DOLLAR)), Account(key="total", cap=Cap()))
    hold = Hold(id="1", ask="1", identity="a", accounts=accounts, amount=Amount(money=7), sent=False)
    await store.commit(Change(hold=hold))
    figures = await spending(store, Audit(store), NOW)
    [bound] = figures.bounds
    assert (bound.kind, bound.identity, bound.used, bound.held, bound.cap) == ("server", "a", 7, 7, DOLLAR)
    assert figures.held == 7
