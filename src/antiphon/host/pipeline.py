"""The stages of an answer, called from top to bottom. The only file of the host that knows their order.

``answer`` serves sampling, ``answer_elicitation`` serves elicitation. Each stage decides in a file of its own; here is
what follows from a decision. The stages are numbered as in DESIGN, section 6.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

import msgspec

from antiphon.errors import InvalidParams
from antiphon.host.desk import ELICITATION, SAMPLING, Case, Desk
from antiphon.host.elicit import check_content, fields_of
from antiphon.host.grants import Grant
from antiphon.host.policy import decide
from antiphon.host.providers.base import text_answer
from antiphon.host.review import (
    Answer,
    Approve,
    Choice,
    Deny,
    Edit,
    ElicitItem,
    NoReviewer,
    Reviewer,
    ReviewItem,
    digest,
)
from antiphon.host.risk import assess, assess_elicitation
from antiphon.host.validate import validate, validate_result
from antiphon.wire.elicitation import ElicitRequestParams, ElicitResult
from antiphon.wire.origin import Origin
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult

__all__ = ["HUMAN", "answer", "answer_elicitation"]

T = TypeVar("T")

HUMAN = "human"
"""The model of an answer that a person wrote."""
_IN_PERSON: frozenset[Choice] = frozenset({"deny", "answer"})
_BY_PROVIDER: frozenset[Choice] = frozenset({"deny", "answer", "approve", "edit", "grant"})


class _Cleared(msgspec.Struct, frozen=True, kw_only=True):
    """A request that may be sent, and the digest of what was approved."""

    params: CreateMessageRequestParams
    digest: str


async def answer(desk: Desk, received: CreateMessageRequestParams, origin: Origin) -> CreateMessageResult:
    """Answer a sampling request, or say why not.

    Raises:
        InvalidParams: it is no valid request; the place is named.
        Rejected: a person, the policy, or the lack of a person refused; ``data.reason`` is a ``desk.Reason``.
        InternalError: the provider or the reviewer failed; their text stays here.
    """
    case = Case(desk=desk, origin=origin, method=SAMPLING)
    case.note("received")
    try:
        params = _validated(case, received)
        outcome = _by_policy(case, params) or await _by_review(case, received, params)
        if isinstance(outcome, _Cleared):
            result = await _generated(case, outcome)
            outcome = await _response_reviewed(case, outcome.params, result)
    except asyncio.CancelledError:
        case.note("withdrawn")
        raise
    case.note("answered", digest=digest(outcome))
    return outcome


async def answer_elicitation(desk: Desk, params: ElicitRequestParams, origin: Origin) -> ElicitResult:
    """Let a person fill in a form or visit an address; decline where the policy says so or nobody can be asked.

    Raises:
        InvalidParams: the form cannot be read; the place is named.
        InternalError: the reviewer failed; its text stays here.
    """
    case = Case(desk=desk, origin=origin, method=ELICITATION)
    case.note("received")
    try:
        fields_of(params)
        verdict = decide(desk.policy, params, origin, headless=desk.headless)
        case.note("policy", verdict.effect, digest(params))
        if verdict.effect == "deny" and verdict.reason != "no-reviewer":
            return case.declined("policy")
        if desk.reviewer is None or desk.headless:
            # A form needs a person even where the policy allows everything.
            return case.declined("no-reviewer")
        return await _elicited(case, desk.reviewer, params)
    except InvalidParams as error:
        case.note("invalid", _place(error))
        raise
    except asyncio.CancelledError:
        case.note("withdrawn")
        raise


def _validated(case: Case, received: CreateMessageRequestParams) -> CreateMessageRequestParams:
    """Run stage 1. Returns what would be sent: the request without what this host does not offer."""
    try:
        validate(received)
        # 2025-11-25: "The client MUST return an error if this field is provided but sampling.tools is not declared".
        if not case.desk.provider.tools and (received.tools or received.tool_choice):
            raise InvalidParams("tools: this client offers none", data={"place": "tools"})
    except InvalidParams as error:
        case.note("invalid", _place(error))
        raise
    if received.include_context in (None, "none"):
        return received
    # Context is not offered, so a wish for it is ignored (2025-11-25 client/sampling, "Capabilities").
    return msgspec.structs.replace(received, include_context=None)


def _by_policy(case: Case, params: CreateMessageRequestParams) -> _Cleared | None:
    """Run stage 2. Returns the cleared request, or ``None`` if a person must be asked."""
    desk, shown = case.desk, digest(params)
    verdict = decide(desk.policy, params, case.origin, headless=desk.headless)
    case.note("policy", verdict.effect, shown)
    if verdict.effect == "deny":
        raise case.refusal("no-reviewer" if verdict.reason == "no-reviewer" else "policy")
    if desk.provider.personal:
        return None
    if verdict.effect == "ask" and desk.grants.covering(params, case.origin) is None:
        return None
    return _Cleared(params=params, digest=shown)


async def _by_review(
    case: Case, received: CreateMessageRequestParams, params: CreateMessageRequestParams
) -> _Cleared | CreateMessageResult:
    """Run stage 7. Returns the request as the person cleared it, or the person's own answer."""
    item = ReviewItem(
        origin=case.origin,
        params=params,
        received=received,
        provider=case.desk.provider.name,
        choices=_IN_PERSON if case.desk.provider.personal else _BY_PROVIDER,
        risks=tuple(assess(received, case.origin)),
        expires_in=case.desk.review_timeout,
    )
    match await _decision(case, item):
        case Answer(result=result):
            return _sound(case, result, params)
        case Edit(params=edited, digest=shown) if "edit" in item.choices:
            return _Cleared(params=_no_wider(case, edited, params), digest=shown)
        case Approve(digest=shown, scope=scope) if "approve" in item.choices:
            if scope != "once" and digest(params) == shown:
                case.desk.grants.add(Grant.give(params, case.origin, scope))
            return _Cleared(params=params, digest=shown)
        case _:
            raise case.failure("the reviewer decided what was not to be chosen")


async def _decision(case: Case, item: ReviewItem) -> Approve | Edit | Answer:
    """Ask the reviewer. A refusal is raised."""
    if case.desk.reviewer is None or case.desk.headless:
        raise case.refusal("no-reviewer")
    try:
        decision = await _within(case.desk.review_timeout, case.desk.reviewer.review(item))
    except NoReviewer:
        raise case.refusal("no-reviewer") from None
    except TimeoutError:
        raise case.refusal("expired") from None
    except Exception as error:
        raise case.failure(f"the reviewer failed: {type(error).__name__}: {error}") from None
    case.note("review" if item.result is None else "response", type(decision).__name__.lower())
    if isinstance(decision, Deny):
        refusal = case.refusal("user")
        if decision.reason:
            # For whoever called the tool, on this side: a note does not travel.
            refusal.add_note(f"denied: {decision.reason}")
        raise refusal
    return decision


def _no_wider(
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


async def _generated(case: Case, cleared: _Cleared) -> CreateMessageResult:
    """Run stage 8. Sends what was approved, and nothing else."""
    sent = digest(cleared.params)
    if sent != cleared.digest:
        raise case.refusal("changed")
    provider = case.desk.provider
    case.note("generate", provider.name, sent)
    try:
        result = await _within(case.desk.generate_timeout, provider.complete(cleared.params))
    except Exception as error:
        raise case.failure(f"the provider failed: {type(error).__name__}: {error}") from None
    return _sound(case, result, cleared.params)


async def _response_reviewed(
    case: Case, params: CreateMessageRequestParams, result: CreateMessageResult
) -> CreateMessageResult:
    """Run stage 9. Returns the answer as it came, or as the person rewrote it."""
    if case.desk.review_response == "never":
        return result
    item = ReviewItem(
        origin=case.origin,
        params=params,
        received=params,
        provider=case.desk.provider.name,
        choices=frozenset({"approve", "deny", "answer"}),
        risks=tuple(assess(params, case.origin, result)),
        result=result,
        expires_in=case.desk.review_timeout,
    )
    decision = await _decision(case, item)
    if isinstance(decision, Answer):
        return _sound(case, decision.result, params)
    if not isinstance(decision, Approve) or decision.digest != digest(result):
        raise case.refusal("changed")
    return result


async def _elicited(case: Case, reviewer: Reviewer, params: ElicitRequestParams) -> ElicitResult:
    """Let the reviewer answer, and check what comes back."""
    risks = tuple(assess_elicitation(params, case.origin))
    item = ElicitItem(origin=case.origin, params=params, risks=risks, expires_in=case.desk.review_timeout)
    try:
        result = await _within(case.desk.review_timeout, reviewer.elicit(item))
        if result.action == "accept" and params.mode == "form":
            check_content(fields_of(params), result.content or {})
    except NoReviewer:
        return case.declined("no-reviewer")
    except TimeoutError:
        return case.declined("expired")
    except Exception as error:
        raise case.failure(f"the reviewer failed: {type(error).__name__}: {error}") from None
    case.note("answered", result.action)
    return result


def _sound(case: Case, result: CreateMessageResult | str, params: CreateMessageRequestParams) -> CreateMessageResult:
    """Check an answer before it leaves; a string is what a person wrote."""
    answered = text_answer(result, HUMAN) if isinstance(result, str) else result
    try:
        validate_result(answered, params)
    except InvalidParams as error:
        raise case.failure(f"the answer cannot be used: {error.message}") from None
    return answered


def _place(error: InvalidParams) -> str:
    return error.message.partition(":")[0]


async def _within(seconds: float | None, waiting: Awaitable[T]) -> T:
    async with asyncio.timeout(seconds):
        return await waiting
