"""The stages of answering an ask, in the only module of the host that knows their order.

``complete_sampling`` serves sampling, and ``answer_elicitation`` elicitation; ``tool_consent`` does the same for tool
calls. Each stage decides in a module of its own; this one acts on the decisions. Stages are numbered 1 to 10 in the
order of calls. The tenth, the audit, is part of all others: a record is saved in the transaction of the change it
describes, and before anything is sent.

Choosing a model and reserving the worst-case cost, stages 4 and 5, belong together: the choice depends on what is left,
and the reservation on the choice. ``select`` chooses, ``budget`` computes costs, and the store has the accounts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from decimal import Decimal

import msgspec

from antiphon.errors import InvalidParams, Rejected
from antiphon.host.audit import day_of
from antiphon.host.budget import DOLLAR, Account, Costs, accounts_for, estimate_costs, find_dearest, worst_case
from antiphon.host.checks.ask_limits import Pass
from antiphon.host.checks.form_fields import fields_of
from antiphon.host.checks.risk import Risk, risks_of
from antiphon.host.checks.validate import separate_uses, validate_request, validate_result
from antiphon.host.host_telemetry import watch_completion
from antiphon.host.models.selection import NoModel
from antiphon.host.own_request import Offer, OwnAnswer, make_person_origin
from antiphon.host.pipeline import stages
from antiphon.host.pipeline.case import ELICITATION, SAMPLING, Case, Desk
from antiphon.host.pipeline.growth import choose_growth, watch_growth
from antiphon.host.providers.base import Completion, completion_of
from antiphon.host.review.given_grants import Given, Grant
from antiphon.host.review.question import PENDING
from antiphon.host.review.review import Answer, Approve, Choice, Edit, ElicitItem, Regenerate, ReviewItem, digest
from antiphon.host.store.chain import Record
from antiphon.machine.asyncio_tasks import at_once_or_within
from antiphon.wire.elicitation import ElicitRequestParams, ElicitResult
from antiphon.wire.origin import Origin
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult, text_answer

_RESERVATIONS = 3
"""How often one request is reserved before it is given up; a process is suspended for a whole lease once at most."""


class Reserved(msgspec.Struct, frozen=True, kw_only=True):
    """A reservation was made."""

    alone: bool
    """Whether the request is sent without asking: by policy, or by a grant that is counted."""
    lacking: NoModel | None = None
    """Why no model can answer, if a person may: then nothing is reserved."""
    costs: Costs | None = None
    """What it may cost, for the reviewer; ``None`` if the model is the provider's own."""


async def reserve_model(
    case: Case, params: CreateMessageRequestParams, granted: list[Given], *, asks: bool, by_hand: bool = False
) -> Reserved:
    """Choose a model and reserve its worst case.

    ``by_hand``: where no model can answer and a person is asked, the person may answer. Raises ``Rejected``: no model
    can answer, an account has not enough left, or the server is blocked.
    """
    try:
        if granted or not asks:
            refused = await _without_asking(case, params, granted, asks=asks)
            if refused is None:
                return Reserved(alone=True)
            if not _is_grant(refused):
                raise _refuse_unreserved(case, refused)
        costs = await _choose_model(case, params, look=True)
        await hold_reservation(case, params)
    except NoModel as none:
        if not (asks and by_hand) or none.is_budget:
            raise no_model(case, none) from None
        return Reserved(alone=False, lacking=none)
    return Reserved(alone=False, costs=costs)


async def list_offered_models(case: Case, params: CreateMessageRequestParams) -> tuple[Offer, ...]:
    """Return the models that may answer within what is left, the one that would be chosen first.

    Raises ``Rejected``: none may.
    """
    try:
        await _choose_model(case, params, look=True)
    except NoModel as none:
        raise no_model(case, none) from None
    names = (case.chosen.model or case.desk.provider.name, *case.chosen.others)
    prices, usage = case.chosen.prices, worst_case(params)
    return tuple(
        Offer(model=name, cost=None if (price := prices.get(name)) is None else find_dearest(usage, [price]).money)
        for name in names
    )


async def hold_reservation(case: Case, params: CreateMessageRequestParams, model: str | None = None) -> None:
    """Make sure that the worst case of this request is reserved; nothing is sent yet.

    ``model``: the model a person chose instead. A request that a person made longer may cost more than was reserved.
    Raises ``Rejected``: an account has not enough left, or the server is blocked. Raises ``InternalError``: this model
    was not among the choices.
    """
    if model is not None and model != case.chosen.model:
        if model not in case.chosen.others:
            raise case.failure("the reviewer chose a model that cannot answer")
        await case.settle()
        case.chosen = case.chosen.instead(model)
    elif case.held is not None:
        wanted = find_dearest(worst_case(params), case.chosen.at_stake)
        if wanted.money <= case.held.amount.money and wanted.tokens <= case.held.amount.tokens:
            return
        await case.settle()
    refused = await case.hold(worst_case(params), _list_accounts(case), drafts=(), sent=False, use=None)
    if refused is not None:
        raise _refuse_unreserved(case, refused)


async def save_sending(case: Case, params: CreateMessageRequestParams, sending: Record) -> None:
    """Save that the provider is called now. If another process has released the reservation, it is made again first.

    That happens if this process was suspended for longer than its lease. Raises ``Rejected``: the reservation is gone
    and an account has not enough left, or the decision does not exist any more.
    """
    for _ in range(_RESERVATIONS):
        refused = await case.send(sending)
        if refused is None:
            return
        if refused != "hold":
            raise case.refuse_undecided()
        case.note("reserved", "again")
        await hold_reservation(case, params)
    raise case.refusal("changed", "the reservation does not exist any more")


async def _without_asking(
    case: Case, params: CreateMessageRequestParams, granted: list[Given], *, asks: bool
) -> str | None:
    """Reserve and send. Returns the key of what prevents it.

    First as if nothing had been spent, without reading the accounts: if they would change the choice, the reservation
    is refused. (Models that are too expensive do not change the winner, see ``select``, unless it is one of them.)
    """
    await _choose_model(case, params, look=False)
    before, refused = case.chosen, await _hold_alone(case, params, granted, asks=asks)
    if refused is None or refused == "block" or _is_grant(refused):
        return refused
    await _choose_model(case, params, look=True)
    return refused if case.chosen == before else await _hold_alone(case, params, granted, asks=asks)


async def _hold_alone(
    case: Case, params: CreateMessageRequestParams, granted: list[Given], *, asks: bool
) -> str | None:
    usage, accounts, refused, chosen = worst_case(params), _list_accounts(case), "grant", case.chosen
    sending = case.draft("generate", case.desk.provider.name, digest(params), model=case.chosen.model)
    for given in granted:
        reduced = given.grant.reduced(chosen)
        if reduced is None:
            # The grant covers less: another vendor would see the request, or it would cost more.
            continue
        case.chosen = reduced
        drafts = (case.draft("grant", grant=given.id), sending)
        refused = await case.hold(usage, accounts + given.accounts, drafts=drafts, sent=True, use=given.id)
        if refused is None or not _is_grant(refused):
            return refused
    case.chosen = chosen
    return refused if asks else await case.hold(usage, accounts, drafts=(sending,), sent=True, use=None)


async def _choose_model(case: Case, params: CreateMessageRequestParams, *, look: bool) -> Costs | None:
    """Run stage 4, and compute the costs if somebody looks at them. Without a choice it is the provider's own model.

    Raises ``NoModel``: none of the models can answer.
    """
    choose = case.desk.choose
    if choose is None:
        return None
    left = await _compute_left(case, look=look)
    chosen = choose(params, case.origin, None if left is None else Decimal(left) / DOLLAR)
    if chosen is None:
        raise NoModel("")
    case.chosen = chosen
    if not look:
        return None
    costs = estimate_costs(params, chosen.price, left)
    # A fallback may cost more than the model itself, and what is shown is what is reserved.
    return msgspec.structs.replace(costs, worst=find_dearest(worst_case(params), chosen.at_stake))


def no_model(case: Case, none: NoModel) -> Rejected:
    """Refuse a request because no model can answer it."""
    return case.refusal("budget" if none.is_budget else "no-model", why=str(none))


def _is_grant(refused: str) -> bool:
    return refused.startswith("grant")


def _refuse_unreserved(case: Case, key: str) -> Rejected:
    return case.refusal("policy", "blocked") if key == "block" else case.refusal("budget", key.partition(":")[0])


def _list_accounts(case: Case) -> tuple[Account, ...]:
    desk = case.desk
    return accounts_for(desk.budget, case.origin, host=desk.store.host, day=day_of(time.time()))


async def _compute_left(case: Case, *, look: bool) -> int | None:
    """Return the money that may still be spent on this ask; ``None`` if no cap limits it."""
    bounds = {account.key: account.cap.money for account in _list_accounts(case) if account.cap.money is not None}
    if not bounds:
        return None
    taken = dict.fromkeys(bounds, 0)
    for balance in await case.desk.store.balances_of(list(bounds)) if look else ():
        taken[balance.key] = balance.spent.money + balance.held.money
    return max(0, min(bounds[key] - taken[key] for key in bounds))


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


async def complete_sampling(
    desk: Desk, received: CreateMessageRequestParams, origin: Origin, flow: Callable[[str], object] | None = None
) -> Completion:
    """Answer a sampling request, and return the usage and the model as well; or raise the reason why not.

    ``flow`` gets the text while it comes, if nobody reviews the answer: masked, in pieces that are never taken back.
    Raises ``InvalidParams``: the request is not valid; the message names the place. Raises ``Rejected``: a person, the
    policy, a limit, the budget or the lack of a person refused; ``data.reason`` is a ``case.Reason``. Raises
    ``InternalError``: the provider, the reviewer or the store failed; the reason is not sent to the server.
    """
    case = Case(desk, origin, SAMPLING)
    case.flow = flow
    result = await stages.conclude_ask(case, _run_sampling(case, received))
    return Completion(result=result, usage=case.usage, by=case.chosen.model)


async def answer_elicitation(desk: Desk, params: ElicitRequestParams, origin: Origin) -> ElicitResult:
    """Let a person fill in a form or visit an address; decline if the policy denies it or nobody can be asked.

    Raises ``InvalidParams``: the form cannot be read; the message names the place. Raises ``InternalError``: the
    reviewer or the store failed; the reason is not sent to the server.
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

    Raises ``InvalidParams``: it is no valid request. Raises ``Rejected``: a limit, the budget or the lack of a model
    refused it. Raises ``InternalError``: the provider or the store failed; their text stays here.
    """
    case = Case(desk, make_person_origin(), SAMPLING)
    case.is_own, case.flow = True, flow
    return await stages.conclude_ask(case, _answer_own_request(case, params, by, model))


async def offers_own(desk: Desk, params: CreateMessageRequestParams) -> tuple[Offer, ...]:
    """Return the models that may answer a request of the person's own, the one that would be chosen first.

    Raises ``Rejected``: none may.
    """
    case = Case(desk, make_person_origin(), SAMPLING)
    if desk.provider.personal:
        raise case.refusal("no-model", why="only a person answers here")
    return await list_offered_models(case, params)


async def _run_sampling(case: Case, received: CreateMessageRequestParams) -> CreateMessageResult:
    # First of all, so that invalid requests are counted as well and cannot fill the audit.
    entered = stages.admit_ask(case, received.max_tokens)
    try:
        await stages.know_task(case)
        params = _validate_request(case, received)
        # Stage 2. A rule that asks needs somebody, unless there is a grant.
        verdict = case.verdict(params)
        case.note("policy", verdict.effect, digest(params), content=await case.content(params))
        if verdict.effect == "deny":
            raise case.refusal("no-reviewer" if verdict.reason == "no-reviewer" else "policy")
        outcome = await _answer_admitted(case, received, params, entered, asks=verdict.effect == "ask")
    finally:
        case.desk.gate.leave(entered)
    # The server may have been blocked while the model answered; the answer is then not sent.
    await stages.refuse_blocked(case)
    if not await case.finish():
        raise case.refuse_undecided()
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
        reserved = await reserve_model(case, params, granted, asks=asks, by_hand=True)
        outcome = (
            _Cleared(params=params, digest=digest(params))
            if reserved.alone
            else await _by_review(case, received, params, entered, reserved)
        )
    if isinstance(outcome, CreateMessageResult):
        return outcome
    return await _response_reviewed(case, outcome.params, await _generate_answer(case, outcome), entered)


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
        await reserve_model(case, params, [], asks=True)
        first = case.chosen.model or case.desk.provider.name
        await hold_reservation(case, params, None if model == first else model)
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


async def _by_review(
    case: Case,
    received: CreateMessageRequestParams,
    params: CreateMessageRequestParams,
    entered: Pass,
    reserved: Reserved | None = None,
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
            await hold_reservation(case, checked, model)
            return _Cleared(params=checked, digest=shown)
        case Approve(digest=shown) as approval if "approve" in item.choices:
            await hold_reservation(case, params, approval.model)
            if approval.scope != "once" and digest(params) == shown:
                grant = Grant.give(params, case.origin, approval.scope, approval.terms, case.chosen)
                await case.desk.grants.add(grant)
            return _Cleared(params=params, digest=shown)
        case _ if lacking is not None:
            raise no_model(case, lacking)
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
        await save_sending(case, cleared.params, sending)
    completion = await stages.wait_for_provider(case, _complete_cleared(case, cleared))
    case.note_completion(completion, cleared.params)
    return await stages.without_secrets(case, _check_answer(case, completion.result, cleared.params))


async def _complete_cleared(case: Case, cleared: _Cleared) -> Completion:
    provider = case.desk.provider
    async with watch_growth(case) as shown:
        growth = choose_growth(case, cleared.params, shown)
        completing = completion_of(
            provider, cleared.params, model=case.chosen.model, fallbacks=case.chosen.fallbacks, growth=growth
        )
        limited = at_once_or_within(case.desk.generate_timeout, completing)
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
                await hold_reservation(case, params, model)
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
