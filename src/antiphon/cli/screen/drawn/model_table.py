"""The model, the reasons for it, and the costs of a request, as pieces.

Pure. The host chooses and counts; the texts are the page's.
"""

from __future__ import annotations

from collections.abc import Iterator

from antiphon.cli.screen.drawn.pieces import Piece, fact, ours, table, theirs, title
from antiphon.cli.screen.words import Words
from antiphon.host.budget import Amount, Costs, rounded_dollars
from antiphon.host.models.selection.record import Candidate, Selection
from antiphon.host.review.shown import Shown

__all__ = ["figures"]

_COLUMNS = ("name", "cost", "scost", "speed", "mind", "total")


def figures(shown: Shown, words: Words, model: str | None) -> Iterator[Piece]:
    """Show the model with its scores, the requested limits, and costs. ``model``: the one chosen instead."""
    item = shown.item
    if item is None:
        return
    yield title(words("model.title"))
    yield fact(words("model.name"), model or item.model or item.provider, "strong")
    yield fact(words("screen.provider"), item.provider)
    if model is not None:
        yield ours(words("screen.instead", model=item.model or item.provider), "warning")
    if shown.selection is not None:
        yield from _selection(shown.selection, words)
    for label, value in shown.facts:
        yield theirs(fact(words(label), value))
    if item.costs is not None:
        yield from _costs(item.costs, words)


def _selection(selection: Selection, words: Words) -> Iterator[Piece]:
    hint = "" if selection.hint is None else f" {words('model.hint')} {selection.hint}"
    yield ours(f"{words(f'rule.{selection.rule}')}{hint}", "dim")
    rows = [[words(f"model.{name}") for name in _COLUMNS]]
    rows += [_candidate(one, words) for one in selection.candidates]
    names = [one.name for one in selection.candidates]
    winner = selection.winner
    yield from table(rows, names.index(winner) + 1 if winner in names else None)


def _candidate(one: Candidate, words: Words) -> list[str]:
    if one.obstacles:
        reasons = ", ".join(words(f"obstacle.{obstacle.code}") for obstacle in one.obstacles)
        return [one.name, "-", "-", "-", "-", reasons]
    cost = "-" if one.cost is None else f"${one.cost}"
    scores = one.scores
    if scores is None:
        return [one.name, cost, "-", "-", "-", "-"]
    total = "-" if scores.total is None else str(scores.total)
    return [one.name, cost, str(scores.cost), str(scores.speed), str(scores.intelligence), total]


def _costs(costs: Costs, words: Words) -> Iterator[Piece]:
    yield title(words("cost.title"))
    for name, amount in (("low", costs.low), ("likely", costs.likely), ("worst", costs.worst)):
        yield fact(words(f"cost.{name}"), _amount(amount, words), "strong" if name == "worst" else "")
    yield fact(
        words("cost.left"),
        words("cost.unbounded") if costs.left is None else rounded_dollars(costs.left, up=False),
        "strong",
    )


def _amount(amount: Amount, words: Words) -> str:
    return f"{rounded_dollars(amount.money)}  {words('cost.tokens', n=amount.tokens)}"
