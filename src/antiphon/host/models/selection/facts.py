"""What is publicly known about a model and need not be configured: family, tiers, inputs, context, price.

Owns the table of families. The user's own values take precedence. Prices and contexts come from the data inside the
genai-prices package; nothing is downloaded.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec

from antiphon.host.catalogue import Modality, Model, Price, PriceStep, Tier

__all__ = ["FAMILIES", "Family", "completed", "family_of"]

_SEES: tuple[Modality, ...] = ("text", "image")
_HEARS: tuple[Modality, ...] = ("text", "image", "audio")
_READS: tuple[Modality, ...] = ("text",)
_SPEAKS: tuple[Modality, ...] = ("text", "audio")

_PRICED = {"gemini": "google", "openai-compatible": None, "ollama": None, "vllm": None, "echo": None, "manual": None}
"""Providers with another id in genai-prices, or without prices there, such as local ones."""
_EMBEDS = "embed"
"""In the name of nearly every model that makes embeddings, and of no other."""
_FREE = Price(input=Decimal(0), output=Decimal(0))


class Family(NamedTuple):
    """What the models of one family have in common, as far as it is known."""

    name: str
    pattern: re.Pattern[str]
    speed: Tier
    intelligence: Tier
    inputs: tuple[Modality, ...] | None
    tools: bool | None


def _family(name: str, pattern: str, tiers: tuple[Tier, Tier], inputs: tuple[Modality, ...] | None) -> Family:
    # If the inputs of a family are unknown, it is also unknown whether its models support tools.
    return Family(name, re.compile(pattern), *tiers, inputs, None if inputs is None else True)


# Tiers compare one vendor's sizes as the vendor does in its own overview of models. Between vendors they are a rough
# estimate; ``speed`` and ``intelligence`` in antiphon.toml override them. The first match counts. Open models differ
# by how they are served, so their inputs stay unknown until the user sets them.
FAMILIES: tuple[Family, ...] = (
    _family("claude-haiku", r"claude.*haiku", (4, 3), _SEES),
    _family("claude-sonnet", r"claude.*sonnet", (3, 4), _SEES),
    _family("claude-opus", r"claude.*opus", (2, 5), _SEES),
    _family("claude", r"claude", (3, 4), _SEES),
    _family("gpt-oss", r"gpt-oss", (3, 3), _READS),
    _family("gpt-audio", r"gpt-audio|gpt-4o.*audio", (3, 3), _SPEAKS),
    _family("gpt-3.5", r"gpt-3\.5", (4, 1), _READS),
    _family("gpt-nano", r"gpt-.*nano", (5, 2), _SEES),
    _family("gpt-mini", r"gpt-.*mini", (4, 3), _SEES),
    _family("gpt-pro", r"gpt-.*-pro", (1, 5), _SEES),
    _family("gpt-luna", r"gpt-.*-luna", (5, 3), _SEES),
    _family("gpt-terra", r"gpt-.*-terra", (4, 4), _SEES),
    _family("gpt-astra", r"gpt-.*-astra", (1, 5), _SEES),
    _family("gpt", r"(?:chat)?gpt-", (3, 4), _SEES),
    _family("o-mini", r"\bo[134]-mini", (3, 4), _SEES),
    _family("o", r"\bo[134]\b", (2, 5), _SEES),
    _family("gemini-flash-lite", r"gemini.*flash-lite", (5, 2), _HEARS),
    _family("gemini-flash", r"gemini.*flash", (4, 3), _HEARS),
    _family("gemini-pro", r"gemini.*pro", (2, 5), _HEARS),
    _family("gemini", r"gemini", (3, 4), _HEARS),
    _family("gemma", r"gemma", (4, 2), None),
    _family("llama", r"llama", (3, 2), None),
    _family("qwen", r"qwen", (3, 3), None),
    _family("mistral", r"mistral|ministral|magistral|codestral", (3, 3), None),
    _family("deepseek", r"deepseek", (2, 4), None),
    _family("echo", r"^echo$", (5, 1), _HEARS),
)


def family_of(name: str) -> Family | None:
    """Return the family that a model's name belongs to, or ``None``."""
    lowered = name.lower()
    return next((family for family in FAMILIES if family.pattern.search(lowered)), None)


def completed(model: Model) -> Model:
    """Fill in what is publicly known about a model where the user has set nothing; the rest stays unknown."""
    family = family_of(model.model)
    if family is not None:
        model = msgspec.structs.replace(
            model,
            family=model.family or family.name,
            speed=model.speed or family.speed,
            intelligence=model.intelligence or family.intelligence,
            inputs=family.inputs if model.inputs is None else model.inputs,
            tools=family.tools if model.tools is None else model.tools,
        )
    if model.embeddings is None and _EMBEDS in model.model.lower():
        model = msgspec.structs.replace(model, embeddings=True)
    if model.price is not None and model.context is not None:
        return model
    price, context = _listed(model)
    return msgspec.structs.replace(model, price=model.price or price, context=model.context or context)


def _listed(model: Model) -> tuple[Price | None, int | None]:
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
    return _price(found.get_prices(datetime.now(tz=UTC)), embeds=bool(model.embeddings)), found.context_window


def _price(listed: Any, *, embeds: bool) -> Price | None:
    """Convert a price of genai-prices: plain amounts, or a base with tiers by the number of input tokens."""
    rates = [listed.input_mtok, listed.output_mtok]
    if embeds and rates[1] is None:
        # Nothing is generated, so nothing is charged for it.
        rates[1] = Decimal(0)
    if any(rate is None for rate in rates):
        return None
    starts = sorted({tier.start for rate in rates for tier in getattr(rate, "tiers", ())})
    steps = [PriceStep(above=at, input=_rate(rates[0], at), output=_rate(rates[1], at)) for at in starts]
    return Price(input=_rate(rates[0], 0), output=_rate(rates[1], 0), steps=tuple(steps))


def _rate(rate: Any, at: int) -> Decimal:
    amount: Decimal = getattr(rate, "base", rate)
    for tier in getattr(rate, "tiers", ()):
        amount = tier.price if tier.start <= at else amount
    return amount
