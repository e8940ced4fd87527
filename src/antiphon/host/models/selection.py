"""What the choice of a model goes by: facts about models, hints of servers, needs of requests; and its record.

* Facts that are publicly known need not be configured: family, tiers, inputs, context, price. The user's own values
  take precedence. Prices and contexts come from the data inside the genai-prices package; nothing is downloaded.
* A hint matches a model exactly, by an alias, by family, as part of a name, or not at all. 2025-11-25 client/sampling,
  "Model Preferences": hints are "substrings that can match model names flexibly", "evaluated in order of preference",
  and the client "MAY map hints to equivalent models from different providers".
* Tokens that a request needs are estimated as for the ``budget``, so that the two agree.
* The record has the request's preferences, every model with its chances, the winner and the rule: plain data that can
  be encoded as JSON. Numbers are rounded for people, and never used for comparison.
* The interface between the pipeline and a chooser of models is here, too; ``select`` has the rules.
* Without a configuration, the model is that of the vendor whose key is in the environment.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import msgspec

from antiphon.errors import ConfigError
from antiphon.host.budget import find_dearest, input_estimate
from antiphon.host.checks.message_parts import list_blocks
from antiphon.host.model_catalogue import PROVIDERS, Modality, Model, ModelCatalogue, ModelPrice, PriceStep, Tier
from antiphon.host.providers.base import Provider, Usage
from antiphon.wire.content import AudioContent, ImageContent, ToolResultContent, ToolUseContent
from antiphon.wire.origin import Origin
from antiphon.wire.sampling import CreateMessageRequestParams

_PRICED = {"gemini": "google", "openai-compatible": None, "ollama": None, "vllm": None, "echo": None, "manual": None}
"""Providers with another id in genai-prices, or without prices there, such as local ones."""
_FREE = ModelPrice(input=Decimal(0), output=Decimal(0))

Match = Literal["exact", "alias", "family", "substring"]

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


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """What the models of one family have in common; see ``model_families.toml``."""

    name: str
    pattern: str
    speed: Tier
    intelligence: Tier
    inputs: tuple[Modality, ...] | None = None
    tools: bool | None = None


_FAMILIES_FILE = Path(__file__).with_name("model_families.toml")
FAMILIES = msgspec.toml.decode(_FAMILIES_FILE.read_bytes(), type=dict[str, tuple[Family, ...]])["family"]


def family_of(name: str) -> Family | None:
    """Return the family that a model's name belongs to, or ``None``."""
    lowered = name.lower()
    return next((family for family in FAMILIES if re.search(family.pattern, lowered)), None)


def complete_model(model: Model) -> Model:
    """Fill in what is publicly known about a model where the user has set nothing; the rest stays unknown."""
    model = _add_family(model)
    if model.price is not None and model.context is not None:
        return model
    price, context = _look_up_price(model)
    return msgspec.structs.replace(model, price=model.price or price, context=model.context or context)


def _add_family(model: Model) -> Model:
    family = family_of(model.model)
    if family is None:
        return model
    return msgspec.structs.replace(
        model,
        family=model.family or family.name,
        speed=model.speed or family.speed,
        intelligence=model.intelligence or family.intelligence,
        inputs=family.inputs if model.inputs is None else model.inputs,
        tools=family.tools if model.tools is None else model.tools,
    )


def _look_up_price(model: Model) -> tuple[ModelPrice | None, int | None]:
    """Look a model up in genai-prices: its price today, and its context."""
    if model.provider == "echo":
        return _FREE, 10_000_000  # it reads only the last text, however long the request
    service = _PRICED.get(model.provider, model.provider)
    # At another address it is another service, with other prices.
    if service is None or model.base_url is not None:
        return None, None
    try:
        from genai_prices.data_snapshot import get_snapshot
    except ImportError:
        return None, None
    try:
        _, found = get_snapshot().find_provider_model(model.model, None, service, None)
    except LookupError:
        return None, None
    return _convert_price(found.get_prices(datetime.now(tz=UTC))), found.context_window


def _convert_price(listed: Any) -> ModelPrice | None:
    """Convert a price of genai-prices: plain amounts, or a base with tiers by the number of input tokens."""
    rates = [listed.input_mtok, listed.output_mtok]
    if any(rate is None for rate in rates):
        return None
    starts = sorted({tier.start for rate in rates for tier in getattr(rate, "tiers", ())})
    steps = [PriceStep(above=at, input=_find_rate(rates[0], at), output=_find_rate(rates[1], at)) for at in starts]
    return ModelPrice(input=_find_rate(rates[0], 0), output=_find_rate(rates[1], 0), steps=tuple(steps))


def _find_rate(rate: Any, at: int) -> Decimal:
    amount: Decimal = getattr(rate, "base", rate)
    for tier in getattr(rate, "tiers", ()):
        amount = tier.price if tier.start <= at else amount
    return amount


class Followed(NamedTuple):
    """The models left after applying hints."""

    models: list[Model]
    hint: str | None = None
    """The hint that decided; ``None`` if no hint matches any model."""
    match: Match | None = None


def match_hint(hint: str, model: Model) -> Match | None:
    """Return how well a hint matches a model, ignoring case. An empty hint matches nothing."""
    wanted = hint.strip().casefold()
    if not wanted:
        return None
    names = {model.name.casefold(), model.model.casefold()}
    if wanted in names:
        return "exact"
    if wanted in {alias.casefold() for alias in model.aliases}:
        return "alias"
    if model.family is not None:
        family = family_of(wanted)
        if model.family.casefold() in {wanted, family.name if family else wanted}:
            return "family"
    return "substring" if any(wanted in name for name in names) else None


def follow_hints(hints: Sequence[str], models: Sequence[Model]) -> Followed:
    """Keep the best matches of the first hint that matches any model; keep all models if no hint does."""
    for hint in hints:
        fits = [(match_hint(hint, model), model) for model in models]
        for level in ("exact", "alias", "family", "substring"):
            best = [model for found, model in fits if found == level]
            if best:
                return Followed(best, hint, level)
    return Followed(list(models))


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    """What a model must support for one request."""

    inputs: tuple[Modality, ...] = ()
    """Inputs in addition to text."""
    tools: bool = False
    input_tokens: int = 0
    """Estimated."""
    max_tokens: int = 1
    """Most tokens of the answer."""


def needs_of(params: CreateMessageRequestParams) -> Needs:
    """Determine what a request needs. Tools in its history count, since a model without tools cannot read that."""
    held = [placed.block for placed in list_blocks(params)]
    inputs: list[Modality] = []
    if any(isinstance(block, ImageContent) for block in held):
        inputs.append("image")
    if any(isinstance(block, AudioContent) for block in held):
        inputs.append("audio")
    return Needs(
        inputs=tuple(inputs),
        tools=bool(params.tools) or any(isinstance(block, ToolUseContent | ToolResultContent) for block in held),
        input_tokens=input_estimate(params),
        max_tokens=params.max_tokens,
    )


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
        return "; ".join([f"{each.name}: {each.obstacles[0].detail}" for each in self.candidates if each.obstacles][:5])


def read_selection(kept: object) -> Selection | None:
    """Decode the record in a review; ``None`` if there is none, or another chooser made it."""
    if kept is None:
        return None
    try:
        return msgspec.convert(kept, Selection, strict=False)
    except msgspec.ValidationError:
        return None


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
    prices: Mapping[str | None, ModelPrice | None] = msgspec.field(default_factory=dict[str | None, ModelPrice | None])
    """Prices of all these models; ``None`` if unknown or free: then only tokens are counted."""
    reaches: Mapping[str | None, str] = msgspec.field(default_factory=dict[str | None, str])
    """How far a request to each of them travels, see ``Model.reach``; empty if the model is the provider's own."""
    selection: Any = None
    """The record of the selection, for reviewers: anything that can be encoded."""

    @property
    def price(self) -> ModelPrice | None:
        """The price of the chosen model."""
        return self.prices.get(self.model)

    @property
    def at_stake(self) -> list[ModelPrice | None]:
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
    names = [each.name for each in provider.catalogue.given] if isinstance(provider, _Selecting) else [provider.name]
    return tuple(name for name in names if allowed is None or any(fnmatchcase(name, glob) for glob in allowed))


class _Usual(msgspec.Struct, frozen=True, kw_only=True):
    """How a vendor is found in the environment; see ``vendor_variables.toml``."""

    keys: tuple[str, ...]
    base_url: str
    """Name of the variable with another address."""
    chosen: str
    """Name of the variable with another model."""
    model: str
    """A model of the vendor's middle size: good enough to judge by, and costs cents for a first try."""


_USUAL_FILE = Path(__file__).with_name("vendor_variables.toml")
USUAL = msgspec.toml.decode(_USUAL_FILE.read_bytes(), type=dict[str, _Usual])
KEY_NAMES = " or ".join(name for usual in USUAL.values() for name in usual.keys)
"""The variables that may hold a key, for messages."""
_ASSUMED_CONTEXT = 32_768
"""Tokens. A local service says nothing about its model; most that support tools accept at least this many."""


def standard_model(environ: Mapping[str, str]) -> Model:
    """Return the default model: that of a vendor whose key or address is set.

    Without any, it is the first vendor's, and refuses for want of its key: an echo would pass for a real answer.
    """
    for provider, usual in USUAL.items():
        if any(environ.get(name) for name in (*usual.keys, usual.base_url)):
            return model_of(provider, None, environ)
    return model_of(next(iter(USUAL)), None, environ)


def model_of(provider: str, model: str | None, environ: Mapping[str, str]) -> Model:
    """Make a model from the name of a provider and, optionally, of a model, at the address in the environment.

    At an address of the user's own, any model may be served. To be usable without a file, it is assumed to accept tools
    and images, and to cost as much as the vendor's default model. An unknown provider raises ``ConfigError``.
    """
    if provider not in PROVIDERS:
        raise ConfigError(f'There is no provider "{provider}"; there are: {", ".join(("manual", *PROVIDERS))}')
    usual = USUAL.get(provider)
    chosen = model or (usual and (environ.get(usual.chosen) or usual.model)) or provider
    found = fill_in_model(Model(name=chosen, provider=provider, model=chosen), environ)
    if usual is None or found.base_url is None:
        return found
    alike = complete_model(Model(name=chosen, provider=provider, model=usual.model))
    return msgspec.structs.replace(
        found,
        context=found.context or _ASSUMED_CONTEXT,
        inputs=found.inputs or ("text", "image"),
        tools=True if found.tools is None else found.tools,
        price=found.price or alike.price,
    )


def fill_in_model(model: Model, environ: Mapping[str, str]) -> Model:
    """Fill in the address of a model from the environment, and what its family has in common."""
    usual = USUAL.get(model.provider)
    if usual is None or model.base_url is not None or not environ.get(usual.base_url):
        return _add_family(model)
    is_keyless = model.provider == "openai" and model.key is None and not any(environ.get(name) for name in usual.keys)
    # A local service needs no key; one that does uses the variable of the vendor.
    provider = "openai-compatible" if is_keyless else model.provider
    return _add_family(msgspec.structs.replace(model, base_url=environ[usual.base_url], provider=provider))
