from __future__ import annotations

from antiphon.cli.output.formats import describe_verdict, make_score_columns
from antiphon.host.models.selection import Candidate, Needs, Obstacle, Scores, Selection

NEEDS = Needs(input_tokens=1, max_tokens=1)
FAST = Candidate(
    name="fast", provider="p", model="f", left_by_hints=True, scores=Scores(cost=1, speed=0.5, intelligence=0)
)
SMALL = Candidate(
    name="small", provider="p", model="s", obstacles=(Obstacle(code="no-tools", detail="it has no tools"),)
)


def row(selection: Selection, candidate: Candidate) -> list[str]:
    """Make one row of the table."""
    return [cell(candidate) for cell in make_score_columns(selection).values()]


def test_a_model_has_a_row():
    """What is not known is said, and why it cannot answer."""
    selection = Selection(winner="fast", rule="order", needs=NEEDS, candidates=(FAST, SMALL))
    assert row(selection, FAST) == ["fast", "yes", "none followed", "unknown", "1.0000", "0.5000", "0.0000", "-"]
    assert row(selection, SMALL)[:3] == ["small", "it has no tools", "-"]


def test_a_hint_is_told_where_it_was_followed():
    """In the row of each model it leaves, and in the verdict."""
    selection = Selection(winner="fast", rule="default", needs=NEEDS, hint="fas", match="substring", candidates=(FAST,))
    assert row(selection, FAST)[2] == "substring: fas"
    assert describe_verdict(selection) == "fast: your default, among those that the hint 'fas' leaves"


def test_the_verdict_names_the_rule():
    """Or that there is none."""
    scored = Selection(winner="fast", rule="score", needs=NEEDS, priorities={"speed": 0.5, "cost": 1.0})
    assert describe_verdict(scored) == "fast: the best score by speed 0.5, cost 1"
    assert describe_verdict(Selection(winner=None, rule="none", needs=NEEDS)) == "none of them can answer"
