"""Consent to a tool call before it is sent, in the same stages as for asks of a server.

``Client(confirm=host)`` calls ``confirm``. Owns the order of these stages. The server's description of a tool
(``origin.tool``) is shown, and relied on only if a rule of the user says so.
"""

from __future__ import annotations

from antiphon.host.checks.limits import Pass
from antiphon.host.checks.policy import decide
from antiphon.host.checks.scan import risks_of
from antiphon.host.pipeline.ask_reviewer import decided
from antiphon.host.pipeline.case import TOOL, Case, Desk
from antiphon.host.pipeline.stages import admitted, concluded, refuse_blocked
from antiphon.host.review.grants import Grant
from antiphon.host.review.review import Approve, Choice, ToolItem, digest
from antiphon.host.store.base import Change
from antiphon.wire.origin import Origin
from antiphon.wire.tools import CallToolRequestParams

__all__ = ["confirm"]

_CHOICES: frozenset[Choice] = frozenset({"approve", "deny", "grant"})


async def confirm(desk: Desk, params: CallToolRequestParams, origin: Origin) -> None:
    """Return if a tool may be called with these arguments.

    Raises:
        Rejected: a person, the policy, a limit or the lack of a person refused; ``data.reason`` is a ``case.Reason``.
        InternalError: the reviewer or the store failed; the reason is not sent to the server.
    """
    case = Case(desk, origin, TOOL)
    await concluded(case, _confirmed(case, params))


async def _confirmed(case: Case, params: CallToolRequestParams) -> None:
    await refuse_blocked(case)
    verdict = decide(case.desk.policy, params, case.origin, headless=case.desk.headless)
    case.note("policy", verdict.effect, digest(params), content=await case.content(params))
    if verdict.effect == "deny":
        raise case.refusal("no-reviewer" if verdict.reason == "no-reviewer" else "policy")
    entered = admitted(case)
    try:
        if verdict.effect == "ask" and not await _granted(case, params):
            await _reviewed(case, params, entered)
    finally:
        case.desk.gate.leave(entered)
    case.note("answered", "confirmed", digest(params))


async def _granted(case: Case, params: CallToolRequestParams) -> bool:
    """Use a permission that was given before, if there is one."""
    for given in await case.desk.grants.covering(params, case.origin):
        drafts = (case.draft("grant", grant=given.id),)
        if await case.save(Change(use=given.id, records=drafts)) is None:
            return True
    return False


async def _reviewed(case: Case, params: CallToolRequestParams, entered: Pass) -> None:
    await case.save()
    item = ToolItem(
        origin=case.origin,
        params=params,
        choices=_CHOICES,
        risks=await case.scanned(risks_of(params, case.origin)),
        expires_in=case.expires_in,
    )
    decision = await decided(case, item, entered)
    if not isinstance(decision, Approve):
        raise case.failure("the reviewer decided what was not to be chosen")
    if decision.digest != digest(params):
        raise case.refusal("changed")
    ticket, case.ticket = case.ticket, None
    if ticket is not None and await case.save(Change(finish=ticket)) is not None:
        raise case.refusal("changed", "the decision is not there any more")
    if decision.scope != "once":
        await case.desk.grants.add(Grant.give(params, case.origin, decision.scope, decision.terms))
