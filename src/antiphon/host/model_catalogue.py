"""The models a user has: their names, their providers, and what is known about them.

Owns the values, and the user's order of models. ``config`` reads them, ``select`` chooses one for a request, and
``selection.facts`` fills in what public tables know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from functools import cached_property
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from antiphon.errors import ConfigError
from antiphon.machine.ip_addresses import is_public

Modality = Literal["text", "image", "audio"]
Tier = Literal[1, 2, 3, 4, 5]
"""From 1, the slowest or least capable, to 5, the fastest or most capable."""

PROVIDERS = (
    *("openai", "anthropic", "google", "gemini", "openai-compatible", "echo"),
    *("alibaba", "cerebras", "cohere", "crusoe", "deepseek", "fireworks", "github", "groq", "meta", "mistral"),
    *("moonshotai", "nebius", "openrouter", "sambanova", "together", "vercel", "zai"),
)
"""Providers that need only a key and an address; the second and third row in pydantic-ai's names."""

LOCAL = "local"
"""The reach of a model on this machine, or in its own network: no vendor sees the request."""
_MILLION = 1_000_000


class PriceStep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The price of requests with more than some number of input tokens; it applies to all tokens of such a request."""

    above: int
    """Number of input tokens."""
    input: Decimal
    output: Decimal


class ModelPrice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a model costs, in US dollars per million tokens."""

    input: Decimal
    output: Decimal
    steps: tuple[PriceStep, ...] = ()
    """Higher rates for long requests, in any order."""

    def __post_init__(self) -> None:
        for rate in (self, *self.steps):
            if not all(amount.is_finite() and amount >= 0 for amount in (rate.input, rate.output)):
                raise ValueError("a price is a number of dollars, 0 or more")

    def cost(self, input_tokens: int, output_tokens: int) -> Decimal:
        """Return the cost of some tokens, in dollars.

        Args:
            input_tokens: number of tokens read.
            output_tokens: number of tokens generated.
        """
        passed = [step for step in self.steps if input_tokens > step.above]
        rate = max(passed, key=lambda step: step.above) if passed else self
        return (rate.input * input_tokens + rate.output * output_tokens) / _MILLION


class Model(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model of the user. ``None`` means unknown, not absent."""

    name: str
    """The user's name for it; unique in the catalogue."""
    provider: str
    """The provider: ``"openai"``, ``"anthropic"``, ``"google"``, ``"openai-compatible"``, ..., or ``"echo"``."""
    model: str
    """The provider's name for it."""
    key: str | None = None
    """The environment variable that holds the key; by default the provider's usual one."""
    base_url: str | None = None
    """Address of the provider, if it is not the usual one."""
    aliases: tuple[str, ...] = ()
    """Further names under which a server may hint at it."""
    family: str | None = None
    """Lets hints match similar models: ``"claude-sonnet"``."""
    price: ModelPrice | None = None
    context: int | None = None
    """Most tokens of request and answer together."""
    max_output: int | None = None
    """Most tokens of an answer; a request for more is lowered to this."""
    inputs: tuple[Modality, ...] | None = None
    """Media types it accepts; text is always accepted."""
    tools: bool | None = None
    speed: Tier | None = None
    intelligence: Tier | None = None
    stream: bool = True
    """Whether its service can send an answer while it comes: wanted where somebody looks, and never otherwise."""
    fallback: str | None = None
    """Name of the model that answers if this one fails for good."""

    @property
    def reach(self) -> str:
        """How far a request travels: ``"local"``, or the provider, with its address if that is not the usual one."""
        host = urlsplit(self.base_url or "").hostname or ""
        if self.provider == "echo" or _is_near(host):
            return LOCAL
        return f"{self.provider}@{host}" if host else self.provider


def _is_near(host: str) -> bool:
    """Return whether a host is this machine or in its own network."""
    try:
        return not is_public(host)
    except ValueError:
        return host == "localhost" or host.endswith((".localhost", ".local"))


class ModelCatalogue:
    """The models of one user by name, and the user's order of them."""

    def __init__(
        self,
        models: tuple[Model, ...],
        *,
        default: str | None = None,
        order: tuple[str, ...] = (),
        complete: Callable[[Model], Model] | None = None,
    ) -> None:
        """Collect the models; raise ``ConfigError`` if two have one name, or a name refers to no model.

        ``order`` lists names, the preferred first; all other models come after these, as equals. The order of
        ``models`` never matters. ``complete`` looks up what is known of a model, when the first one is asked for.
        """
        self._given: Mapping[str, Model] = {model.name: model for model in models}
        self._complete = complete
        self.default = default
        self.order = order
        if len(self._given) < len(models):
            raise ConfigError("two models have one name: give each a name of its own")
        fallbacks = [model.fallback for model in models if model.fallback is not None]
        for name in (*([default] if default else ()), *order, *fallbacks):
            self._find(name, self._given)
        self._ranks = {name: at for at, name in reversed(list(enumerate(order)))}
        self.given = sorted(models, key=lambda model: (self.rank(model), model.name))
        """The models in the user's order, without what is looked up."""

    def __iter__(self) -> Iterator[Model]:
        """Yield the models in the user's order, all others after them by name."""
        return iter(self._models.values())

    def __len__(self) -> int:
        return len(self._given)

    @cached_property
    def _models(self) -> Mapping[str, Model]:
        return {each.name: self._complete(each) if self._complete else each for each in self.given}

    def get(self, name: str) -> Model:
        """Return the model of a name; if there is none, raise ``ConfigError``, which lists the names."""
        return self._find(name, self._models)

    def _find(self, name: str, models: Mapping[str, Model]) -> Model:
        found = models.get(name)
        if found is None:
            known = ", ".join(self._given) or "none"
            # Without a file and without a key there is only this one, and its name does not say where others come from.
            more = " (others: in antiphon.toml, or by a vendor's API key)" if known == "echo" else ""
            raise ConfigError(f"there is no model {name!r}; there are: {known}{more}")
        return found

    def rank(self, model: Model) -> int:
        """Return the position of a model in the user's order: -1 is the default, then the order, then all others."""
        return -1 if model.name == self.default else self._ranks.get(model.name, len(self.order))

    def fallbacks(self, name: str) -> list[Model]:
        """Return the fallbacks of a model in order, each once, even if they refer to each other."""
        found: dict[str, Model] = {}
        following = self.get(name).fallback
        while following is not None and following != name and following not in found:
            found[following] = self.get(following)
            following = found[following].fallback
        return list(found.values())
