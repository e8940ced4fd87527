"""The stages of a request for embeddings, in the same order as for sampling.

Nobody reviews vectors, so there is no ninth stage, and a person is asked about the texts only if a rule says so. The
texts can then be approved or denied, not edited: the program would take the vectors for those of its own texts.
"""

from __future__ import annotations

import hashlib

import msgspec

from antiphon.errors import InvalidParams
from antiphon.host.budget import Costs, worst_case
from antiphon.host.checks.limits import Pass
from antiphon.host.checks.scan import risks_of
from antiphon.host.checks.validate import validate
from antiphon.host.pipeline.ask_reviewer import approved, within
from antiphon.host.pipeline.case import EMBEDDINGS, Case, Desk
from antiphon.host.pipeline.reserve import hold, reserve, send
from antiphon.host.pipeline.stages import (
    admitted,
    concluded,
    know_task,
    place_of,
    provided,
    refuse_blocked,
    without_secrets,
)
from antiphon.host.providers.embeddings import Embedded, EmbeddingParams, Embeds, check_texts
from antiphon.host.review.review import Choice, ReviewItem, digest
from antiphon.host.telemetry import watched_embeddings
from antiphon.wire.origin import Origin

__all__ = ["embed"]

_CHOICES: frozenset[Choice] = frozenset({"approve", "deny"})


async def embed(desk: Desk, received: EmbeddingParams, origin: Origin) -> Embedded:
    """Have vectors made, or raise the reason why not.

    Raises:
        InvalidParams: the request is not valid; the message names the place.
        Rejected: the policy, a person, a limit, the budget or the lack of a model refused.
        InternalError: the provider, the reviewer or the store failed; the reason is not sent to the server.
    """
    case = Case(desk, origin, EMBEDDINGS)
    return await concluded(case, _embedded(case, received))


async def _embedded(case: Case, received: EmbeddingParams) -> Embedded:
    entered = admitted(case)
    try:
        _check(case, received)
        verdict = case.verdict(received)
        case.note("policy", verdict.effect, digest(received), content=await case.content(received))
        if verdict.effect == "deny":
            raise case.refusal("no-reviewer" if verdict.reason == "no-reviewer" else "policy")
        provider = case.desk.provider
        if not isinstance(provider, Embeds):
            raise case.refusal("no-model", why=f"{provider.name} makes no embeddings")
        params = await without_secrets(case, received)
        reserved = await reserve(case, params, [], asks=verdict.effect == "ask")
        if not reserved.alone:
            await _reviewed(case, received, params, entered, reserved.costs)
        made = await _made(case, provider, params)
    finally:
        case.desk.gate.leave(entered)
    # The server may have been blocked meanwhile.
    await refuse_blocked(case)
    case.note("answered", digest=hashlib.sha256(b"".join(made.vectors)).hexdigest())
    return made


def _check(case: Case, params: EmbeddingParams) -> None:
    """Run stage 1."""
    try:
        check_texts(params)
        validate(params)
    except InvalidParams as error:
        case.note("invalid", place_of(error))
        raise


async def _reviewed(
    case: Case, received: EmbeddingParams, params: EmbeddingParams, entered: Pass, costs: Costs | None
) -> None:
    """Run stage 7, and save that what was approved is sent now."""
    await know_task(case)
    # Saved now, in case this process ends while the person thinks.
    await case.save()
    item = ReviewItem(
        origin=case.origin,
        params=params,
        received=received,
        provider=case.desk.provider.name,
        choices=_CHOICES,
        risks=await case.scanned(risks_of(received, case.origin)),
        expires_in=case.expires_in,
        model=case.chosen.model,
        costs=costs,
    )
    await approved(case, item, entered)
    await hold(case, params)
    drafted = case.draft("generate", case.desk.provider.name, digest(params), model=case.chosen.model)
    await send(case, params, drafted)


async def _made(case: Case, provider: Embeds, params: EmbeddingParams) -> Embedded:
    """Run stage 8."""
    making = watched_embeddings(
        within(case.desk.generate_timeout, provider.embed(params, model=case.chosen.model)),
        case.desk.provider,
        case.chosen.model,
    )
    made = await provided(case, making)
    case.usage, case.estimated = made.usage or worst_case(params), made.usage is None
    if len(made.vectors) != len(params.texts):
        raise case.failure("the answer cannot be used: not as many vectors as texts")
    return msgspec.structs.replace(made, usage=case.usage)
