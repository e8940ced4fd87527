"""The record of one selection: what was asked for, every model with its chances, who won and by which rule.

Plain data that can be encoded as JSON. Figures are rounded here, for people; nothing is compared by them.
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
    """One sentence for people, with the remedy where there is one."""


class Scores(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a model did, each from 0 to 1, rounded."""

    cost: float
    speed: float
    intelligence: float
    total: float | None = None
    """Weighed by the priorities; ``None`` if there were none."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One model of the user, in a selection."""

    name: str
    provider: str
    model: str
    obstacles: tuple[Obstacle, ...] = ()
    """None of them: it is eligible."""
    left_by_hints: bool = False
    """Whether it is eligible and still in the race after the hints."""
    cost: Decimal | None = None
    """Dollars at worst: all of ``max_tokens`` used."""
    scores: Scores | None = None
    """``None`` if it is not eligible."""

    @property
    def eligible(self) -> bool:
        """Whether it could answer the request."""
        return not self.obstacles


class Selection(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which model answers a request, and why that one."""

    winner: str | None
    """Its name; ``None`` if no model is eligible."""
    rule: SelectionRule
    """What decided at last: the score, the user's default, the user's order, or nothing."""
    needs: Needs
    fallbacks: tuple[str, ...] = ()
    """Who may stand in if the winner fails, in turn: its fallbacks, as far as they are eligible themselves."""
    hint: str | None = None
    """The hint that was followed."""
    match: Match | None = None
    priorities: dict[str, float] = {}
    """Those above 0."""
    left: Decimal | None = None
    """The dollars there were to spend; ``None`` for no limit."""
    candidates: tuple[Candidate, ...] = ()
    """Every model of the user, in the user's order."""

    @property
    def why_none(self) -> str:
        """Say of each model, of five at most, why it cannot answer."""
        first = [f"{each.name}: {each.obstacles[0].detail}" for each in self.candidates if each.obstacles]
        return "; ".join(first[:5])


def kept_selection(kept: object) -> Selection | None:
    """Read what a review keeps of a choice; ``None`` where there was none, or another chooser keeps another record."""
    if kept is None:
        return None
    try:
        return msgspec.convert(kept, Selection, strict=False)
    except msgspec.ValidationError:
        return None
