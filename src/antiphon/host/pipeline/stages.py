"""The short stages: admission, blocks, secrets in both directions, the wait for a provider, and the end of an ask.

Makes sure that nothing is sent before it is recorded. ``sampling`` has the order of the stages, and ``tool_consent``
that for tool calls.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from functools import lru_cache
from typing import TypeVar

import msgspec

from antiphon.errors import AntiphonError, ConfigError, InvalidParams, Rejected
from antiphon.host.audit.log import Facts
from antiphon.host.checks.limits import LimitReached, Pass
from antiphon.host.checks.redact import mask
from antiphon.host.checks.scan import cleaned
from antiphon.host.checks.validate import validate
from antiphon.host.pipeline.case import Case
from antiphon.host.providers.base import ProviderFailure, Usage
from antiphon.host.providers.embeddings import EmbeddingParams
from antiphon.host.review.question import Outcome
from antiphon.host.review.review import digest
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult

__all__ = [
    "admitted",
    "answer_without_secrets",
    "concluded",
    "know_task",
    "place_of",
    "provided",
    "refuse_blocked",
    "without_secrets",
]

T = TypeVar("T")
Params = TypeVar("Params", CreateMessageRequestParams, EmbeddingParams)

_NAME, _TARGET = 128, 512
"""Most characters of a tool's name and of a server's address in a record."""

_SEEN = 256
"""Most names and addresses whose masked form is kept, each of at most ``_TARGET`` characters."""

WITHDRAWAL = 1.0
"""Seconds that a withdrawn ask waits until this is saved."""

_log = logging.getLogger("antiphon.host")


async def concluded(case: Case, work: Awaitable[T]) -> T:
    """Do the work of an ask, and save what is left of it however that ends.

    Raises:
        InternalError: the store or a part of the host failed; the reason is not sent to the server.
        Whatever the work raises.
    """
    case.note("received", case.origin.door or "", **_whose(case))
    try:
        outcome = await work
    except asyncio.CancelledError:
        case.note("withdrawn")
        case.became = Outcome(became="late", why="cancelled")
        await _left(case)
        raise
    except AntiphonError as error:
        case.became = _failed(error)
        await _closed(case)
        raise
    except Exception as error:
        case.became = Outcome(became="failed", why="error")
        failure = case.failure(f"the store failed: {type(error).__name__}: {error}")
        await _closed(case)
        raise failure from None
    if not case.is_saved:
        await _closed(case)
    case.desk.released.add(case.origin, case.method, tuple(case.reviews), by_person=case.by_person)
    return outcome


def _failed(error: AntiphonError) -> Outcome | None:
    """Return the outcome of a permission that led to no answer, or ``None`` for a denial."""
    why = str(error.data.get("reason", "error")) if isinstance(error, Rejected) else "error"
    return None if why == "user" else Outcome(became="failed", why=why)


async def know_task(case: Case) -> None:
    """Add to the origin what the store knows of the task that the ask belongs to, for those who decide."""
    task = case.origin.task
    if task is None:
        return
    known = await case.desk.store.task_so_far(task.name, task.ask)
    spent = known.spent
    task = msgspec.structs.replace(task, first=known.first, asks=known.asks, money=spent.money, tokens=spent.tokens)
    case.origin = msgspec.structs.replace(case.origin, task=task)


def admitted(case: Case, max_tokens: int = 0) -> Pass:
    """Admit an ask, within the limits.

    Raises:
        Rejected: a limit is reached, or a person has stopped the call it belongs to.
    """
    gate = case.desk.gate
    if gate.is_stopped(case.origin):
        raise case.refusal("user", "the call was stopped")
    try:
        return gate.enter(case.origin, max_tokens)
    except LimitReached as reached:
        raise case.refusal("limit", str(reached)) from None


async def refuse_blocked(case: Case) -> None:
    """Check whether a person has blocked the server. A reservation checks this itself, see ``Case.hold``.

    Raises:
        Rejected: it is blocked.
    """
    if await case.desk.store.blocks(*case.origin.identities):
        raise case.refusal("policy", "blocked")


async def without_secrets(case: Case, params: Params) -> Params:
    """Run stage 6 for a request."""
    mode = case.desk.redaction.request
    clean = None if mode == "allow" else await case.scanned(cleaned(params))
    if clean is None:
        return params
    if mode == "block":
        raise case.refusal("secret")
    try:
        validate(clean)
    except InvalidParams:
        # The masked text was needed for the request to be valid: an id, a name.
        raise case.refusal("secret") from None
    case.note("redacted", "request", digest(clean))
    return clean


async def answer_without_secrets(case: Case, result: CreateMessageResult) -> CreateMessageResult:
    """Run stage 6 for an answer."""
    mode = case.desk.redaction.response
    clean = None if mode == "allow" else await case.scanned(cleaned(result))
    if clean is None:
        return result
    if mode == "block":
        raise case.refusal("secret")
    case.note("redacted", "response")
    return clean


async def provided(case: Case, completing: Awaitable[T]) -> T:
    """Wait for a provider that was called.

    Raises:
        InternalError: it failed, or took too long; what that costs is noted as far as it is known.
    """
    try:
        return await completing
    except TimeoutError:
        raise case.failure("the provider took too long") from None
    except Exception as error:
        if isinstance(error, ProviderFailure) and not error.charged:
            # The provider refused without completing, so nothing was used. For any other failure the usage is
            # unknown.
            case.usage = Usage(input_tokens=0, output_tokens=0)
        # A missing package or key can be remedied by our own caller.
        remedy = str(error) if isinstance(error, ConfigError) else ""
        raise case.failure(f"the provider failed: {type(error).__name__}: {error}", remedy) from None


def place_of(error: InvalidParams) -> str:
    """Return the place that an invalid request names."""
    return error.message.partition(":")[0]


def _whose(case: Case) -> Facts:
    """Return who asked, in words for people, because an identity is only a hash."""
    origin = case.origin
    named = _masked(origin.call.name)[:_NAME] if origin.call and origin.call.name else None
    facts = Facts(server=_masked(origin.target)[:_TARGET], tool=named)
    if origin.task is not None:
        facts["task"] = origin.task.name
    return facts


def _masked(text: str) -> str:
    """Mask a name or an address. The same few come with every call; a long text is not kept for the next one."""
    return _mask_again(text) if len(text) <= _TARGET else mask(text)


_mask_again = lru_cache(_SEEN)(mask)


async def _left(case: Case) -> None:
    """Save what is left of a withdrawn ask, without waiting long for a store that does not respond."""
    try:
        async with asyncio.timeout(WITHDRAWAL):
            await case.close()
    except Exception as error:
        # A change that has begun is finished; a settlement that could not be saved is saved by the store
        # later.
        _log.warning("a withdrawn ask waits for the store: %s", type(error).__name__)


async def _closed(case: Case) -> None:
    """Save what is left; if that fails nothing is sent either."""
    try:
        await case.close()
    except Exception as error:
        raise case.failure(f"the store failed: {type(error).__name__}: {error}") from None
