"""The stages of answering an ask, in the only module of the host that knows their order.

``answer_sampling`` serves sampling, and ``answer_elicitation`` elicitation; ``tool_consent`` does the same for tool
calls. Each stage decides in a module of its own; this one acts on the decisions. Stages are numbered 1 to 10 in the
order of calls. The tenth, the audit, is part of all others: a record is saved in the transaction of the change it
describes, and before anything is sent.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from antiphon.errors import InvalidParams, Rejected
from antiphon.host.checks.ask_limits import Pass
from antiphon.host.checks.form_fields import fields_of
from antiphon.host.checks.risk import Risk, risks_of
from antiphon.host.checks.validate import separate_uses, validate_request, validate_result
from antiphon.host.host_telemetry import watch_completion
from antiphon.host.own_request import Offer, OwnAnswer, make_person_origin
from antiphon.host.pipeline import reserve, stages
from antiphon.host.pipeline.case import ELICITATION, SAMPLING, Case, Desk
from antiphon.host.pipeline.growth import choose_growth, watch_growth
from antiphon.host.providers.base import Completion, completion_of, text_answer
from antiphon.host.review.given_grants import Grant
from antiphon.host.review.question import PENDING
from antiphon.host.review.review import Answer, Approve, Choice, Edit, ElicitItem, Regenerate, ReviewItem, digest
from antiphon.wire.elicitation import ElicitRequestParams, ElicitResult
from antiphon.wire.origin import Origin
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult

HUMAN = "human"
"""The model name of an answer that a person wrote."""
MAX_ANSWERS = 20
"""Most answers that a person may have generated for one request."""
_IN_PERSON: frozenset[Choice] = frozenset({"deny", "answer"})
_BY_PROVIDER: frozenset[Choice] = frozenset({"deny", "answer", "approve", "edit", "grant"})
_OF_ANSWERS: frozenset[Choice] = frozenset({"deny", "answer", "approve", "regenerate"})


class _Cleared(msgspec.Struct, frozen=True, kw_only=True):
    """A request that may be sent, and the digest of what was approved."""

    params: CreateMessageRequestParams
    digest: str


async def answer_sampling(desk: Desk, received: CreateMessageRequestParams, origin: Origin) -> CreateMessageResult:
    """Answer a sampling request, or raise the reason why not.

    Raises:
        InvalidParams: the request is not valid; the message names the place.
        Rejected: a person, the policy, a limit, the budget or the lack of a person refused; ``data.reason`` is a
            ``case.Reason``.
        InternalError: the provider, the reviewer or the store failed; the reason is not sent to the server.
    """
    return (await complete_sampling(desk, received, origin)).result


async def complete_sampling(
    desk: Desk, received: CreateMessageRequestParams, origin: Origin, flow: Callable[[str], object] | None = None
) -> Completion:
    """Answer as ``answer_sampling`` does; return the usage and the model as well.

    ``flow`` gets the text while it comes, if nobody reviews the answer: masked, in pieces that are never taken back.
    """
    case = Case(desk, origin, SAMPLING)
    case.flow = flow
    result = await stages.conclude_ask(case, _run_sampling(case, received))
    return Completion(result=result, usage=case.usage, by=case.chosen.model)


async def answer_elicitation(desk: Desk, params: ElicitRequestParams, origin: Origin) -> ElicitResult:
    """Let a person fill in a form or visit an address; decline if the policy denies it or nobody can be asked.

    Raises:
        InvalidParams: the form cannot be read; the message names the place.
        InternalError: the reviewer or the store failed; the reason is not sent to the server.
    """
    case = Case(desk, origin, ELICITATION)
    return await stages.conclude_ask(case, _run_elicitation(case, params))


async def answer_own(
    desk: Desk,
    params: CreateMessageRequestParams,
    *,
    by: str | None,
    model: str | None,
    flow: Callable[[str], object] | None = None,
) -> OwnAnswer:
    """Answer a request of the person's own. ``flow`` gets the text while it comes, as for ``complete_sampling``.

    Raises:
        InvalidParams: it is no valid request.
        Rejected: a limit, the budget or the lack of a model refused it.
        InternalError: the provider or the store failed; their text stays here.
    """
    case = Case(desk, make_person_origin(), SAMPLING)
    case.is_own, case.flow = True, flow
    return await stages.conclude_ask(case, _answer_own_request(case, params, by, model))


async def offers_own(desk: Desk, params: CreateMessageRequestParams) -> tuple[Offer, ...]:
    """Return the models that may answer a request of the person's own, the one that would be chosen first.

    Raises:
        Rejected: none may.
    """
    case = Case(desk, make_person_origin(), SAMPLING)
    if desk.provider.personal:
        raise case.refusal("no-model", why="only a person answers here")
    return await reserve.list_offered_models(case, params)


async def _run_sampling(case: Case, received: CreateMessageRequestParams) -> CreateMessageResult:
    """Run all stages of a request."""
    # First of all, so that invalid requests are counted as well and cannot fill the audit.
    entered = stages.admit_ask(case, received.max_tokens)
    try:
        await stages.know_task(case)
        params = _validate_request(case, received)
        asks = await _by_policy(case, params)
        outcome = await _answer_admitted(case, received, params, entered, asks=asks)
    finally:
        case.desk.gate.leave(entered)
    # The server may have been blocked while the model answered; the answer is then not sent.
    await stages.refuse_blocked(case)
    case.note("answered", digest=digest(outcome), content=await case.content(outcome))
    return outcome


async def _answer_admitted(
    case: Case, received: CreateMessageRequestParams, params: CreateMessageRequestParams, entered: Pass, *, asks: bool
) -> CreateMessageResult:
    """Run stages 4 to 9 for a request that was admitted."""
    case.refuse_late()
    params = await stages.without_secrets(case, params)
    granted = await case.desk.grants.covering(params, case.origin) if asks else []
    if case.desk.provider.personal:
        outcome = await _by_review(case, received, params, entered)
    else:
        reserved = await reserve.reserve_model(case, params, granted, asks=asks, by_hand=True)
        outcome = (
            _Cleared(params=params, digest=digest(params))
            if reserved.alone
            else await _by_review(case, received, params, entered, reserved)
        )
    if isinstance(outcome, CreateMessageResult):
        return outcome
    result = await _generate_answer(case, outcome)
    return await _response_reviewed(case, outcome.params, result, entered)


async def _answer_own_request(
    case: Case, received: CreateMessageRequestParams, by: str | None, model: str | None
) -> OwnAnswer:
    """Run the stages of a request of the person's own: nobody else is asked, and no server hears of it."""
    entered = stages.admit_ask(case, received.max_tokens)
    try:
        params = _validate_request(case, received)
        case.note("policy", "ask", digest(params), content=await case.content(params))
        case.note("review", "own", by=by)
        if case.desk.provider.personal:
            raise case.refusal("no-model", why="only a person answers here")
        params = await stages.without_secrets(case, params)
        await reserve.reserve_model(case, params, [], asks=True)
        first = case.chosen.model or case.desk.provider.name
        await reserve.hold_reservation(case, params, None if model == first else model)
        result = await _generate_answer(case, _Cleared(params=params, digest=digest(params)))
    finally:
        case.desk.gate.leave(entered)
    case.note("answered", digest=digest(result), content=await case.content(result))
    return OwnAnswer(
        ask=case.origin.id, result=result, model=case.chosen.model or case.desk.provider.name, money=case.cost
    )


def _validate_request(case: Case, received: CreateMessageRequestParams) -> CreateMessageRequestParams:
    """Run stage 1. Returns what would be sent: the request without what this host does not offer."""
    try:
        validate_request(received)
        # 2025-11-25: "The client MUST return an error if this field is provided but sampling.tools is not declared".
        if not case.desk.provider.tools and (received.tools or received.tool_choice):
            raise InvalidParams("tools: this client offers none", data={"place": "tools"})
    except InvalidParams as error:
        case.note("invalid", stages.place_of(error))
        raise
    if received.include_context in (None, "none"):
        return received
    # Context is not offered, so a request for it is ignored (2025-11-25 client/sampling, "Capabilities").
    return msgspec.structs.replace(received, include_context=None)


async def _by_policy(case: Case, params: CreateMessageRequestParams) -> bool:
    """Run stage 2. Returns whether somebody must be asked, unless there is a grant."""
    verdict = case.verdict(params)
    case.note("policy", verdict.effect, digest(params), content=await case.content(params))
    if verdict.effect == "deny":
        raise case.refusal("no-reviewer" if verdict.reason == "no-reviewer" else "policy")
    return verdict.effect == "ask"


async def _by_review(
    case: Case,
    received: CreateMessageRequestParams,
    params: CreateMessageRequestParams,
    entered: Pass,
    reserved: reserve.Reserved | None = None,
) -> _Cleared | CreateMessageResult:
    """Run stage 7. Returns the request as the person cleared it, or the person's own answer.

    ``reserved``: what was reserved; ``None`` if only the person answers.
    """
    lacking = None if reserved is None else reserved.lacking
    if reserved is None or lacking is not None:
        await stages.refuse_blocked(case)
    # Saved now, in case this process ends while the person thinks.
    await case.save()
    item = ReviewItem(
        origin=case.origin,
        params=params,
        received=received,
        provider=case.desk.provider.name if lacking is None else f"manual ({lacking})",
        choices=_BY_PROVIDER if reserved is not None and lacking is None else _IN_PERSON,
        risks=await case.scan_message(risks_of(received, case.origin)),
        expires_in=case.expires_in,
        model=case.chosen.model,
        costs=None if reserved is None else reserved.costs,
        selection=msgspec.to_builtins(case.chosen.selection),
        models=case.chosen.others,
        fallbacks=case.chosen.fallbacks,
        prices=case.chosen.known_prices,
    )
    async with stages.keep_provider_warm(case.desk.provider, case.chosen.model):
        decision = await stages.decided(case, item, entered)
    match decision:
        case Answer(result=result):
            return _check_answer(case, result, params)
        case Edit(params=edited, digest=shown, model=model) if "edit" in item.choices:
            checked = stages.no_wider(case, edited, params)
            await reserve.hold_reservation(case, checked, model)
            return _Cleared(params=checked, digest=shown)
        case Approve(digest=shown) as approval if "approve" in item.choices:
            await reserve.hold_reservation(case, params, approval.model)
            if approval.scope != "once" and digest(params) == shown:
                grant = Grant.give(params, case.origin, approval.scope, approval.terms, case.chosen)
                await case.desk.grants.add(grant)
            return _Cleared(params=params, digest=shown)
        case _ if lacking is not None:
            raise reserve.no_model(case, lacking)
        case _:
            raise case.failure("the reviewer's decision is none of the choices")


async def _generate_answer(case: Case, cleared: _Cleared) -> CreateMessageResult:
    """Run stage 8. Sends exactly what was approved."""
    sent, provider = digest(cleared.params), case.desk.provider
    if sent != cleared.digest:
        raise case.refusal("changed")
    if not case.sent:
        case.refuse_late()
        sending = case.draft(
            "generate", provider.name, sent, model=case.chosen.model, content=await case.content(cleared.params)
        )
        await reserve.save_sending(case, cleared.params, sending)
    completion = await stages.wait_for_provider(case, _complete_cleared(case, cleared))
    case.note_completion(completion, cleared.params)
    return await stages.answer_without_secrets(case, _check_answer(case, completion.result, cleared.params))


async def _complete_cleared(case: Case, cleared: _Cleared) -> Completion:
    provider = case.desk.provider
    async with watch_growth(case) as shown:
        growth = choose_growth(case, cleared.params, shown)
        completing = completion_of(
            provider, cleared.params, model=case.chosen.model, fallbacks=case.chosen.fallbacks, growth=growth
        )
        limited = stages.wait_within(case.desk.generate_timeout, completing)
        return await watch_completion(limited, provider, cleared.params, case.chosen.model)


async def _response_reviewed(
    case: Case, params: CreateMessageRequestParams, result: CreateMessageResult, entered: Pass
) -> CreateMessageResult:
    """Run stage 9. Returns the answer unchanged, or as the person rewrote it."""
    for _ in range(MAX_ANSWERS):
        risks = await _assess_answer(case, params, result)
        if risks is None:
            return result
        await case.settle()
        decision = await stages.decided(case, _to_release(case, params, result, risks), entered)
        match decision:
            case Answer(result=written):
                return _check_answer(case, written, params)
            case Regenerate(model=model):
                await reserve.hold_reservation(case, params, model)
                result = await _generate_answer(case, _Cleared(params=params, digest=digest(params)))
            case Approve(digest=shown) if shown == digest(result):
                return result
            case _:
                raise case.refusal("changed")
    raise case.refusal("limit", "answers")


def _to_release(
    case: Case, params: CreateMessageRequestParams, result: CreateMessageResult, risks: tuple[Risk, ...]
) -> ReviewItem:
    return ReviewItem(
        origin=case.origin,
        params=params,
        received=params,
        provider=case.desk.provider.name,
        choices=_OF_ANSWERS,
        risks=risks,
        result=result,
        expires_in=case.expires_in,
        model=case.chosen.model,
        models=case.chosen.others,
        prices=case.chosen.known_prices,
    )


async def _assess_answer(
    case: Case, params: CreateMessageRequestParams, result: CreateMessageResult
) -> tuple[Risk, ...] | None:
    """Return the risks of an answer that is to be reviewed; ``None`` if it is not reviewed."""
    mode = case.desk.review_response
    if mode == "never":
        return None
    risks = await case.scan_message(risks_of(params, case.origin, result))
    return risks if mode == "always" or any(risk.level == "warning" for risk in risks) else None


async def _run_elicitation(case: Case, params: ElicitRequestParams) -> ElicitResult:
    """Run the stages of an elicitation: limits first, as for a request."""
    try:
        entered = stages.admit_ask(case)
    except Rejected:
        return ElicitResult(action="decline")
    try:
        await stages.know_task(case)
        return await _let_in(case, params, entered)
    finally:
        case.desk.gate.leave(entered)


async def _let_in(case: Case, params: ElicitRequestParams, entered: Pass) -> ElicitResult:
    try:
        fields_of(params)
    except InvalidParams as error:
        case.note("invalid", stages.place_of(error))
        raise
    desk = case.desk
    if await desk.store.blocks(*case.origin.identities):
        return case.decline("policy")
    verdict = case.verdict(params)
    case.note("policy", verdict.effect, digest(params), content=await case.content(params))
    if verdict.effect == "deny" and verdict.reason != "no-reviewer":
        return case.decline("policy")
    pending = PENDING.get()
    if pending is not None and pending.take_confirmation(params, case.origin):
        result = ElicitResult(action="accept", content={"confirm": True})
        case.note("answered", "confirmed-before", digest(result), by=pending.by)
        return result
    await case.save()
    risks = await case.scan_message(risks_of(params, case.origin))
    item = ElicitItem(origin=case.origin, params=params, risks=risks, expires_in=case.expires_in)
    return await stages.fill_in_form(case, item, entered)


def _check_answer(
    case: Case, result: CreateMessageResult | str, params: CreateMessageRequestParams
) -> CreateMessageResult:
    """Check an answer before it is sent; a string was written by a person."""
    answered = separate_uses(text_answer(result, HUMAN) if isinstance(result, str) else result)
    try:
        validate_result(answered, params)
    except InvalidParams as error:
        raise case.failure(f"the answer cannot be used: {error.message}") from None
    return answered
