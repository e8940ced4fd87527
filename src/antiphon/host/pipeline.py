"""The stages of an answer, called from top to bottom. The only file of the host that knows their order.

``answer`` serves sampling, ``answer_elicitation`` serves elicitation; ``consent`` does the like for calls of tools.
Each stage decides in a file of its own; here is what follows from a decision. The stages are numbered as in DESIGN,
section 6. The tenth, the audit, is in every other: what is noted is saved in the transaction of what it tells of, and
before anything leaves.
"""

from __future__ import annotations

import time
from decimal import Decimal

import msgspec

from antiphon.errors import InvalidParams, Rejected
from antiphon.host.asking import decided, filled_in, no_wider, warmed, within
from antiphon.host.audit import day_of
from antiphon.host.budget import DOLLAR, Account, Costs, accounts_for, estimate_costs, worst_case
from antiphon.host.chain import Record
from antiphon.host.desk import ELICITATION, SAMPLING, Case, Desk
from antiphon.host.elicit import fields_of
from antiphon.host.grants import Given, Grant
from antiphon.host.limits import Pass
from antiphon.host.policy import decide
from antiphon.host.providers.base import Usage, completion_of, text_answer
from antiphon.host.redact import has_secrets, masked
from antiphon.host.review import Answer, Approve, Choice, Edit, ElicitItem, Regenerate, ReviewItem, digest
from antiphon.host.risk import Risk, assess, assess_elicitation
from antiphon.host.stages import admitted, concluded, place_of, refuse_blocked
from antiphon.host.telemetry import watched_completion
from antiphon.host.validate import validate, validate_result
from antiphon.wire.elicitation import ElicitRequestParams, ElicitResult
from antiphon.wire.origin import Origin
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult

__all__ = ["HUMAN", "answer", "answer_elicitation"]

HUMAN = "human"
"""The model of an answer that a person wrote."""
MAX_ANSWERS = 20
"""Answers that a person may have generated for one request, one after the other."""
_IN_PERSON: frozenset[Choice] = frozenset({"deny", "answer"})
_BY_PROVIDER: frozenset[Choice] = frozenset({"deny", "answer", "approve", "edit", "grant"})
_OF_ANSWERS: frozenset[Choice] = frozenset({"deny", "answer", "approve", "regenerate"})


class _Cleared(msgspec.Struct, frozen=True, kw_only=True):
    """A request that may be sent, and the digest of what was approved."""

    params: CreateMessageRequestParams
    digest: str


async def answer(desk: Desk, received: CreateMessageRequestParams, origin: Origin) -> CreateMessageResult:
    """Answer a sampling request, or say why not.

    Raises:
        InvalidParams: it is no valid request; the place is named.
        Rejected: a person, the policy, a limit, the budget or the lack of a person refused; ``data.reason`` is a
            ``desk.Reason``.
        InternalError: the provider, the reviewer or the store failed; their text stays here.
    """
    case = Case(desk, origin, SAMPLING)
    return await concluded(case, _sampled(case, received))


async def answer_elicitation(desk: Desk, params: ElicitRequestParams, origin: Origin) -> ElicitResult:
    """Let a person fill in a form or visit an address; decline where the policy says so or nobody can be asked.

    Raises:
        InvalidParams: the form cannot be read; the place is named.
        InternalError: the reviewer or the store failed; its text stays here.
    """
    case = Case(desk, origin, ELICITATION)
    return await concluded(case, _elicited(case, params))


async def _sampled(case: Case, received: CreateMessageRequestParams) -> CreateMessageResult:
    """Run all stages of a request."""
    params = _validated(case, received)
    asks = _by_policy(case, params)
    entered = admitted(case, params.max_tokens)
    try:
        outcome = await _answered(case, received, params, entered, asks=asks)
    finally:
        case.desk.gate.leave(entered)
    case.note("answered", digest=digest(outcome), content=case.content(outcome))
    return outcome


async def _answered(
    case: Case, received: CreateMessageRequestParams, params: CreateMessageRequestParams, entered: Pass, *, asks: bool
) -> CreateMessageResult:
    """Run the stages 4 to 9 for a request that is let in."""
    params = _redacted(case, params)
    granted = await case.desk.grants.covering(params, case.origin) if asks else []
    if case.desk.provider.personal:
        await refuse_blocked(case)
        outcome = await _by_review(case, received, params, entered)
    else:
        costs = await _chosen(case, params)
        alone = await _reserved(case, params, granted, asks=asks)
        outcome = (
            _Cleared(params=params, digest=digest(params))
            if alone
            else await _by_review(case, received, params, entered, costs)
        )
    if isinstance(outcome, CreateMessageResult):
        return outcome
    result = await _generated(case, outcome)
    return await _response_reviewed(case, outcome.params, result, entered)


def _validated(case: Case, received: CreateMessageRequestParams) -> CreateMessageRequestParams:
    """Run stage 1. Returns what would be sent: the request without what this host does not offer."""
    try:
        validate(received)
        # 2025-11-25: "The client MUST return an error if this field is provided but sampling.tools is not declared".
        if not case.desk.provider.tools and (received.tools or received.tool_choice):
            raise InvalidParams("tools: this client offers none", data={"place": "tools"})
    except InvalidParams as error:
        case.note("invalid", place_of(error))
        raise
    if received.include_context in (None, "none"):
        return received
    # Context is not offered, so a wish for it is ignored (2025-11-25 client/sampling, "Capabilities").
    return msgspec.structs.replace(received, include_context=None)


def _by_policy(case: Case, params: CreateMessageRequestParams) -> bool:
    """Run stage 2. Returns whether somebody must be asked, unless a grant says otherwise."""
    verdict = decide(case.desk.policy, params, case.origin, headless=case.desk.headless)
    case.note("policy", verdict.effect, digest(params), content=case.content(params))
    if verdict.effect == "deny":
        raise case.refusal("no-reviewer" if verdict.reason == "no-reviewer" else "policy")
    return verdict.effect == "ask"


async def _chosen(case: Case, params: CreateMessageRequestParams) -> Costs | None:
    """Run stage 4, and say what it may cost. Without a choice it is the provider's own model."""
    choose = case.desk.choose
    if choose is None:
        return None
    left = await _left(case)
    chosen = choose(params, case.origin, None if left is None else Decimal(left) / DOLLAR)
    if chosen is None:
        raise case.refusal("no-model")
    case.chosen = chosen
    return estimate_costs(params, chosen.price, left)


async def _reserved(case: Case, params: CreateMessageRequestParams, granted: list[Given], *, asks: bool) -> bool:
    """Run stage 5. Returns whether the request goes without asking: by policy, or by a grant that is counted."""
    usage, accounts = worst_case(params), _accounts(case)
    sending = case.draft("generate", case.desk.provider.name, digest(params), model=case.chosen.model)
    for given in granted:
        drafts = (case.draft("grant", grant=given.id), sending)
        refused = await case.hold(usage, accounts + given.accounts, drafts=drafts, sent=True, use=given.id)
        if refused is None:
            return True
        if not refused.startswith("grant"):
            raise _unreserved(case, refused)
    await _held(case, usage, drafts=() if asks else (sending,), sent=not asks)
    return not asks


async def _held(case: Case, usage: Usage, *, drafts: tuple[Record, ...] = (), sent: bool = False) -> None:
    refused = await case.hold(usage, _accounts(case), drafts=drafts, sent=sent, use=None)
    if refused is not None:
        raise _unreserved(case, refused)


def _unreserved(case: Case, key: str) -> Rejected:
    return case.refusal("policy", "blocked") if key == "block" else case.refusal("budget", key.partition(":")[0])


async def _switched(case: Case, params: CreateMessageRequestParams, model: str | None) -> None:
    """Choose the model that a person wants instead, and reserve at its price."""
    if model is None or model == case.chosen.model:
        return
    if model not in case.chosen.others:
        raise case.failure("the reviewer chose a model that cannot answer")
    await case.settle()
    case.chosen = case.chosen.instead(model)
    await _held(case, worst_case(params))


def _accounts(case: Case) -> tuple[Account, ...]:
    desk = case.desk
    return accounts_for(desk.budget, case.origin, host=desk.store.host, day=day_of(time.time()))


async def _left(case: Case) -> int | None:
    """Say how much money may still be spent on this ask; ``None`` where no cap bounds it."""
    bounds = {account.key: account.cap.money for account in _accounts(case) if account.cap.money is not None}
    if not bounds:
        return None
    taken = dict.fromkeys(bounds, 0)
    for balance in await case.desk.store.balances_of(list(bounds)):
        taken[balance.key] = balance.spent.money + balance.held.money
    return max(0, min(bounds[key] - taken[key] for key in bounds))


def _redacted(case: Case, params: CreateMessageRequestParams) -> CreateMessageRequestParams:
    """Run stage 6 on the way out."""
    mode = case.desk.redaction.request
    if mode == "allow" or not has_secrets(params):
        return params
    if mode == "block":
        raise case.refusal("secret")
    cleaned = masked(params)
    try:
        validate(cleaned)
    except InvalidParams:
        # What looked like a secret held the request together: an id, a name.
        raise case.refusal("secret") from None
    case.note("redacted", "request", digest(cleaned))
    return cleaned


def _result_redacted(case: Case, result: CreateMessageResult) -> CreateMessageResult:
    """Run stage 6 on the way back."""
    mode = case.desk.redaction.response
    if mode == "allow" or not has_secrets(result):
        return result
    if mode == "block":
        raise case.refusal("secret")
    case.note("redacted", "response")
    return masked(result)


async def _by_review(
    case: Case,
    received: CreateMessageRequestParams,
    params: CreateMessageRequestParams,
    entered: Pass,
    costs: Costs | None = None,
) -> _Cleared | CreateMessageResult:
    """Run stage 7. Returns the request as the person cleared it, or the person's own answer."""
    # What is known so far outlives us while the person thinks.
    await case.save()
    item = ReviewItem(
        origin=case.origin,
        params=params,
        received=received,
        provider=case.desk.provider.name,
        choices=_IN_PERSON if case.desk.provider.personal else _BY_PROVIDER,
        risks=tuple(assess(received, case.origin)),
        expires_in=case.desk.review_timeout,
        model=case.chosen.model,
        costs=costs,
        selection=msgspec.to_builtins(case.chosen.selection),
        models=case.chosen.others,
    )
    async with warmed(case.desk.provider, case.chosen.model):
        decision = await decided(case, item, entered)
    match decision:
        case Answer(result=result):
            return _sound(case, result, params)
        case Edit(params=edited, digest=shown, model=model) if "edit" in item.choices:
            await _switched(case, params, model)
            return _Cleared(params=no_wider(case, edited, params), digest=shown)
        case Approve(digest=shown) as approval if "approve" in item.choices:
            if approval.scope != "once" and digest(params) == shown:
                grant = Grant.give(params, case.origin, approval.scope, approval.terms)
                await case.desk.grants.add(grant)
            await _switched(case, params, approval.model)
            return _Cleared(params=params, digest=shown)
        case _:
            raise case.failure("the reviewer decided what was not to be chosen")


async def _generated(case: Case, cleared: _Cleared) -> CreateMessageResult:
    """Run stage 8. Sends what was approved, and nothing else."""
    sent, provider = digest(cleared.params), case.desk.provider
    if sent != cleared.digest:
        raise case.refusal("changed")
    if not case.sent:
        sending = case.draft(
            "generate", provider.name, sent, model=case.chosen.model, content=case.content(cleared.params)
        )
        if not await case.send(sending):
            raise case.refusal("changed", "the decision is not there any more")
    completing = completion_of(provider, cleared.params, model=case.chosen.model, fallbacks=case.chosen.fallbacks)
    try:
        limited = within(case.desk.generate_timeout, completing)
        completion = await watched_completion(limited, provider, cleared.params, case.chosen.model)
    except TimeoutError:
        raise case.failure("the provider took too long") from None
    except Exception as error:
        # It said no, and did not complete: nothing was used.
        case.usage = Usage(input_tokens=0, output_tokens=0)
        raise case.failure(f"the provider failed: {type(error).__name__}: {error}") from None
    case.completed(completion, cleared.params)
    return _result_redacted(case, _sound(case, completion.result, cleared.params))


async def _response_reviewed(
    case: Case, params: CreateMessageRequestParams, result: CreateMessageResult, entered: Pass
) -> CreateMessageResult:
    """Run stage 9. Returns the answer as it came, or as the person rewrote it."""
    for _ in range(MAX_ANSWERS):
        risks = _flags(case, params, result)
        if risks is None:
            return result
        await case.settle()
        item = ReviewItem(
            origin=case.origin,
            params=params,
            received=params,
            provider=case.desk.provider.name,
            choices=_OF_ANSWERS,
            risks=risks,
            result=result,
            expires_in=case.desk.review_timeout,
            model=case.chosen.model,
            models=case.chosen.others,
        )
        decision = await decided(case, item, entered)
        if isinstance(decision, Answer):
            return _sound(case, decision.result, params)
        if not isinstance(decision, Regenerate):
            if not isinstance(decision, Approve) or decision.digest != digest(result):
                raise case.refusal("changed")
            return result
        result = await _regenerated(case, params, decision.model)
    raise case.refusal("limit", "answers")


async def _regenerated(case: Case, params: CreateMessageRequestParams, model: str | None) -> CreateMessageResult:
    """Run the stages 5 and 8 once more, because the person did not like the answer."""
    await _switched(case, params, model)
    if case.held is None:
        await _held(case, worst_case(params))
    return await _generated(case, _Cleared(params=params, digest=digest(params)))


def _flags(case: Case, params: CreateMessageRequestParams, result: CreateMessageResult) -> tuple[Risk, ...] | None:
    """Say what is remarkable in an answer that is to be reviewed; ``None`` if it is not."""
    mode = case.desk.review_response
    if mode == "never":
        return None
    risks = tuple(assess(params, case.origin, result))
    return risks if mode == "always" or any(risk.level == "warning" for risk in risks) else None


async def _elicited(case: Case, params: ElicitRequestParams) -> ElicitResult:
    """Run the stages of an elicitation."""
    try:
        fields_of(params)
    except InvalidParams as error:
        case.note("invalid", place_of(error))
        raise
    desk = case.desk
    if await desk.store.blocks(case.origin.identity):
        return case.declined("policy")
    verdict = decide(desk.policy, params, case.origin, headless=desk.headless)
    case.note("policy", verdict.effect, digest(params), content=case.content(params))
    if verdict.effect == "deny" and verdict.reason != "no-reviewer":
        return case.declined("policy")
    try:
        entered = admitted(case)
    except Rejected:
        return ElicitResult(action="decline")
    try:
        await case.save()
        risks = tuple(assess_elicitation(params, case.origin))
        item = ElicitItem(origin=case.origin, params=params, risks=risks, expires_in=desk.review_timeout)
        return await filled_in(case, item, entered)
    finally:
        desk.gate.leave(entered)


def _sound(case: Case, result: CreateMessageResult | str, params: CreateMessageRequestParams) -> CreateMessageResult:
    """Check an answer before it leaves; a string is what a person wrote."""
    answered = text_answer(result, HUMAN) if isinstance(result, str) else result
    try:
        validate_result(answered, params)
    except InvalidParams as error:
        raise case.failure(f"the answer cannot be used: {error.message}") from None
    return answered
