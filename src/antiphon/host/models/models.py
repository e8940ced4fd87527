"""``Models``: all of a user's models as one provider. ``select_model`` chooses one for each request.

Owns the vendors' clients, which are made on first use or by ``warm``, and the change to a fallback when a model fails.
Vendors' libraries are not imported before that. Owns retries as well: how often, how long to wait, and when a fallback
may be tried.

``select_model`` is pure, and the only place that knows the order of the rules: eligibility, hints, then priorities or
the user's order.

* The order in which the catalogue lists its models never matters; the user's order is a value of its own.
* Removing a model that was not selected never changes the selection.
* Raising one priority never selects a model that is worse in that respect.
* Hints never widen the choice: a model that is not eligible stays so, whatever a server asks for.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from decimal import Context, Decimal
from fnmatch import fnmatchcase
from fractions import Fraction
from functools import lru_cache, partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec

from antiphon.errors import ConfigError
from antiphon.host.model_catalogue import Model, ModelCatalogue, Tier
from antiphon.host.models import selection
from antiphon.host.models.selection import Selection, needs_of
from antiphon.host.providers import Echo
from antiphon.host.providers.base import Completion, FailureKind, Growth, ProviderFailure, Usage, find_key, missing_key
from antiphon.machine.public_names import describe_install
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult, ModelPreferences

if TYPE_CHECKING:
    from antiphon.host.providers.vendor.adapter import Vendor

T = TypeVar("T")

_PASSING: frozenset[FailureKind] = frozenset({"rate-limit", "timeout", "connection", "unavailable"})
"""Failures that may be temporary."""
_OF_THE_REQUEST: frozenset[FailureKind] = frozenset({"refused", "rejected", "context", "unsupported"})
"""Failures that would happen with any model; trying the next one would only shop around for a yes."""


_chance = random.SystemRandom().random


class RetryPatience(msgspec.Struct, frozen=True, kw_only=True):
    """How often and how long to retry."""

    attempts: int = 3
    """Number of attempts in all."""
    first_wait: float = 0.5
    """Seconds before the second attempt, doubled each time, minus a random part of up to a fifth."""
    longest_wait: float = 60.0
    """Most seconds between attempts. If a service asks for more, the attempt has failed."""
    deadline: float | None = 300.0
    """Seconds for all attempts together, including fallbacks."""


def may_stand_in(failure: ProviderFailure) -> bool:
    """Return whether a fallback may succeed, and the reservation is still unused and can pay for it."""
    return failure.kind not in _OF_THE_REQUEST and not failure.charged


async def retry_patiently(
    attempt: Callable[[], Awaitable[T]],
    patience: RetryPatience,
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    chance: Callable[[], float] = _chance,
) -> T:
    """Call ``attempt`` until it succeeds, fails for good, or the attempts are used up; the last failure is raised.

    An attempt that may have been charged is the last one, because the reservation of a request pays for one only.
    ``longest_wait`` of ``patience`` bounds each wait; the caller enforces the deadline over all of them.
    """
    wait = patience.first_wait
    for left in range(max(patience.attempts, 1) - 1, -1, -1):
        try:
            return await attempt()
        except ProviderFailure as failure:
            # Randomly shorter, so that clients that failed together do not return together.
            pause = wait * (1 - chance() / 5) if failure.retry_after is None else failure.retry_after
            if left == 0 or failure.charged or failure.kind not in _PASSING or pause > patience.longest_wait:
                raise
        await sleep(max(pause, 0.0))
        wait *= 2
    raise AssertionError("the loop returns or raises")


_DECADES = 5
"""Decades of the scale for cost: from $1e-5 per request (a short one to the smallest models) to $1."""
_TIERS = tuple(Fraction(steps, 4) for steps in range(5))
_DIGITS = Context(prec=12)
"""Correctly rounded, so that the logarithm is the same on every platform, and monotonic."""


Parts = tuple[Fraction, Fraction, Fraction]
"""Values from 0 to 1 for cost, speed and intelligence: what a server prefers, or how a model scores."""


def priorities_of(wishes: ModelPreferences | None) -> Parts:
    """Return the priorities of a request; absent ones are 0."""
    given = (None,) * 3
    if wishes is not None:
        given = (wishes.cost_priority, wishes.speed_priority, wishes.intelligence_priority)
    cost, speed, intelligence = (Fraction(value or 0) for value in given)
    return cost, speed, intelligence


@lru_cache(4_096)
def cost_score(dollars: Decimal | None) -> Fraction:
    """Score a cost on a logarithmic scale: 1 at $1e-5 per request and below, 0 at $1 and above, or if unknown."""
    if dollars is None or dollars >= 1:
        return Fraction(0)
    if dollars <= Decimal(10) ** -_DECADES:
        return Fraction(1)
    return Fraction(-dollars.log10(_DIGITS)) / _DECADES


def tier_score(tier: Tier | None) -> Fraction:
    """Score a tier: 0 for the lowest, 1 for the highest; an unknown one counts as the lowest."""
    return _TIERS[(tier or 1) - 1]


def weigh_scores(priorities: Parts, scores: Parts) -> Fraction:
    """Return the weighted sum of the scores, not divided by the sum of the priorities, which all models share."""
    # One fraction is made at the end and not one for each step, because this runs for each model of each request.
    numerator, denominator = 0, 1
    for priority, part in zip(priorities, scores, strict=True):
        below = priority.denominator * part.denominator
        numerator = numerator * below + priority.numerator * part.numerator * denominator
        denominator *= below
    return Fraction(numerator, denominator)


def select_model(
    needs: selection.Needs,
    wishes: ModelPreferences | None,
    catalogue: ModelCatalogue,
    *,
    allowed: Collection[str] | None = None,
    left: Decimal | None = None,
    unavailable: Mapping[str, str] | None = None,
) -> selection.Selection:
    """Choose a model.

    ``allowed``: globs over names, one of which must match; ``None`` for any model. ``left``: dollars the request may
    cost in the worst case; ``None`` for no limit. ``unavailable``: why a model cannot be used now, by its name.
    """
    judged = [
        _Judged(
            model,
            cost := model.price
            and model.price.cost(needs.input_tokens, min(needs.max_tokens, model.max_output or needs.max_tokens)),
            tuple(_list_obstacles(model, cost, needs, allowed, left, unavailable or {})),
        )
        for model in catalogue
    ]
    eligible = [each.model for each in judged if not each.obstacles]
    followed = selection.follow_hints([hint.name or "" for hint in (wishes.hints if wishes else None) or ()], eligible)
    priorities = priorities_of(wishes)
    total = sum(priorities, Fraction(0))
    scored = {each.model.name: _score_model(each, priorities) for each in judged if not each.obstacles}
    winner, rule = _decide_winner([scored[model.name] for model in followed.models], catalogue, weighed=total > 0)
    fallbacks = catalogue.fallbacks(winner.name) if winner else ()
    shown = zip(("cost", "speed", "intelligence"), priorities, strict=True)
    return selection.Selection(
        winner=winner.name if winner else None,
        fallbacks=tuple(model.name for model in fallbacks if model in eligible),
        rule=rule,
        needs=needs,
        hint=followed.hint,
        match=followed.match,
        priorities={name: float(value) for name, value in shown if value},
        left=left,
        candidates=tuple(_make_candidate(each, scored.get(each.model.name), followed, total) for each in judged),
    )


class _Judged(NamedTuple):
    model: Model
    cost: Decimal | None
    obstacles: tuple[selection.Obstacle, ...]


class _Scored(NamedTuple):
    judged: _Judged
    parts: Parts
    sum: Fraction
    """Sum of the scores weighted by the priorities. Not divided by the sum of the priorities, which is the same for
    all."""


def _score_model(judged: _Judged, priorities: Parts) -> _Scored:
    model = judged.model
    parts = cost_score(judged.cost), tier_score(model.speed), tier_score(model.intelligence)
    return _Scored(judged, parts, weigh_scores(priorities, parts))


def _decide_winner(
    models: list[_Scored], catalogue: ModelCatalogue, *, weighed: bool
) -> tuple[Model | None, selection.SelectionRule]:
    """Choose among the models that are left."""

    def in_order(scored: _Scored) -> tuple[int, bool, Decimal, str]:
        # The user's order, then cost, then name. The default model comes first, see ``ModelCatalogue.rank``.
        model, cost, _ = scored.judged
        return catalogue.rank(model), cost is None, cost or Decimal(0), model.name

    if not models:
        return None, "none"
    if not weighed:
        first = min(models, key=in_order).judged.model
        return first, "default" if first.name == catalogue.default else "order"
    # ``min`` over the negative sum takes the highest sum, and among equal ones the first by ``in_order``.
    return min(models, key=lambda scored: (-scored.sum, in_order(scored))).judged.model, "score"


def _list_obstacles(
    model: Model,
    cost: Decimal | None,
    needs: selection.Needs,
    allowed: Collection[str] | None,
    left: Decimal | None,
    unavailable: Mapping[str, str],
) -> Iterator[selection.Obstacle]:
    """Yield everything that keeps a model from answering. What is unknown about it counts as an obstacle."""
    if allowed is not None and not any(fnmatchcase(model.name, glob) for glob in allowed):
        yield selection.Obstacle(code="not-allowed", detail="this server may not use it")
    if model.name in unavailable:
        yield selection.Obstacle(code="unavailable", detail=unavailable[model.name])
    yield from _list_lacking(model, needs)
    yield from _too_small(model, needs)
    yield from _too_dear(cost, left)


def _list_lacking(model: Model, needs: selection.Needs) -> Iterator[selection.Obstacle]:
    if needs.inputs and model.inputs is None:
        yield selection.Obstacle(
            code="inputs-unknown", detail="whether it takes more than text is not known: set inputs"
        )
    for kind in needs.inputs:
        if model.inputs is not None and kind not in model.inputs:
            code = "no-image" if kind == "image" else "no-audio"
            yield selection.Obstacle(code=code, detail=f"it takes no {kind}")
    if needs.tools and model.tools is None:
        yield selection.Obstacle(code="tools-unknown", detail="whether it can use tools is not known: set tools")
    if needs.tools and model.tools is False:
        yield selection.Obstacle(code="no-tools", detail="it cannot use tools")


def _too_small(model: Model, needs: selection.Needs) -> Iterator[selection.Obstacle]:
    wanted = needs.input_tokens + min(needs.max_tokens, model.max_output or needs.max_tokens)
    if model.context is None:
        yield selection.Obstacle(code="context-unknown", detail="the size of its context is not known: set context")
    elif wanted > model.context:
        yield selection.Obstacle(
            code="context-too-small", detail=f"the request needs about {wanted} tokens, its context has {model.context}"
        )


def _too_dear(cost: Decimal | None, left: Decimal | None) -> Iterator[selection.Obstacle]:
    if left is None:
        return
    if cost is None:
        yield selection.Obstacle(
            code="price-unknown", detail="there is a budget, but its price is not known: set price"
        )
    elif cost > left:
        yield selection.Obstacle(code="too-dear", detail=f"it may cost ${cost:.6f}, and ${left:.6f} is left")


def _make_candidate(
    judged: _Judged, scored: _Scored | None, followed: selection.Followed, total: Fraction
) -> selection.Candidate:
    model, cost, obstacles = judged
    scores = None
    if scored is not None:
        whole = round(float(scored.sum / total), 4) if total else None
        cheap, speed, intelligence = (round(float(part), 4) for part in scored.parts)
        scores = selection.Scores(cost=cheap, speed=speed, intelligence=intelligence, total=whole)
    return selection.Candidate(
        name=model.name,
        provider=model.provider,
        model=model.model,
        obstacles=obstacles,
        left_by_hints=model in followed.models,
        cost=cost,
        scores=scores,
    )


class Models:
    """The provider that is a catalogue of models."""

    personal = False

    def __init__(
        self,
        catalogue: ModelCatalogue,
        environ: Mapping[str, str],
        *,
        patience: RetryPatience | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Take the models; open nothing. Keys are in ``environ``; an empty catalogue raises ``ConfigError``."""
        if not len(catalogue):
            raise ConfigError("there is no model: name one in antiphon.toml")
        self.catalogue = catalogue
        self._environ = environ
        self._patience = patience or RetryPatience()
        self._sleep = sleep
        self._vendors: dict[str, Vendor] = {}

    @property
    def name(self) -> str:
        """The name of the model that answers if nothing favours another one."""
        return self.catalogue.default or self.catalogue.given[0].name

    @property
    def tools(self) -> bool:
        """Whether any of the models can use tools."""
        return any(model.tools for model in self.catalogue.given)

    def select(
        self, params: CreateMessageRequestParams, *, allowed: Collection[str] | None = None, left: Decimal | None = None
    ) -> Selection:
        """Choose one of the models whose API key is there; see ``host.models.models``."""
        missing = {model.name: missing_key(model, self._environ) or missing_package(model) for model in self.catalogue}
        unavailable = {name: reason for name, reason in missing.items() if reason}
        needs, wishes = needs_of(params), params.model_preferences
        return select_model(needs, wishes, self.catalogue, allowed=allowed, left=left, unavailable=unavailable)

    async def warm(self, model: str | None = None) -> None:
        """Load what a model needs and make its client, so that its first completion need not wait for that.

        Best called while a person reviews: a vendor's libraries take a second or two to load. May be repeated. Raises
        ``ConfigError`` if a package is missing or the provider is unknown.
        """
        chosen = self.catalogue.get(model or self.name)
        if chosen.provider != Echo.name:
            await self._vendor(chosen)

    async def complete(self, params: CreateMessageRequestParams, *, model: str | None = None) -> CreateMessageResult:
        """Complete with the named model, or with one chosen here. See ``generate``."""
        return (await self.generate(params, model=model)).result

    async def generate(
        self,
        params: CreateMessageRequestParams,
        *,
        model: str | None = None,
        fallbacks: tuple[str, ...] = (),
        growth: Growth | None = None,
    ) -> Completion:
        """Complete, and return the usage as well. Retries, then tries the fallbacks; cancelling stops it at once.

        Without ``model`` one is chosen here, without an allowlist or a budget. Raises the last ``ProviderFailure`` if
        all attempts failed, and ``ConfigError`` if there is no such model, or a package for it is missing.
        """
        if model is None:
            selection = self.select(params)
            if selection.winner is None:
                raise ProviderFailure("unsupported", f"none of the models can answer: {selection.why_none}")
            model, fallbacks = selection.winner, selection.fallbacks
        try:
            async with asyncio.timeout(self._patience.deadline):
                return await self._in_turn(params, (model, *fallbacks), growth)
        except TimeoutError:
            raise ProviderFailure("timeout", f"{model}: no answer in {self._patience.deadline} seconds") from None

    async def stream(
        self,
        params: CreateMessageRequestParams,
        growth: Growth,
        *,
        model: str | None = None,
        fallbacks: tuple[str, ...] = (),
    ) -> Completion:
        """Complete as ``generate`` does, while ``growth`` receives the text if the model's service can stream it."""
        return await self.generate(params, model=model, fallbacks=fallbacks, growth=growth)

    async def aclose(self) -> None:
        """Close all connections."""
        vendors = list(self._vendors.values())
        self._vendors.clear()
        for vendor in vendors:
            await vendor.aclose()

    async def _in_turn(
        self, params: CreateMessageRequestParams, names: tuple[str, ...], growth: Growth | None
    ) -> Completion:
        last = len(names) - 1
        for at, name in enumerate(names):
            model = self.catalogue.get(name)
            try:
                return await retry_patiently(
                    partial(self._once, params, model, growth), self._patience, sleep=self._sleep
                )
            except ProviderFailure as failure:
                if at == last or not may_stand_in(failure):
                    raise
        raise AssertionError("there is at least one name")

    async def _once(self, params: CreateMessageRequestParams, model: Model, growth: Growth | None) -> Completion:
        if growth is not None:
            growth.begin(model.name)
        if model.provider == Echo.name:
            return Completion(result=await Echo().complete(params), usage=Usage(), by=model.name)
        return await (await self._vendor(model)).generate(params, growth if model.stream else None)

    async def _vendor(self, model: Model) -> Vendor:
        if model.name not in self._vendors:
            # In a thread, because the import takes long enough to delay other tasks on this loop.
            adapter = await asyncio.to_thread(_import_adapter, model)
            made = await asyncio.to_thread(adapter, model, find_key(model, self._environ))
            # Another task may have made one while we waited; either will do.
            self._vendors.setdefault(model.name, made)
        return self._vendors[model.name]


_EXTRAS = {
    "anthropic": ("anthropic", "anthropic"),
    "google": ("google", "google.genai"),
    "gemini": ("google", "google.genai"),
    "openai": ("openai", "openai"),
    "openai-compatible": ("openai", "openai"),
}
"""The extra and the package that a provider's models need; others need what pydantic-ai says."""


def missing_package(model: Model) -> str | None:
    """Return a message if a package that a vendor's model needs is not installed, else ``None``."""
    extra, package = _EXTRAS.get(model.provider, ("host", "pydantic_ai"))
    if model.provider == Echo.name or (_is_installed("pydantic_ai") and _is_installed(package)):
        return None
    return f"models of {model.provider} need more packages: {describe_install(extra)}"


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:
        # The package that this one is in.
        return False


def _import_adapter(model: Model) -> type[Vendor]:
    """Import the adapter, which imports all vendors' libraries."""
    if (missing := missing_package(model)) is not None:
        raise ConfigError(missing)
    from antiphon.host.providers.vendor.adapter import Vendor

    return Vendor
