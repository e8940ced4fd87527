"""Who would answer, why that model, for how much."""

from __future__ import annotations

from decimal import Decimal

import msgspec
import pytest

from antiphon.cli.screen.drawn.model_table import figures
from antiphon.cli.screen.words import words
from antiphon.host.budget import Amount, Costs
from antiphon.host.models.selection.needs import Needs
from antiphon.host.models.selection.record import Candidate, Obstacle, Scores, Selection
from antiphon.host.review.shown import Shown
from tests.cli.screen.reviewing import sampling, show_of

SELECTION = Selection(
    winner="small",
    rule="score",
    needs=Needs(),
    hint="sm",
    candidates=(
        Candidate(
            name="small",
            provider="p",
            model="m",
            cost=Decimal("0.0001"),
            scores=Scores(cost=0.9, speed=1.0, intelligence=0.25, total=0.75),
        ),
        Candidate(name="plain", provider="p", model="m", scores=Scores(cost=0.5, speed=0, intelligence=0)),
        Candidate(
            name="none", provider="p", model="m", obstacles=(Obstacle(code="too-dear", detail="[bold]dear[/bold]"),)
        ),
    ),
)


def shown(**more) -> Shown:
    """Show a request of which a model was chosen."""
    return show_of(sampling(model="small", models=("plain",), **more), "request")


def said(of: Shown, model: str | None = None) -> list[str]:
    """Read the pieces."""
    return [f"{piece.first}{piece.text}".rstrip() for piece in figures(of, words("en"), model)]


def test_every_model_is_listed_with_its_scores():
    """The chosen one is marked; one that cannot answer says why, in our own words."""
    rows = said(shown(selection=msgspec.to_builtins(SELECTION)))
    assert " Chosen by its score for the server's priorities. Hint used: sm" in rows
    table = rows[rows.index("   Model  Cost at most  Cost  Speed  Intelligence  Score") :]
    assert table[1] == " ▸ small  $0.0001       0.9   1.0    0.25          0.75"
    assert table[2].split() == ["plain", "-", "0.5", "0.0", "0.0", "-"]
    assert table[3].endswith("dearer than what is left")


def test_another_model_that_was_chosen_is_said():
    """Beside the one it is instead of."""
    rows = said(shown(), "plain")
    assert " Model          plain" in rows
    assert any("another model than small" in row for row in rows)


def test_costs_have_a_range_and_what_is_left():
    """In dollars and tokens; what no cap bounds says so."""
    low, likely, worst = (Amount(money=money * 1_000_000, tokens=money) for money in (1, 2, 3))
    rows = said(shown(costs=Costs(low=low, likely=likely, worst=worst, left=5_000_000_000)))
    assert rows[-4:] == [
        " At least       $0.001  1 tokens",
        " Likely         $0.002  2 tokens",
        " At most        $0.003  3 tokens",
        " Left           $5.00",
    ]
    assert said(shown(costs=Costs(low=low, likely=likely, worst=worst)))[-1] == " Left           no limit"


@pytest.mark.parametrize("selection", [None, {"winner": 7}])
def test_without_a_record_there_is_no_table(selection):
    """As where another chooser keeps another one."""
    assert not any("Intelligence" in row for row in said(shown(selection=selection)))
