"""The interface between the host and a provider: how it is called, what it returns, and how it fails."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, Protocol, runtime_checkable

import msgspec

from antiphon.errors import AntiphonError
from antiphon.wire.content import TextContent
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
        ...

    def add(self, text: str) -> None:
        """Add text to the answer.

        Args:
            text: the text that has come since the last call.
        """
        ...


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
        ...


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
        return await provider.stream(params, growth, model=model, fallbacks=fallbacks)
    if _is_metered(type(provider)) and isinstance(provider, Metered):
        return await provider.generate(params, model=model, fallbacks=fallbacks)
    return Completion(result=await provider.complete(params, model=model), by=model)


@lru_cache(64)
def _is_metered(kind: type) -> bool:
    # Cached, because this check takes longer than everything else that a provider like the echo does.
    return issubclass(kind, Metered)


def text_answer(text: str, model: str) -> CreateMessageResult:
    """Make an answer of plain text."""
    return CreateMessageResult(role="assistant", content=TextContent(text=text), model=model, stop_reason="endTurn")
