"""The seam between the host and whatever completes: what is called, what comes back, and how it fails."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, Protocol, runtime_checkable

import msgspec

from antiphon.errors import AntiphonError
from antiphon.wire.content import TextContent
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult

__all__ = [
    "Completion",
    "FailureKind",
    "Metered",
    "Provider",
    "ProviderFailure",
    "Usage",
    "Warming",
    "completion_of",
    "text_answer",
]

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
"""What went wrong: ``refused`` is the model's or its filter's no, ``rejected`` a request the service cannot use,
``invalid`` an answer that we cannot use."""


_AT_WORK: frozenset[FailureKind] = frozenset({"timeout", "connection", "refused", "invalid"})


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens that a completion took, as the provider counts them."""

    input_tokens: int = 0
    """Those read from or written to a cache included."""
    output_tokens: int = 0
    """Those of hidden reasoning included."""


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """An answer, and what it took."""

    result: CreateMessageResult
    usage: Usage | None = None
    """``None`` where the provider does not say."""
    by: str | None = None
    """The name of the model that answered, as the user calls it; a fallback, if the one chosen failed."""


class ProviderFailure(AntiphonError):
    """A provider did not complete. The text is ours throughout: nothing that came over the wire, no key, no address."""

    def __init__(
        self, kind: FailureKind, message: str, *, retry_after: float | None = None, charged: bool | None = None
    ) -> None:
        """``charged`` is by default so for the kinds where a model may have been at work."""
        super().__init__(message)
        self.kind: FailureKind = kind
        self.charged = kind in _AT_WORK if charged is None else charged
        """Whether the service may want money for it all the same: it then counts as spent, and is not tried again."""
        self.retry_after = retry_after
        """Seconds the service asks us to wait."""


class Provider(Protocol):
    """Something that completes: a model service, a person, a script."""

    @property
    def name(self) -> str:
        """Short name, shown to the reviewer."""
        ...

    @property
    def tools(self) -> bool:
        """Whether it can be offered tools. A tool use goes back to the server; nobody here executes it."""
        ...

    @property
    def personal(self) -> bool:
        """Whether only a person can answer: every request is then reviewed, and answered there."""
        ...

    async def complete(self, params: CreateMessageRequestParams, *, model: str | None = None) -> CreateMessageResult:
        """Complete. ``max_tokens`` is always obeyed; ``model`` is the one chosen, ``None`` for the provider's default.

        Any exception is a failure of the provider; its text never reaches the server.
        """
        ...


@runtime_checkable
class Metered(Protocol):
    """A provider that also says what a completion took."""

    async def generate(
        self, params: CreateMessageRequestParams, *, model: str | None = None, fallbacks: tuple[str, ...] = ()
    ) -> Completion:
        """Complete as ``complete`` does; ``fallbacks`` name the models that may stand in, in turn."""
        ...


@runtime_checkable
class Warming(Protocol):
    """A provider that can get ready before it is needed."""

    async def warm(self, model: str | None = None) -> None:
        """Load what the model needs. Harmless to repeat, and to cancel."""
        ...


async def completion_of(
    provider: Provider,
    params: CreateMessageRequestParams,
    *,
    model: str | None = None,
    fallbacks: tuple[str, ...] = (),
) -> Completion:
    """Have any provider complete, with its usage where it is one that says it."""
    if _is_metered(type(provider)) and isinstance(provider, Metered):
        return await provider.generate(params, model=model, fallbacks=fallbacks)
    return Completion(result=await provider.complete(params, model=model), by=model)


@lru_cache(64)
def _is_metered(kind: type) -> bool:
    # To look this up takes longer than all else that a provider such as the echo does.
    return issubclass(kind, Metered)


def text_answer(text: str, model: str) -> CreateMessageResult:
    """Make a plain answer out of a text."""
    return CreateMessageResult(role="assistant", content=TextContent(text=text), model=model, stop_reason="endTurn")
