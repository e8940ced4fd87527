"""How a server's hint matches a model: exactly, by an alias, by family, as part of a name, or not at all.

2025-11-25 client/sampling, "Model Preferences": hints are "substrings that can match model names flexibly", "evaluated
in order of preference", and the client "MAY map hints to equivalent models from different providers".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from antiphon.host.catalogue import Model
from antiphon.host.models.selection.facts import family_of

__all__ = ["Followed", "Match", "follow", "match"]

Match = Literal["exact", "alias", "family", "substring"]

_BEST_FIRST: tuple[Match, ...] = ("exact", "alias", "family", "substring")


class Followed(NamedTuple):
    """The models left after applying hints."""

    models: list[Model]
    hint: str | None = None
    """The hint that decided; ``None`` if no hint matches any model."""
    match: Match | None = None


def match(hint: str, model: Model) -> Match | None:
    """Return how well a hint matches a model, ignoring case. An empty hint matches nothing."""
    wanted = hint.strip().casefold()
    if not wanted:
        return None
    names = {model.name.casefold(), model.model.casefold()}
    if wanted in names:
        return "exact"
    if wanted in {alias.casefold() for alias in model.aliases}:
        return "alias"
    if _is_of_family(wanted, model):
        return "family"
    return "substring" if any(wanted in name for name in names) else None


def _is_of_family(wanted: str, model: Model) -> bool:
    if model.family is None:
        return False
    family = family_of(wanted)
    return model.family.casefold() in {wanted, family.name if family else wanted}


def follow(hints: Sequence[str], models: Sequence[Model]) -> Followed:
    """Keep the best matches of the first hint that matches any model; keep all models if no hint does."""
    for hint in hints:
        fits = [(match(hint, model), model) for model in models]
        for level in _BEST_FIRST:
            best = [model for found, model in fits if found == level]
            if best:
                return Followed(best, hint, level)
    return Followed(list(models))
