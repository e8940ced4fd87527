"""Which model a request goes to, and at what price: the seam between the pipeline and whatever chooses.

Owns the values that cross it, and the chooser for providers that are a catalogue of models. The rules are ``select``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from decimal import Decimal
from typing import Any, Protocol, runtime_checkable

import msgspec

from antiphon.host.budget import Priced, dearest
from antiphon.host.catalogue import Catalogue
from antiphon.host.models.selection.record import Selection
from antiphon.host.providers.base import Provider, Usage
from antiphon.wire.origin import Origin
from antiphon.wire.sampling import CreateMessageRequestParams

__all__ = ["Choose", "Chosen", "NoModel", "chooser"]

_MUCH = Usage(input_tokens=1_000_000, output_tokens=1_000_000)
"""What prices are compared by: prices are given per million, and steps for long requests count."""


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """The model a request will go to."""

    model: str | None = None
    """``None`` for the provider's own."""
    fallbacks: tuple[str, ...] = ()
    """Who may stand in, in turn."""
    others: tuple[str, ...] = ()
    """Further models that could answer, in the user's order: whoever reviews may choose one of them instead."""
    prices: Mapping[str | None, Priced | None] = msgspec.field(default_factory=dict[str | None, Priced | None])
    """Of all of these; ``None`` where nobody knows, or it is free: only tokens are counted then."""
    reaches: Mapping[str | None, str] = msgspec.field(default_factory=dict[str | None, str])
    """How far a request to each of them travels, see ``Model.reach``; none where the model is the provider's own."""
    selection: Any = None
    """The record of the choice, for whoever reviews: anything that can be encoded."""

    @property
    def price(self) -> Priced | None:
        """The price of the model that answers."""
        return self.prices.get(self.model)

    @property
    def at_stake(self) -> list[Priced | None]:
        """The prices of those that may come to answer: the dearest of them is what is reserved."""
        return [self.prices.get(name) for name in (self.model, *self.fallbacks)]

    @property
    def price_class(self) -> int:
        """What a million tokens in and a million out cost at most, in nano-dollars; 0 where nobody knows."""
        return dearest(_MUCH, self.at_stake).money

    @property
    def reached(self) -> tuple[str, ...]:
        """How far a request may travel: to the model, or to one that stands in."""
        return tuple(sorted({self.reaches[name] for name in (self.model, *self.fallbacks) if name in self.reaches}))

    def without(self, fallbacks: Collection[str]) -> Chosen:
        """Leave out some of those who may stand in."""
        left = tuple(name for name in self.fallbacks if name not in fallbacks)
        return msgspec.structs.replace(self, fallbacks=left)

    def instead(self, model: str) -> Chosen:
        """Choose another model, which one of ``others`` is; nobody stands in for what a person chose."""
        others = tuple(name for name in (self.model, *self.others) if name is not None and name != model)
        prices = self.prices if model in self.prices else {**self.prices, model: self.price}
        return msgspec.structs.replace(self, model=model, fallbacks=(), others=others, prices=prices)


class NoModel(Exception):
    """None of the models may answer; the text says why of each, for the person on this side."""


Choose = Callable[[CreateMessageRequestParams, Origin, Decimal | None], Chosen | None]
"""Chooses a model: request, origin, dollars that are left (``None`` for no bound).

``None``, or ``NoModel`` raised: none may answer."""


@runtime_checkable
class _Selecting(Protocol):
    """A provider that is a catalogue of models."""

    catalogue: Catalogue

    def select(
        self,
        params: CreateMessageRequestParams,
        *,
        allowed: Collection[str] | None = None,
        left: Decimal | None = None,
    ) -> Selection: ...


def chooser(provider: Provider, allowed: Callable[[Origin], Collection[str] | None] | None = None) -> Choose | None:
    """Make the chooser for a provider; ``None`` if it has nothing to choose from.

    ``allowed`` says which models a server may use, as globs; ``None`` for any.
    """
    if not isinstance(provider, _Selecting):
        return None
    selecting = provider

    def choose(params: CreateMessageRequestParams, origin: Origin, left: Decimal | None) -> Chosen | None:
        permitted = allowed(origin) if allowed else None
        selection = selecting.select(params, allowed=permitted, left=left)
        if selection.winner is None:
            raise NoModel(selection.why_none)
        names = [candidate.name for candidate in selection.candidates if candidate.eligible]
        return Chosen(
            model=selection.winner,
            fallbacks=selection.fallbacks,
            others=tuple(name for name in names if name != selection.winner),
            prices={name: selecting.catalogue.get(name).price for name in names},
            reaches={name: selecting.catalogue.get(name).reach for name in names},
            selection=selection,
        )

    return choose
