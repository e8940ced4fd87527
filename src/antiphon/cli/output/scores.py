"""How a model was chosen, for people: a row for each model, and the result.

Pure. Owns the texts; ``formats`` prints tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from antiphon.host.budget import convert_to_nano, format_dollars
from antiphon.host.models.selection import Candidate, Selection


def make_score_columns(selection: Selection) -> Mapping[str, Callable[[Candidate], str]]:
    """Return the columns of the score table, with functions for the cells."""
    return {
        "model": lambda each: each.name,
        "eligible": lambda each: "; ".join(one.detail for one in each.obstacles) or "yes",
        "hints": lambda each: _describe_hint(each, selection),
        "at worst": lambda each: "unknown" if each.cost is None else format_dollars(convert_to_nano(each.cost)),
        "cost": lambda each: _format_score(each.scores.cost if each.scores else None),
        "speed": lambda each: _format_score(each.scores.speed if each.scores else None),
        "intelligence": lambda each: _format_score(each.scores.intelligence if each.scores else None),
        "score": lambda each: _format_score(each.scores.total if each.scores else None),
    }


def describe_verdict(selection: Selection) -> str:
    """Say which model was chosen, and by which rule."""
    if selection.winner is None:
        return "none of them can answer"
    rules = {
        "score": "the best score by " + ", ".join(f"{name} {value:g}" for name, value in selection.priorities.items()),
        "default": "your default",
        "order": "the first of your order",
    }
    hint = f", among those that the hint {selection.hint!r} leaves" if selection.hint is not None else ""
    return f"{selection.winner}: {rules.get(selection.rule, selection.rule)}{hint}"


def _describe_hint(candidate: Candidate, selection: Selection) -> str:
    if selection.hint is None:
        return "none followed" if candidate.eligible else "-"
    return f"{selection.match}: {selection.hint}" if candidate.left_by_hints else "-"


def _format_score(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
