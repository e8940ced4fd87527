"""Asking the reviewer of one host: limits, timeouts, and what follows if the person cannot be reached.

``sampling`` makes what is shown, and the reviewer displays it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

from antiphon.call_time import counting
from antiphon.errors import InvalidParams, Rejected
from antiphon.host.checks.forms import check_content, fields_of
from antiphon.host.checks.limits import LimitReached, Pass
from antiphon.host.checks.redact import mask
from antiphon.host.checks.validate import validate
from antiphon.host.pipeline.case import Case, Reason
from antiphon.host.pipeline.stages import refuse_blocked
from antiphon.host.providers.base import Provider, Warming
from antiphon.host.review.review import (
    MAX_TOLD,
    Answer,
    Approve,
    Blocked,
    Decision,
    Deferred,
    Deny,
    Edit,
    EditCall,
    ElicitItem,
    Filled,
    NoReviewer,
    Regenerate,
    Reviewer,
    ReviewItem,
    ToolItem,
    can_tell,
    decider_of,
    digest,
    name_of,
)
from antiphon.host.store.base import BlockRow
from antiphon.host.store.chain import Step
from antiphon.host.telemetry import watched_review
from antiphon.machine.asyncio_tasks import end_tasks
from antiphon.wire.elicitation import ElicitResult
from antiphon.wire.sampling import CreateMessageRequestParams

__all__ = ["approved", "check_approval", "decided", "filled_in", "no_wider", "warmed", "within"]

T = TypeVar("T")


async def decided(
    case: Case, item: ReviewItem | ToolItem, admitted: Pass
) -> Approve | Edit | EditCall | Answer | Regenerate:
    """Ask the reviewer. A refusal is raised."""
    desk = case.desk
    if desk.reviewer is None or desk.headless:
        raise case.refusal("no-reviewer")
    try:
        reviewer = desk.reviewer
        decision = await _counted(case, admitted, lambda: _put_to(reviewer, item))
    except Blocked:
        raise case.withdrawn() from None
    except NoReviewer as error:
        reason = "deferred" if isinstance(error, Deferred) else "no-reviewer"
        raise case.refusal(reason, why=str(error)) from None
    except TimeoutError:
        raise case.refusal("expired") from None
    except LimitReached as reached:
        raise case.refusal("limit", str(reached)) from None
    except Exception as error:
        raise case.failure(f"the reviewer failed: {type(error).__name__}: {error}") from None
    by = decider_of(decision)
    if decision.ticket is not None:
        case.ticket = decision.ticket.id
        case.reviews.append(decision.ticket.id)
    response = isinstance(item, ReviewItem) and item.result is not None
    step = "response" if response else "review"
    for name in decision.undone:
        case.note(step, f"undone:{name}", by=by)
    if isinstance(decision, Deny):
        await _reached(case, decision, by)
        raise _denied(case, step, item, decision)
    case.note(step, name_of(decision), by=by)
    case.by_person = True
    # Meanwhile somebody may have blocked the server in another process, where this wait could not be ended.
    await refuse_blocked(case)
    return decision


async def approved(case: Case, item: ReviewItem | ToolItem, admitted: Pass) -> Approve:
    """Ask the reviewer about something that can only be approved or denied. A denial is raised."""
    return check_approval(case, item, await decided(case, item, admitted))


def check_approval(case: Case, item: ReviewItem | ToolItem, decision: object) -> Approve:
    """Return a decision that approves exactly what was asked for. Anything else is raised."""
    if not isinstance(decision, Approve):
        raise case.failure("the reviewer's decision is none of the choices")
    if decision.digest != digest(item.params):
        raise case.refusal("changed")
    return decision


def _denied(case: Case, step: Step, item: ReviewItem | ToolItem, denial: Deny) -> Rejected:
    """Record a denial with its reason, and make its error: with the reason, if the person wants to tell it."""
    reason = denial.reason and mask(denial.reason)
    told = _told(item, denial)
    case.note(step, name_of(denial), by=decider_of(denial), reason=reason, told=told)
    refusal = case.refusal("user")
    if reason:
        # For the caller of the tool, on this side: a note is not sent.
        refusal.add_note(f"denied: {reason}")
        if told:
            refusal.data = {**refusal.data, "note": reason[:MAX_TOLD]}
    return refusal


def _told(item: ReviewItem | ToolItem | ElicitItem, denial: Deny) -> bool | None:
    """Return whether the server can be sent the reason; ``None`` if the person does not want that."""
    return can_tell(item) if denial.tell and denial.reason else None


async def filled_in(case: Case, item: ElicitItem, admitted: Pass) -> ElicitResult:
    """Let the reviewer answer an elicitation, and check the answer."""
    desk = case.desk
    if desk.reviewer is None or desk.headless:
        # A form needs a person even if the policy allows everything.
        return case.declined("no-reviewer")
    try:
        reviewer = desk.reviewer
        given = await _counted(case, admitted, lambda: reviewer.elicit(item))
        result = given.result if isinstance(given, Filled) else given
        if isinstance(result, ElicitResult) and result.action == "accept" and item.params.mode == "form":
            check_content(fields_of(item.params), result.content or {})
    except Blocked:
        return case.declined_withdrawn()
    except (NoReviewer, TimeoutError, LimitReached) as error:
        return case.declined(next(reason for kind, reason in _UNANSWERED.items() if isinstance(error, kind)))
    except Exception as error:
        raise case.failure(f"the reviewer failed: {type(error).__name__}: {error}") from None
    ticket = None if isinstance(given, ElicitResult) else given.ticket
    by = None if ticket is None else ticket.by
    if ticket is not None:
        case.reviews.append(ticket.id)
    for name in () if isinstance(given, ElicitResult) else given.undone:
        case.note("review", f"undone:{name}", by=by)
    if isinstance(result, Deny):
        return await _declined(case, item, result, by)
    if await case.desk.store.blocks(*case.origin.identities):
        return case.declined("policy")
    case.by_person = True
    case.note("answered", result.action, digest(result), by=by, content=await case.content(result))
    return result


_UNANSWERED: dict[type[Exception], Reason] = {
    NoReviewer: "no-reviewer",
    TimeoutError: "expired",
    LimitReached: "limit",
}


async def _declined(case: Case, item: ElicitItem, denial: Deny, by: str | None) -> ElicitResult:
    await _reached(case, denial, by)
    reason = denial.reason and mask(denial.reason)
    case.note("review", name_of(denial), by=by, reason=reason, told=_told(item, denial))
    return case.declined("user")


def no_wider(
    case: Case, edited: CreateMessageRequestParams, params: CreateMessageRequestParams
) -> CreateMessageRequestParams:
    """Check an edited request: it may ask for less than the server did, never for more."""
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
    """Let a provider prepare while a person reviews. If it cannot, the completion will report the reason."""
    if not isinstance(provider, Warming):
        yield
        return
    warming = asyncio.create_task(_warm(provider, model), name="antiphon-warm")
    try:
        yield
    finally:
        await end_tasks(warming)


async def _warm(provider: Warming, model: str | None) -> None:
    with suppress(Exception):
        await provider.warm(model)


async def within(seconds: float | None, waiting: Awaitable[T]) -> T:
    """Wait for at most some seconds.

    Raises:
        TimeoutError: it took longer.
    """
    async with asyncio.timeout(seconds):
        return await waiting


async def _put_to(reviewer: Reviewer, item: ReviewItem | ToolItem) -> Decision:
    return await (reviewer.confirm(item) if isinstance(item, ToolItem) else reviewer.review(item))


async def _reached(case: Case, denial: Deny, by: str | None) -> None:
    """Carry out what a denial says about further asks."""
    origin = case.origin
    if denial.reach == "call":
        case.desk.gate.stop(origin)
        case.desk.waiting.end(origin, "call")
    elif denial.reach == "server":
        alike = origin.coarser[0] if origin.coarser else None
        row = BlockRow(identity=origin.identity, target=origin.target, since=time.time(), by=by, coarse=alike)
        await case.desk.store.block(row)
        case.desk.waiting.end(origin, "server")


async def _counted(case: Case, admitted: Pass, review: Callable[[], Awaitable[T]]) -> T:
    gate = case.desk.gate
    gate.begin_review(admitted)
    try:
        # A queue polls the store while a person thinks. This must not use up the time the call has for the store.
        with counting(None):
            return await watched_review(case.desk.waiting.put(case.origin, case.expires_in, review()))
    finally:
        gate.end_review(admitted)
