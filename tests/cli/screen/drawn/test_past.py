"""The words of what is past: those of the page, made inert."""

from __future__ import annotations

import html
import re

import pytest

from antiphon.cli.screen.drawn.past import blocked, covered, decision, ending, given, happened, row_of, spent
from antiphon.cli.screen.drawn.pieces import Piece
from antiphon.cli.screen.words import words
from antiphon.host import UNBOUNDED, Grant, Terms
from antiphon.host.audit.log import Audit
from antiphon.host.budget import DOLLAR
from antiphon.host.review.grants import Given
from antiphon.host.review.spending import spending
from antiphon.host.store.asks import AskRow, Placed
from antiphon.host.store.base import BlockRow, Change
from antiphon.host.store.chain import Record
from antiphon.host.store.memory import MemoryStore
from antiphon.wire.tools import CallToolRequestParams
from tests.host.asks import origin, request
from tests.web.pages import desk

EN = words("en")
ROW = AskRow(seq=1, host="h", ask="1", at=0.0, identity="i", method="sampling/createMessage", trail=[])


def row_with(**facts: str) -> AskRow:
    """Make the row of an ask."""
    return AskRow(**{**{name: getattr(ROW, name) for name in ROW.__struct_fields__}, **facts})


def text_of(pieces) -> str:
    """Read pieces as one line."""
    return " ".join(piece.text for piece in pieces)


def read(page: str) -> str:
    """Read a page as one line."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", page.partition("<main")[2])).split()).replace(" ,", ",")


@pytest.mark.parametrize(
    ("asked", "scope", "terms"),
    [
        (request(), "session", Terms(uses=10, money=DOLLAR // 2)),
        (request(), "call", Terms(uses=1)),
        (request(), "always", UNBOUNDED),
        (CallToolRequestParams(name="order", arguments={}), "session", Terms(uses=3)),
        (CallToolRequestParams(name="order", arguments={}), "always", UNBOUNDED),
    ],
)
async def test_a_grant_is_the_sentence_of_the_page(asked, scope: str, terms: Terms):
    """Letter by letter, and so is how much of it is used up."""
    async with desk() as page:
        one = await page.host.grants.add(Grant.give(asked, origin(), scope, terms))
        await page.store.commit(Change(use=one.id))
        [now] = await page.host.grants.all() or [one]
        shown = read((await page.get("/grants")).text)
        if await page.host.grants.all():
            assert covered(now, EN) in shown
            for piece in given(now, {}, {}, EN):
                assert all(part in shown for part in piece.text.split(" · ") if not part.startswith("Given"))


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (
            {"decision": "approve", "by": "ada", "ending": "answered", "outcome": "handed-over"},
            ("approved by ada", "answered handed over"),
        ),
        (
            {"decision": "deny", "by": "ada", "reason": "Not\x1b this", "ending": "refused", "outcome": "user"},
            ("denied by ada “Not\x1b this”", "refused"),
        ),
        ({"ending": "refused", "outcome": "limit:requests"}, ("", "refused a limit was reached (requests)")),
        ({"ending": "withdrawn", "outcome": "late:closed"}, ("", "withdrawn too late: the connection was gone")),
        ({"decision": "undone:approve", "by": "bob"}, ("took back the approval by bob", "open")),
    ],
)
def test_a_decision_and_its_end_are_words(facts: dict[str, str], said: tuple[str, str]):
    """Who, why, and what became of the answer."""
    row = row_with(**facts)
    assert (decision(row, EN), ending(row, EN)) == said
    assert "\x1b" not in text_of(row_of(row, {}, EN))


def test_what_a_server_is_called_is_inert():
    """In a row, in a step, and of a block."""
    row = AskRow(
        **{**{name: getattr(ROW, name) for name in ROW.__struct_fields__}, "tool": "a\x1b[2J", "words": "b\u202e"}
    )
    step = Record(at=0.0, ask="1", identity="i", method="m", step="generate", model="c\x1b")
    drawn = [
        *row_of(row, {"i": "d\x9b"}, EN),
        *happened([Placed(1, step)], EN),
        *blocked(BlockRow(identity="i", target="e\x1b", since=0.0), EN),
    ]
    assert not {"\x1b", "\x9b", "\u202e"} & set(text_of(drawn))
    assert all(letter in text_of(drawn) for letter in "abcde")


async def test_the_figures_are_those_of_the_page():
    """Sums, servers and days."""
    async with desk() as page:
        at = page.running.page.site.clock()
        record = Record(
            at=at,
            ask="1",
            identity="i",
            method="sampling/createMessage",
            step="settled",
            model="m",
            input_tokens=1000,
            output_tokens=500,
            money=123_400_000,
            server="shop.py",
        )
        await page.store.commit(Change(records=(record,)))
        shown = read((await page.get("/spending")).text)
        drawn = text_of(spent(await spending(page.store, Audit(page.store), at), {"i": "shop.py"}, EN))
        for figure in ("$0.12", "1000", "500", "shop.py", "By server", "Last 14 days"):
            assert figure in shown
            assert figure in drawn


async def test_nothing_spent_is_said():
    """And no bar is drawn."""
    store = MemoryStore()
    drawn = list(spent(await spending(store, Audit(store), 0.0), {}, EN))
    assert any(piece.text == "Nothing was spent." for piece in drawn)
    assert "█" not in text_of(drawn)
    assert all(isinstance(piece, Piece) for piece in drawn)


def test_a_grant_that_is_unbounded_says_so():
    """And what was spent by it."""
    one = Given(id="g", grant=Grant.give(request(), origin(), "always", UNBOUNDED), given=0.0, used=2)
    drawn = text_of(given(one, {"g": 2 * DOLLAR}, {}, EN))
    assert "without a limit" in drawn
    assert "$2.00 spent" in drawn
    assert "used 2 times" in drawn
