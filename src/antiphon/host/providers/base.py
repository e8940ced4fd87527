"""The interface between the host and a provider: how it is called, what it returns, and how it fails.

Owns also what all services have in common: the environment variables of their API keys, which are never in a file, and
the names of tools that each of them accepts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Literal, Protocol, runtime_checkable

import msgspec

from antiphon.errors import AntiphonError
from antiphon.host.model_catalogue import Model
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult

FailureKind = Literal[
    "rate-limit",
    "quota",
    "auth",
    "timeout",
    "connection",
    "unavailable",
    "refused",
    "rejected",
    "context",
    "not-found",
    "unsupported",
    "invalid",
]
"""What went wrong. ``refused``: the model or its filter declined. ``rejected``: the service cannot use the request.
``invalid``: we cannot use the answer."""


_AT_WORK: frozenset[FailureKind] = frozenset({"timeout", "connection", "refused", "invalid"})


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens that a completion took, as the provider counts them."""

    input_tokens: int = 0
    """Including those read from or written to a cache."""
    output_tokens: int = 0
    """Including those of hidden reasoning."""


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """An answer and its usage."""

    result: CreateMessageResult
    usage: Usage | None = None
    """``None`` if the provider does not say."""
    by: str | None = None
    """The user's name of the model that answered; a fallback if the chosen one failed."""


class ProviderFailure(AntiphonError):
    """A provider did not complete. The text is written here: it contains nothing received, no key and no address."""

    def __init__(
        self, kind: FailureKind, message: str, *, retry_after: float | None = None, charged: bool | None = None
    ) -> None:
        """Describe a failure. ``charged`` is true by default for kinds of failure in which a model may have worked."""
        super().__init__(message)
        self.kind: FailureKind = kind
        self.charged = kind in _AT_WORK if charged is None else charged
        """Whether the service may charge for it nevertheless: it then counts as spent, and is not retried."""
        self.retry_after = retry_after
        """Seconds the service asks us to wait."""


class Provider(Protocol):
    """Something that completes requests: a model service, a person, a script."""

    @property
    def name(self) -> str:
        """Short name, shown to the reviewer."""
        ...

    @property
    def tools(self) -> bool:
        """Whether it can be offered tools. A tool use goes back to the server; the host executes none."""
        ...

    @property
    def personal(self) -> bool:
        """Whether only a person can answer: every request is then reviewed, and answered in the review."""
        ...

    async def complete(self, params: CreateMessageRequestParams, *, model: str | None = None) -> CreateMessageResult:
        """Complete a request, obeying its ``max_tokens``.

        Any exception counts as a failure of the provider; its text is never sent to the server.

        Args:
            params: the request.
            model: the model that was chosen; ``None`` for the provider's default.
        """
        ...


@runtime_checkable
class Metered(Protocol):
    """A provider that also reports usage."""

    async def generate(
        self, params: CreateMessageRequestParams, *, model: str | None = None, fallbacks: tuple[str, ...] = ()
    ) -> Completion:
        """Complete as ``complete`` does; ``fallbacks`` names the models to try next, in order."""
        ...


class Growth(Protocol):
    """Receives an answer while it is streamed. Its methods neither wait nor raise."""

    def begin(self, model: str | None) -> None:
        """Begin an answer, and forget what came of an earlier attempt.

        Args:
            model: the name of the model that answers; ``None`` for the provider's default.
        """

    def add(self, text: str) -> None:
        """Add text to the answer.

        Args:
            text: the text that has come since the last call.
        """


@runtime_checkable
class Streaming(Protocol):
    """A provider that can stream an answer."""

    async def stream(
        self,
        params: CreateMessageRequestParams,
        growth: Growth,
        *,
        model: str | None = None,
        fallbacks: tuple[str, ...] = (),
    ) -> Completion:
        """Complete as ``Metered.generate`` does, while ``growth`` receives the text; called only if somebody looks."""
        ...


@runtime_checkable
class Warming(Protocol):
    """A provider that can prepare itself before it is needed."""

    async def warm(self, model: str | None = None) -> None:
        """Load what the model needs. May be repeated, and cancelled."""


async def completion_of(
    provider: Provider,
    params: CreateMessageRequestParams,
    *,
    model: str | None = None,
    fallbacks: tuple[str, ...] = (),
    growth: Growth | None = None,
) -> Completion:
    """Complete with any provider; ``growth`` is told how the answer grows, if the provider can stream."""
    if growth is not None and isinstance(provider, Streaming):
        made = await provider.stream(params, growth, model=model, fallbacks=fallbacks)
    elif _is_metered(type(provider)) and isinstance(provider, Metered):
        made = await provider.generate(params, model=model, fallbacks=fallbacks)
    else:
        return Completion(result=await provider.complete(params, model=model), by=model)
    return msgspec.structs.replace(made, usage=_bound_usage(made.usage))


def _bound_usage(usage: Usage | None) -> Usage | None:
    """Return a usage as it can be counted. One below zero would add to what may be spent, and NaN would spoil sums."""
    if usage is None or any(type(count) is not int or count < 0 for count in (usage.input_tokens, usage.output_tokens)):
        return None
    # More than any model takes, and less than a store can count.
    return Usage(input_tokens=min(usage.input_tokens, 2**32), output_tokens=min(usage.output_tokens, 2**32))


@lru_cache(64)
def _is_metered(kind: type) -> bool:
    # Cached, because this check takes longer than everything else that a provider like the echo does.
    return issubclass(kind, Metered)


KEYLESS = frozenset({"echo", "openai-compatible"})
"""Providers that need no key unless a variable is configured."""
_USUAL = {"google": ("GEMINI_API_KEY", "GOOGLE_API_KEY"), "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY")}


def key_variables(model: Model) -> tuple[str, ...]:
    """Return the environment variables that may hold the key of a model; the first one that is set counts."""
    if model.key is not None:
        return (model.key,)
    if model.provider in KEYLESS:
        return ()
    return _USUAL.get(model.provider, (f"{model.provider.upper().replace('-', '_')}_API_KEY",))


def find_key(model: Model, environ: Mapping[str, str]) -> str | None:
    """Return the key of a model, or ``None`` if there is none."""
    return next((value for name in key_variables(model) if (value := environ.get(name))), None)


def missing_key(model: Model, environ: Mapping[str, str]) -> str | None:
    """Return a message for people if a model lacks its key; ``None`` if it has one, or needs none."""
    variables = key_variables(model)
    if not variables or find_key(model, environ):
        return None
    return f"the environment has no {' or '.join(variables)}"


_ACCEPTED = re.compile(r"[A-Za-z0-9_-]+")
"""OpenAI's and Anthropic's rule for names of tools and ids of their uses; Gemini accepts more."""
LONGEST_NAME = 64
"""Most characters of a name of a tool: OpenAI's limit."""


def plain_names(originals: Sequence[str], longest: int = LONGEST_NAME) -> list[str]:
    """Return a name for each tool that services accept, its own if possible, each name once."""
    used: set[str] = set()
    given: list[str | None] = []
    for name in originals:
        is_kept = len(name) <= longest and _ACCEPTED.fullmatch(name) is not None and name not in used
        given.append(name if is_kept else None)
        used.update([name] if is_kept else [])
    last: dict[str, int] = {}
    return [
        kept or _make_numbered_name(original, longest, used, last)
        for original, kept in zip(originals, given, strict=True)
    ]


def _make_numbered_name(original: str, longest: int, used: set[str], last: dict[str, int]) -> str:
    """Make a name that is not used yet, and note it. ``last``: the last number that each name has been given."""
    base = made = re.sub(r"[^A-Za-z0-9_-]", "_", original)[: longest - 6] or "unnamed"
    number = last.get(base, 1)
    while made in used:
        number += 1
        made = f"{base}_{number}"
    last[base] = number
    used.add(made)
    return made
