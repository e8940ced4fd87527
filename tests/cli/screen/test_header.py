"""The lines that never scroll away."""

from __future__ import annotations

import msgspec

from antiphon.cli.screen.header import bar, plain, strip
from antiphon.cli.screen.words import words
from antiphon.host.budget import Amount, Costs
from antiphon.host.checks.risk import Risk
from antiphon.host.review.question import Question
from tests.cli.screen.reviewing import RESULT, sampling, show_of

EN = words("en")
OPEN = Question(
    id="1", kind="request", group="g", identity="i", created=0, expires=100.0, state="pending", waited_for=True
)


def test_what_is_asked_and_for_how_long_is_always_there():
    """With what it costs at most, and what is left."""
    amount = Amount(money=10_000_000, tokens=1)
    costs = Costs(low=amount, likely=amount, worst=amount, left=2_000_000_000)
    shown = show_of(sampling(costs=costs), "request")
    head, risks = strip(OPEN, shown, 40.0, EN)
    assert head.plain == "1:00 · catalogue.py · describe · at most $0.01 of $2.00 left"
    assert risks.plain == "Nothing stands out."
    unbounded = show_of(sampling(costs=msgspec.structs.replace(costs, left=None)), "request")
    assert strip(OPEN, unbounded, 40.0, EN)[0].plain.endswith("· at most $0.01")
    answered = show_of(sampling(costs=costs, result=RESULT), "response")
    assert "at most" not in strip(OPEN, answered, 40.0, EN)[0].plain


def test_warnings_are_always_there():
    """As text of ours."""
    risks = (
        Risk(kind="size", level="warning", text="99 characters of text"),
        Risk(kind="turns", level="note", text="a note"),
        Risk(kind="context", level="warning", text="[bold]x[/bold]\x1b"),
    )
    shown = show_of(sampling(risks=risks), "request")
    assert strip(OPEN, shown, 0, EN)[1].plain == "! 99 characters of text ! [bold]x[/bold]\u27e6U+001B\u27e7"


def test_what_became_of_it_is_said():
    """And by whom; a name is text."""
    over = msgspec.structs.replace(OPEN, state="done", by="[red]bob")
    assert [part.plain for part in strip(over, None, 0, EN)] == ["request", "Decided. By [red]bob."]
    gone = msgspec.structs.replace(OPEN, state="expired")
    assert strip(gone, None, 0, EN)[1].plain == "Expired, and denied."
    assert [part.plain for part in strip(None, None, 0, EN)] == ["", ""]


def test_keys_are_written_in_rows_and_never_broken():
    """A key and what it is called stay together; those that are dead are dim."""
    line = bar(show_of(sampling(), "request"), EN, width=40, dead="agA")
    rows = line.plain.split("\n")
    assert rows[0] == "a Approve  e Edit  d Deny  "
    assert rows[-1].endswith("q Quit  ")
    assert all(len(row.rstrip()) <= 40 for row in rows)
    assert line.spans[0].style == "dim"
    assert bar(None, EN, width=80, dead=()).plain == "j Next  n Next risk  ? Keys  q Quit  "


def test_plain_is_plain():
    """One inert line."""
    assert plain("[b]a\nb").plain == "[b]a\u27e6U+000A\u27e7b"
