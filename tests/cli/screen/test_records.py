"""History, grants and spending over the queue."""

from __future__ import annotations

import asyncio

import pytest
from textual.widgets import Input

from antiphon.cli.screen import records
from antiphon.cli.screen.records import GrantList, HistoryList
from antiphon.cli.screen.sheet import Sheet
from antiphon.host import Deny, Grant, MemoryStore, Terms
from antiphon.host.store.base import BlockRow, Change
from antiphon.host.store.chain import Record
from antiphon.wire.envelope import encode
from tests.cli.screen.reviewing import asking, reviewing
from tests.host.asks import approve, origin, request

SIZES = pytest.mark.parametrize("size", [(80, 24), (200, 50)])


async def decided(desk, text: str, decision=None) -> None:
    """Have a request decided."""
    task = await desk.ask(text)
    question = await desk.newest()
    await desk.queue.decide(question.id, decision or approve(question.item), hash=question.hash, by="ada")
    await asyncio.wait([task])


def asked(number: int, words: str) -> Record:
    """Make the first record of an ask."""
    content = encode({"messages": [{"content": {"type": "text", "text": words}}]}).decode()
    return Record(
        at=float(number),
        ask=str(number),
        identity="i",
        method="sampling/createMessage",
        step="policy",
        outcome="ask",
        host="h",
        server="shop.py",
        content=content,
    )


@SIZES
async def test_history_is_listed_searched_and_opened(size: tuple[int, int]):
    """The latest first; a record opens into request, answer and timeline."""
    async with asking(keep_content=True) as desk:
        await decided(desk, "Describe a hat")
        await decided(desk, "Describe a coat", Deny(reason="Not this"))
        async with reviewing(desk.store, size=size) as review:
            await review.press("h", sees="2 found.")
            assert "denied by ada “Not this”" in review.text
            assert review.text.index("Describe a coat") < review.text.index("Describe a hat")
            review.type("/")
            await review.until(lambda: isinstance(review.app.focused, Input))
            await review.press("h", "a", "t", "ctrl+s", sees="1 found.")
            assert "Describe a coat" not in review.text
            review.type("enter")
            await review.until(lambda: isinstance(review.app.screen, Sheet))
            await review.sees("Timeline" if size[1] == 50 else "Describe a hat")
            document = review.app.screen.query_one("#sheet").document
            whole = "\n".join(row.lead + row.text for row in map(document.row, range(len(document))))
            for part in ("│ Describe a hat", "│ one", "approved by ada", "Timeline", "sent to", "decided:"):
                assert part in whole
            review.type("escape")
            await review.until(lambda: isinstance(review.app.screen, HistoryList))
            review.type("escape")
            await review.until(lambda: review.app.screen is review.stage)


async def test_further_pages_are_read_when_one_gets_there(monkeypatch: pytest.MonkeyPatch):
    """No more at once than a page; keys of the queue decide nothing meanwhile."""
    monkeypatch.setattr("antiphon.host.review.history.PAGE", 3)
    store = MemoryStore()
    await store.commit(Change(records=tuple(asked(number, f"ask {number}") for number in range(8))))
    async with reviewing(store, size=(80, 24)) as review:
        await review.press("h", sees="8 found.")
        listing = review.app.screen
        assert isinstance(listing, HistoryList)
        for at in range(1, 8):
            review.type("j")
            await review.until(lambda at=at: listing.at == at)
        await review.sees("ask 0")
        review.type("j")
        review.type("k")
        await review.until(lambda: listing.at == 6)


async def test_the_list_has_an_end(monkeypatch: pytest.MonkeyPatch):
    """And says how to find what is older."""
    monkeypatch.setattr("antiphon.host.review.history.PAGE", 2)
    monkeypatch.setattr(records, "_MOST", 2)
    store = MemoryStore()
    await store.commit(Change(records=tuple(asked(number, f"ask {number}") for number in range(3))))
    async with reviewing(store) as review:
        await review.press("h", sees="3 found.")
        review.type("j")
        await review.until(lambda: review.app.screen.at == 1)
        await review.press("j", sees="search to find older ones")


async def test_what_is_still_being_gathered_is_said(monkeypatch: pytest.MonkeyPatch):
    """And shown as soon as it was."""
    monkeypatch.setattr(records, "_PATIENCE", 0.0)
    store = MemoryStore()
    await store.commit(Change(records=tuple(asked(number, f"ask {number}") for number in range(4_500))))
    async with reviewing(store) as review:
        await review.press("h", sees="4500 found.")
        await review.until(lambda: "still being read" not in review.text)


@SIZES
async def test_grants_and_blocks_are_taken_back(size: tuple[int, int]):
    """The one that is marked."""
    async with asking() as desk:
        for uses in (3, 5):
            await desk.host.grants.add(Grant.give(request(), origin(), "session", Terms(uses=uses)))
        await desk.store.block(BlockRow(identity="evil", target="evil.py", since=1.0, by="bob"))
        async with reviewing(desk.store, size=size) as review:
            await review.press("G", sees="The next 3 requests like this, this session")
            listing = review.app.screen
            assert isinstance(listing, GrantList)
            review.type("j")
            await review.until(lambda: listing.at == 1)
            await review.press("R", sees="Revoked.")
            assert [each.grant.terms.uses for each in await desk.host.grants.all()] == [3]
            await review.sees("evil.py")
            await review.press("R", sees="Unblocked.")
            assert await desk.store.blocks() == []
            await review.press("R", sees="There are no grants.")


@SIZES
async def test_spending_is_a_sheet(size: tuple[int, int]):
    """With bars for the last days."""
    async with asking() as desk:
        record = asked(1, "x")
        spent = Record(
            at=1.0,
            ask="1",
            identity="i",
            method=record.method,
            step="settled",
            model="m",
            input_tokens=10,
            output_tokens=5,
            money=120_000_000,
            host="h",
        )
        await desk.store.commit(Change(records=(record, spent)))
        async with reviewing(desk.store, size=size, clock=lambda: 1.0) as review:
            await review.press("$", sees="1970-01-01  ████████████████████████ $0.12")
            review.type("escape")
            await review.until(lambda: review.app.screen is review.stage)


async def test_a_store_that_cannot_be_read_is_said(monkeypatch: pytest.MonkeyPatch):
    """And nothing ends by it."""
    async with asking() as desk, reviewing(desk.store) as review:

        async def broken(*_: object) -> None:
            raise OSError

        monkeypatch.setattr(desk.store, "asks", broken)
        await review.press("h", sees="The store cannot be read just now")
