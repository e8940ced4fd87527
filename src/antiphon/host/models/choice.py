"""Which model a request goes to, and at what price: the interface between the pipeline and a chooser of models.

Owns the values that cross it, and the chooser for providers that are a catalogue of models. ``select`` has the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import Any, Protocol, runtime_checkable

import msgspec

from antiphon.host.budget import Priced, find_dearest
from antiphon.host.model_catalogue import ModelCatalogue, ModelPrice
from antiphon.host.models.selection import Selection
from antiphon.host.providers.base import Provider, Usage
from antiphon.wire.origin import Origin
from antiphon.wire.sampling import CreateMessageRequestParams

_MUCH = Usage(input_tokens=1_000_000, output_tokens=1_000_000)
"""The usage at which prices are compared: prices are quoted per million tokens, and may rise for long requests."""


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """The model a request will go to."""

    model: str | None = None
    """``None`` for the provider's own model."""
    fallbacks: tuple[str, ...] = ()
    """Models to try in this order if it fails."""
    others: tuple[str, ...] = ()
    """Further models that could answer, in the user's order; a reviewer may choose one of them instead."""
    prices: Mapping[str | None, Priced | None] = msgspec.field(default_factory=dict[str | None, Priced | None])
    """Prices of all these models; ``None`` if unknown or free: then only tokens are counted."""
    reaches: Mapping[str | None, str] = msgspec.field(default_factory=dict[str | None, str])
    """How far a request to each of them travels, see ``Model.reach``; empty if the model is the provider's own."""
    selection: Any = None
    """The record of the selection, for reviewers: anything that can be encoded."""

    @property
    def price(self) -> Priced | None:
        """The price of the chosen model."""
        return self.prices.get(self.model)

    @property
    def at_stake(self) -> list[Priced | None]:
        """The prices of all models that may answer. The highest is what gets reserved."""
        return [self.prices.get(name) for name in (self.model, *self.fallbacks)]

    @property
    def known_prices(self) -> dict[str, Any]:
        """The prices that a reviewer can show, by model, as plain data."""
        known = ((name, price) for name, price in self.prices.items() if name is not None)
        return {name: msgspec.to_builtins(price) for name, price in known if isinstance(price, ModelPrice)}

    @property
    def price_class(self) -> int:
        """The highest cost of a million tokens in and a million out, in nano-dollars; 0 if no price is known."""
        return find_dearest(_MUCH, self.at_stake).money

    @property
    def reached(self) -> tuple[str, ...]:
        """How far a request may travel: to the model, or to one of its fallbacks."""
        return tuple(sorted({self.reaches[name] for name in (self.model, *self.fallbacks) if name in self.reaches}))

    def without(self, fallbacks: Collection[str]) -> Chosen:
        """Return this choice without some of its fallbacks.

        Args:
            fallbacks: names of the fallbacks to leave out.
        """
        left = tuple(name for name in self.fallbacks if name not in fallbacks)
        return msgspec.structs.replace(self, fallbacks=left)

    def instead(self, model: str) -> Chosen:
        """Return the choice of another model, without fallbacks, since a person chose it.

        Args:
            model: one of ``others``.
        """
        others = tuple(name for name in (self.model, *self.others) if name is not None and name != model)
        prices = self.prices if model in self.prices else {**self.prices, model: self.price}
        return msgspec.structs.replace(self, model=model, fallbacks=(), others=others, prices=prices)


class NoModel(Exception):
    """None of the models may answer; the text says why. ``is_budget``: with more budget one of them could."""

    def __init__(self, why: str, *, is_budget: bool = False) -> None:
        super().__init__(why)
        self.is_budget = is_budget


Choose = Callable[[CreateMessageRequestParams, Origin, Decimal | None], Chosen | None]
"""Chooses a model from the request, its origin, and the dollars that are left (``None`` for no limit). Returns ``None``
or raises ``NoModel`` if no model may answer."""


@runtime_checkable
class _Selecting(Protocol):
    """A provider that is a catalogue of models."""

    catalogue: ModelCatalogue

    def select(
        self, params: CreateMessageRequestParams, *, allowed: Collection[str] | None = None, left: Decimal | None = None
    ) -> Selection: ...


def make_chooser(
    provider: Provider, allowed: Callable[[Origin], Collection[str] | None] | None = None
) -> Choose | None:
    """Make the chooser for a provider of several models; ``allowed`` returns globs of those for a server."""
    if not isinstance(provider, _Selecting):
        return None
    selecting = provider

    def choose_model(params: CreateMessageRequestParams, origin: Origin, left: Decimal | None) -> Chosen | None:
        permitted = allowed(origin) if allowed else None
        selection = selecting.select(params, allowed=permitted, left=left)
        if selection.winner is None:
            too_dear = any(
                {obstacle.code for obstacle in each.obstacles} == {"too-dear"} for each in selection.candidates
            )
            raise NoModel(selection.why_none, is_budget=too_dear)
        names = [candidate.name for candidate in selection.candidates if candidate.eligible]
        return Chosen(
            model=selection.winner,
            fallbacks=selection.fallbacks,
            others=tuple(name for name in names if name != selection.winner),
            prices={name: selecting.catalogue.get(name).price for name in names},
            reaches={name: selecting.catalogue.get(name).reach for name in names},
            selection=selection,
        )

    return choose_model


def names_of(provider: Provider, allowed: Collection[str] | None) -> tuple[str, ...]:
    """Return the names of a provider's models that match one of the globs ``allowed``; ``None`` allows all."""
    names = [model.name for model in provider.catalogue] if isinstance(provider, _Selecting) else [provider.name]
    return tuple(name for name in names if allowed is None or any(fnmatchcase(name, glob) for glob in allowed))
