"""The record of one selection: the request's preferences, every model with its chances, the winner and the rule.

Plain data that can be encoded as JSON. Numbers are rounded for people, and never used for comparison.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

import msgspec

from antiphon.host.models.selection.hints import Match
from antiphon.host.models.selection.needs import Needs

__all__ = ["Candidate", "Obstacle", "ObstacleCode", "Scores", "Selection", "SelectionRule", "kept_selection"]

ObstacleCode = Literal[
    "not-allowed",
    "unavailable",
    "no-image",
    "no-audio",
    "no-tools",
    "context-too-small",
    "too-dear",
    "inputs-unknown",
    "tools-unknown",
    "context-unknown",
    "price-unknown",
]
SelectionRule = Literal["score", "default", "order", "none"]


class Obstacle(msgspec.Struct, frozen=True, kw_only=True):
    """Why a model cannot answer a request."""

    code: ObstacleCode
    detail: str
    """One sentence for people; says what to do if there is something."""


class Scores(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The scores of a model, each from 0 to 1, rounded."""

    cost: float
    speed: float
    intelligence: float
    total: float | None = None
    """Weighted by the priorities; ``None`` if there were none."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One model of the user, in a selection."""

    name: str
    provider: str
    model: str
    obstacles: tuple[Obstacle, ...] = ()
    """Empty if the model is eligible."""
    left_by_hints: bool = False
    """Whether it is eligible and was not excluded by hints."""
    cost: Decimal | None = None
    """Dollars in the worst case, if all of ``max_tokens`` is used."""
    scores: Scores | None = None
    """``None`` if it is not eligible."""

    @property
    def eligible(self) -> bool:
        """Whether it could answer the request."""
        return not self.obstacles


class Selection(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which model answers a request, and why that one."""

    winner: str | None
    """Name of the model; ``None`` if no model is eligible."""
    rule: SelectionRule
    """What decided in the end: the score, the user's default, the user's order, or nothing."""
    needs: Needs
    fallbacks: tuple[str, ...] = ()
    """Models tried in this order if the winner fails: those of its fallbacks that are eligible themselves."""
    hint: str | None = None
    """The hint that was followed."""
    match: Match | None = None
    priorities: dict[str, float] = {}
    """The priorities above 0."""
    left: Decimal | None = None
    """Dollars that were left to spend; ``None`` for no limit."""
    candidates: tuple[Candidate, ...] = ()
    """All models of the user that are for such requests, in the user's order."""

    @property
    def why_none(self) -> str:
        """Say why the models cannot answer, for five of them at most."""
        first = [f"{each.name}: {each.obstacles[0].detail}" for each in self.candidates if each.obstacles]
        if not self.candidates:
            return "none of the models makes embeddings" if self.needs.embeddings else "all models make embeddings only"
        return "; ".join(first[:5])


def kept_selection(kept: object) -> Selection | None:
    """Decode the record in a review; ``None`` if there is none, or another chooser made it."""
    if kept is None:
        return None
    try:
        return msgspec.convert(kept, Selection, strict=False)
    except msgspec.ValidationError:
        return None
