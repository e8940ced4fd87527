"""The models a user has: what each is called, who serves it, and what is known of it.

Owns the values and the user's order among them. Where they are written down is ``config``'s business, which one answers
a request is ``select``'s, and what is filled in from public tables is ``selection.facts``'.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from ipaddress import ip_address
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from antiphon.errors import ConfigError

__all__ = ["LOCAL", "PROVIDERS", "Catalogue", "Modality", "Model", "Price", "PriceStep", "Tier"]

Modality = Literal["text", "image", "audio"]
Tier = Literal[1, 2, 3, 4, 5]
"""1 is the slowest or the plainest, 5 the fastest or the cleverest."""

PROVIDERS = (
    *("openai", "anthropic", "google", "gemini", "openai-compatible", "echo"),
    *("alibaba", "cerebras", "cohere", "crusoe", "deepseek", "fireworks", "github", "groq", "meta", "mistral"),
    *("moonshotai", "nebius", "openrouter", "sambanova", "together", "vercel", "zai"),
)
"""Who can serve a model, by a key and an address alone; the second and third row as pydantic-ai has them."""

LOCAL = "local"
"""The reach of a model on this machine, or in its own network: no vendor sees what is asked."""
_MILLION = 1_000_000


class PriceStep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The price of requests beyond some number of input tokens; it then holds for all tokens of the request."""

    above: int
    """Input tokens."""
    input: Decimal
    output: Decimal


class Price(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a model costs, in US dollars per million tokens."""

    input: Decimal
    output: Decimal
    steps: tuple[PriceStep, ...] = ()
    """Dearer rates of long requests, in any order."""

    def __post_init__(self) -> None:
        for rate in (self, *self.steps):
            if not all(amount.is_finite() and amount >= 0 for amount in (rate.input, rate.output)):
                raise ValueError("a price is a number of dollars, 0 or more")

    def cost(self, input_tokens: int, output_tokens: int) -> Decimal:
        """Return the dollars that so many tokens cost."""
        passed = [step for step in self.steps if input_tokens > step.above]
        rate = max(passed, key=lambda step: step.above) if passed else self
        return (rate.input * input_tokens + rate.output * output_tokens) / _MILLION


class Model(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model of the user. ``None`` means that it is not known, never that it is not there."""

    name: str
    """What the user calls it; unique in the catalogue."""
    provider: str
    """Who serves it: ``"openai"``, ``"anthropic"``, ``"google"``, ``"openai-compatible"``, ..., or ``"echo"``."""
    model: str
    """What the provider calls it."""
    key: str | None = None
    """The environment variable that holds the key; by default the provider's usual one."""
    base_url: str | None = None
    """Where the provider is, if not at its usual address."""
    aliases: tuple[str, ...] = ()
    """Further names under which a server may hint at it."""
    family: str | None = None
    """For hints at its like: ``"claude-sonnet"``."""
    price: Price | None = None
    context: int | None = None
    """Tokens that request and answer may have together."""
    max_output: int | None = None
    """Tokens an answer can have; a request for more is cut to it."""
    inputs: tuple[Modality, ...] | None = None
    """What it takes; text is always taken."""
    tools: bool | None = None
    speed: Tier | None = None
    intelligence: Tier | None = None
    stream: bool = True
    """Whether its service can send an answer while it comes: wanted where somebody looks, and never otherwise."""
    fallback: str | None = None
    """The name of the model that answers where this one fails for good."""

    @property
    def reach(self) -> str:
        """How far a request travels: ``"local"``, or the provider, with the address where it is not the usual one."""
        host = urlsplit(self.base_url or "").hostname or ""
        if self.provider == "echo" or _is_near(host):
            return LOCAL
        return f"{self.provider}@{host}" if host else self.provider


def _is_near(host: str) -> bool:
    """Tell whether a host is this machine or one of its own network."""
    try:
        address = ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith((".localhost", ".local"))
    return address.is_loopback or address.is_private or address.is_link_local


class Catalogue:
    """The models of one user, by name, with the user's order among them."""

    def __init__(self, models: tuple[Model, ...], *, default: str | None = None, order: tuple[str, ...] = ()) -> None:
        """Collect the models.

        ``order`` lists names, the best first; models not in it come after those that are, all alike. In which order
        ``models`` come never matters.

        Raises:
            ConfigError: two models of one name, or a default, an order or a fallback that names none.
        """
        self._models: Mapping[str, Model] = {model.name: model for model in models}
        self.default = default
        self.order = order
        if len(self._models) < len(models):
            raise ConfigError("two models have one name: give each a name of its own")
        fallbacks = [model.fallback for model in models if model.fallback is not None]
        for name in (*([default] if default else ()), *order, *fallbacks):
            self.get(name)
        self._ranks = {name: at for at, name in reversed(list(enumerate(order)))}
        self._sorted = sorted(self._models.values(), key=lambda model: (self.rank(model), model.name))

    def __iter__(self) -> Iterator[Model]:
        """Yield the models by the user's order, those that are not in it last, by name."""
        return iter(self._sorted)

    def __len__(self) -> int:
        return len(self._models)

    def get(self, name: str) -> Model:
        """Return the model of this name.

        Raises:
            ConfigError: there is none; the message lists those there are.
        """
        found = self._models.get(name)
        if found is None:
            raise ConfigError(f"there is no model {name!r}; there are: {', '.join(self._models) or 'none'}")
        return found

    def rank(self, model: Model) -> int:
        """Return the place of a model in the user's wishes: -1 is the default, then the order, then all others."""
        return -1 if model.name == self.default else self._ranks.get(model.name, len(self.order))

    def fallbacks(self, name: str) -> list[Model]:
        """Return the models that stand in for this one, in turn; each once, however they refer to each other."""
        found: dict[str, Model] = {}
        following = self.get(name).fallback
        while following is not None and following != name and following not in found:
            found[following] = self.get(following)
            following = found[following].fallback
        return list(found.values())
