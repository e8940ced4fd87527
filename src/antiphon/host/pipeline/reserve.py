"""Choosing a model, and reserving the worst-case cost of a request: stages 4 and 5.

They belong together: the choice depends on what is left, and the reservation on the choice. ``select`` chooses,
``budget`` computes costs, and the store has the accounts.
"""

from __future__ import annotations

import time
from decimal import Decimal

import msgspec

from antiphon.errors import Rejected
from antiphon.host.audit import day_of
from antiphon.host.budget import DOLLAR, Account, Costs, accounts_for, estimate_costs, find_dearest, worst_case
from antiphon.host.models.selection import NoModel
from antiphon.host.own_request import Offer
from antiphon.host.pipeline.case import Case
from antiphon.host.review.given_grants import Given
from antiphon.host.review.review import digest
from antiphon.host.store.chain import Record
from antiphon.wire.sampling import CreateMessageRequestParams

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

    ``by_hand``: where no model can answer and a person is asked, the person may answer.

    Raises:
        Rejected: no model can answer, an account has not enough left, or the server is blocked.
    """
    try:
        return await _reserve_choice(case, params, granted, asks=asks)
    except NoModel as none:
        if not (asks and by_hand) or none.is_budget:
            raise no_model(case, none) from None
        return Reserved(alone=False, lacking=none)


async def _reserve_choice(
    case: Case, params: CreateMessageRequestParams, granted: list[Given], *, asks: bool
) -> Reserved:
    if granted or not asks:
        refused = await _without_asking(case, params, granted, asks=asks)
        if refused is None:
            return Reserved(alone=True)
        if not _is_grant(refused):
            raise _refuse_unreserved(case, refused)
    costs = await _choose_model(case, params, look=True)
    await hold_reservation(case, params)
    return Reserved(alone=False, costs=costs)


async def list_offered_models(case: Case, params: CreateMessageRequestParams) -> tuple[Offer, ...]:
    """Return the models that may answer within what is left, the one that would be chosen first.

    Raises:
        Rejected: none may.
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

    Raises:
        Rejected: an account has not enough left, or the server is blocked.
        InternalError: this model was not among the choices.
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

    That happens if this process was suspended for longer than its lease.

    Raises:
        Rejected: the reservation is gone and an account has not enough left, or the decision does not exist any more.
    """
    for _ in range(_RESERVATIONS):
        refused = await case.send(sending)
        if refused is None:
            return
        if refused != "hold":
            raise case.refusal("changed", "the decision does not exist any more")
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

    Raises:
        NoModel: none of the models can answer.
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
