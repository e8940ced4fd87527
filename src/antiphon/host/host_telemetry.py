"""Completions and reviews reported to OpenTelemetry, by its conventions for generative AI.

Owns their names and attributes. Without configured telemetry it does nothing. Never reported: messages, prompts, tools,
answers, texts of errors, names of reviewers.

Source: OpenTelemetry, "Semantic conventions for generative client AI spans" and "... metrics".
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, TypeVar

from antiphon.errors import ConfigError
from antiphon.host.model_catalogue import ModelCatalogue
from antiphon.host.providers.base import Completion, Provider, ProviderFailure
from antiphon.telemetry import find_current_telemetry
from antiphon.wire.elicitation import ElicitResult
from antiphon.wire.sampling import CreateMessageRequestParams

if TYPE_CHECKING:
    from antiphon.telemetry.operations import Attributes, Measure, Operation, Telemetry

T = TypeVar("T")

_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_TOKENS = tuple(4.0**power for power in range(14))
_PATIENCE = (0.1, 1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 14400.0, 86400.0)

_CALLED = {
    "bedrock": "aws.bedrock",
    "google": "gcp.gemini",
    "mistral": "mistral_ai",
    "openai-compatible": "openai",
    "xai": "x_ai",
}
"""The conventions' names of providers that we call differently."""


def watch_completion(
    completing: Awaitable[Completion], provider: Provider, params: CreateMessageRequestParams, model: str | None
) -> Awaitable[Completion]:
    """Wait for a provider; report how long it took, and its tokens. ``model``: ``None`` for the provider's own."""
    telemetry = find_current_telemetry()
    if telemetry is None:
        return completing
    asked: Attributes = {"gen_ai.request.max_tokens": params.max_tokens}
    if params.temperature is not None:
        asked["gen_ai.request.temperature"] = params.temperature
    return _measure_completion(telemetry, completing, provider, model, asked)


async def watch_review(reviewing: Awaitable[T]) -> T:
    """Wait for a person, and report how long it took and what was decided."""
    telemetry = find_current_telemetry()
    if telemetry is None:
        return await reviewing
    began = asyncio.get_running_loop().time()
    decision = "failed"
    try:
        decided = await reviewing
        decision = decided.action if isinstance(decided, ElicitResult) else type(decided).__name__.lower()
        return decided
    except TimeoutError:
        decision = "expired"
        raise
    except asyncio.CancelledError:
        decision = "withdrawn"
        raise
    finally:
        seconds = asyncio.get_running_loop().time() - began
        telemetry.record(
            _make_measure("antiphon.host.review.duration"), seconds, {"antiphon.review.decision": decision}
        )
        telemetry.note("antiphon.review", {"antiphon.review.decision": decision, "antiphon.review.seconds": seconds})


async def _measure_completion(
    telemetry: Telemetry, completing: Awaitable[Completion], provider: Provider, model: str | None, asked: Attributes
) -> Completion:
    """Report how long a completion takes, and its tokens. ``asked``: what was asked for, beside the model."""
    vendor, called = _find_vendor(provider, model)
    labels: Attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": vendor,
        "gen_ai.request.model": called,
    }
    operation = telemetry.begin(f"chat {called}", "client", {**labels, **asked})
    with operation.watched(lambda error: _end_operation(telemetry, operation, labels, _kind_of(error))):
        made = await completing
    operation.span.set_attribute("gen_ai.response.model", made.result.model)
    if made.result.stop_reason is not None:
        operation.span.set_attribute("gen_ai.response.finish_reasons", [made.result.stop_reason])
    if made.usage is not None:
        _count_tokens(telemetry, operation, labels, "input", made.usage.input_tokens)
        _count_tokens(telemetry, operation, labels, "output", made.usage.output_tokens)
    _end_operation(telemetry, operation, labels, None)
    return made


def _count_tokens(telemetry: Telemetry, operation: Operation, labels: Attributes, kind: str, tokens: int) -> None:
    operation.span.set_attribute(f"gen_ai.usage.{kind}_tokens", tokens)
    counted: Attributes = {**labels, "gen_ai.token.type": kind}
    telemetry.record(_make_measure("gen_ai.client.token.usage"), tokens, counted, operation.context)


def _end_operation(telemetry: Telemetry, operation: Operation, labels: Attributes, error: str | None) -> None:
    seconds = operation.end(error)
    if seconds is not None:
        ended: Attributes = labels if error is None else {**labels, "error.type": error}
        telemetry.record(_make_measure("gen_ai.client.operation.duration"), seconds, ended, operation.context)


def _make_measure(name: str) -> Measure:
    from antiphon.telemetry.operations import Measure

    unit, description, bounds = _MEASURES[name]
    return Measure(name, unit, description, bounds)


_MEASURES: dict[str, tuple[str, str, tuple[float, ...]]] = {
    "gen_ai.client.operation.duration": ("s", "GenAI operation duration.", _SECONDS),
    "gen_ai.client.token.usage": ("{token}", "Number of input and output tokens used.", _TOKENS),
    "antiphon.host.review.duration": ("s", "How long the reviewer took to decide.", _PATIENCE),
}


def _find_vendor(provider: Provider, model: str | None) -> tuple[str, str]:
    """Return the provider of a model, and the provider's name for it."""
    catalogue: object = getattr(provider, "catalogue", None)
    if not isinstance(catalogue, ModelCatalogue):
        return provider.name, model or provider.name
    try:
        found = catalogue.get(model or provider.name)
    except ConfigError:
        # The provider's own choice, which cannot be known here.
        return provider.name, model or provider.name
    return _CALLED.get(found.provider, found.provider), found.model


def _kind_of(error: BaseException) -> str:
    if isinstance(error, ProviderFailure):
        return error.kind
    if isinstance(error, TimeoutError):
        return "timeout"
    return "cancelled" if isinstance(error, asyncio.CancelledError | GeneratorExit) else type(error).__name__
