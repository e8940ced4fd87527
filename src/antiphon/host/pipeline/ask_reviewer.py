"""Asking the person of one host: within bounds, within time, and what follows when they cannot be reached.

Owns what a reviewer may do to the pipeline. What is shown is made in the ``sampling``; how, is the reviewer's business.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

from antiphon.errors import InvalidParams
from antiphon.host.checks.forms import check_content, fields_of
from antiphon.host.checks.limits import LimitReached, Pass
from antiphon.host.checks.validate import validate
from antiphon.host.pipeline.case import Case
from antiphon.host.providers.base import Provider, Warming
from antiphon.host.review.review import (
    Answer,
    Approve,
    Decision,
    Deny,
    Edit,
    ElicitItem,
    NoReviewer,
    Regenerate,
    Reviewer,
    ReviewItem,
    ToolItem,
    digest,
)
from antiphon.host.store.base import BlockRow
from antiphon.host.telemetry import watched_review
from antiphon.wire.elicitation import ElicitResult
from antiphon.wire.sampling import CreateMessageRequestParams

__all__ = ["decided", "filled_in", "no_wider", "warmed", "within"]

T = TypeVar("T")


async def decided(case: Case, item: ReviewItem | ToolItem, admitted: Pass) -> Approve | Edit | Answer | Regenerate:
    """Ask the reviewer. A refusal is raised."""
    desk = case.desk
    if desk.reviewer is None or desk.headless:
        raise case.refusal("no-reviewer")
    try:
        reviewer = desk.reviewer
        decision = await _counted(case, admitted, lambda: _put_to(reviewer, item))
    except NoReviewer:
        raise case.refusal("no-reviewer") from None
    except TimeoutError:
        raise case.refusal("expired") from None
    except LimitReached as reached:
        raise case.refusal("limit", str(reached)) from None
    except Exception as error:
        raise case.failure(f"the reviewer failed: {type(error).__name__}: {error}") from None
    by = None
    if decision.ticket is not None:
        case.ticket, by = decision.ticket.id, decision.ticket.by
    response = isinstance(item, ReviewItem) and item.result is not None
    case.note("response" if response else "review", _named(decision), by=by)
    if isinstance(decision, Deny):
        await _reached(case, decision, by)
        refusal = case.refusal("user")
        if decision.reason:
            # For whoever called the tool, on this side: a note does not travel.
            refusal.add_note(f"denied: {decision.reason}")
        raise refusal
    return decision


async def filled_in(case: Case, item: ElicitItem, admitted: Pass) -> ElicitResult:
    """Let the reviewer answer an elicitation, and check what comes back."""
    desk = case.desk
    if desk.reviewer is None or desk.headless:
        # A form needs a person even where the policy allows everything.
        return case.declined("no-reviewer")
    try:
        reviewer = desk.reviewer
        result = await _counted(case, admitted, lambda: reviewer.elicit(item))
        if result.action == "accept" and item.params.mode == "form":
            check_content(fields_of(item.params), result.content or {})
    except NoReviewer:
        return case.declined("no-reviewer")
    except TimeoutError:
        return case.declined("expired")
    except LimitReached:
        return case.declined("limit")
    except Exception as error:
        raise case.failure(f"the reviewer failed: {type(error).__name__}: {error}") from None
    case.note("answered", result.action, digest(result), content=case.content(result))
    return result


def no_wider(
    case: Case, edited: CreateMessageRequestParams, params: CreateMessageRequestParams
) -> CreateMessageRequestParams:
    """Check an edited request: it may want less than the server did, never more."""
    try:
        validate(edited)
    except InvalidParams as error:
        raise case.failure(f"the edited request is not valid: {error.message}") from None
    tools = list(params.tools or ())
    if edited.max_tokens > params.max_tokens or any(tool not in tools for tool in edited.tools or ()):
        raise case.failure("the edited request wants more tokens or other tools than the server did")
    return edited


@asynccontextmanager
async def warmed(provider: Provider, model: str | None) -> AsyncGenerator[None]:
    """Let a provider get ready while a person reviews. If it cannot, the completion will say why."""
    if not isinstance(provider, Warming):
        yield
        return
    warming = asyncio.create_task(_warm(provider, model), name="antiphon-warm")
    try:
        yield
    finally:
        warming.cancel()
        await asyncio.wait([warming])


async def _warm(provider: Warming, model: str | None) -> None:
    with suppress(Exception):
        await provider.warm(model)


async def within(seconds: float | None, waiting: Awaitable[T]) -> T:
    """Wait, but no longer than so many seconds.

    Raises:
        TimeoutError: it took longer.
    """
    async with asyncio.timeout(seconds):
        return await waiting


async def _put_to(reviewer: Reviewer, item: ReviewItem | ToolItem) -> Decision:
    return await (reviewer.confirm(item) if isinstance(item, ToolItem) else reviewer.review(item))


def _named(decision: Decision) -> str:
    name = type(decision).__name__.lower()
    return f"{name}:{decision.reach}" if isinstance(decision, Deny) and decision.reach != "once" else name


async def _reached(case: Case, denial: Deny, by: str | None) -> None:
    """Carry out what a denial says of what comes next."""
    origin = case.origin
    if denial.reach == "call":
        case.desk.gate.stop(origin)
    elif denial.reach == "server":
        alike = origin.coarser[0] if origin.coarser else None
        row = BlockRow(identity=origin.identity, target=origin.target, since=time.time(), by=by, coarse=alike)
        await case.desk.store.block(row)


async def _counted(case: Case, admitted: Pass, review: Callable[[], Awaitable[T]]) -> T:
    gate = case.desk.gate
    gate.begin_review(admitted)
    try:
        return await watched_review(within(case.desk.review_timeout, review()))
    finally:
        gate.end_review(admitted)
