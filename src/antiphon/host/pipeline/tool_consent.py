"""Consent to a tool call before it is sent, in the same stages as for asks of a server.

``Client(confirm=host)`` calls ``confirm``. Owns the order of these stages. The server's description of a tool
(``origin.tool``) is shown, and relied on only if a rule of the user says so. The definition that was allowed first, by
a person or a rule, is kept: if the server changes it, a person is asked, whatever rule or grant allowed it before.
"""

from __future__ import annotations

import msgspec

from antiphon.host.checks.limits import LimitReached, Pass
from antiphon.host.checks.policy import Verdict
from antiphon.host.checks.risk import redefined
from antiphon.host.checks.scan import risks_of
from antiphon.host.pipeline.ask_reviewer import approved
from antiphon.host.pipeline.case import TOOL, Case, Desk
from antiphon.host.pipeline.stages import admitted, concluded
from antiphon.host.review.definitions import row_of
from antiphon.host.review.grants import Grant
from antiphon.host.review.review import Choice, ToolItem, decider_of, digest
from antiphon.host.store.base import Change, DefinitionRow, Standing, Supposed
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
    if desk.policy.rules and desk.policy.has_conditions:
        desk.passed.add(params.name, origin)


async def _confirmed(case: Case, params: CallToolRequestParams) -> None:
    desk = case.desk
    # One hash for all records of the call: the params cannot change.
    hashed = digest(params)
    if await _known_to_be_allowed(case, params, hashed):
        return
    shown = await _shown(case, params)
    verdict = case.verdict(params, redefined=shown.is_changed)
    case.note(
        "policy", verdict.effect, hashed, content=await case.content(params), reason=verdict.rule and verdict.rule.when
    )
    if shown.is_changed:
        # Beside the effect, because a default that allows everything allows a changed definition, too.
        case.note("policy", "redefined", shown.digest)
    if verdict.effect == "deny":
        unseen = "definition" if shown.is_changed else "no-reviewer"
        raise case.refusal(unseen if verdict.reason in ("no-reviewer", "unclear") else "policy")
    entered = admitted(case)
    try:
        if not await _allowed(case, params, verdict, shown):
            await _reviewed(case, params, entered, shown, verdict)
    finally:
        desk.gate.leave(entered)
    case.note("answered", "confirmed", hashed)


async def _known_to_be_allowed(case: Case, params: CallToolRequestParams, hashed: str) -> bool:
    """Try to allow a call in one transaction: a rule allows it, and this definition of its tool was allowed before.

    Nothing is read from the store first; the transaction that records the call checks that the definition is still
    allowed. Returns false if any of this does not hold; nothing was recorded then.
    """
    desk, origin = case.desk, case.origin
    allowed = desk.allowed.get(origin, params.name)
    now = desk.digests.known(origin.identity, origin.tool)
    if allowed is None or allowed != (now or await case.scanned(desk.digests.of(origin.identity, origin.tool))):
        return False
    verdict = case.verdict(params)
    if verdict.effect != "allow" or desk.gate.is_stopped(origin):
        return False
    content = await case.content(params) if desk.audit.content else None
    try:
        desk.gate.count(origin)
    except LimitReached:
        return False
    drafts = (
        case.draft("policy", "allow", hashed, content=content, reason=verdict.rule and verdict.rule.when),
        case.draft("answered", "confirmed", hashed),
    )
    supposed = Supposed(identities=origin.identities, tool=params.name, digest=allowed)
    return await case.save(Change(supposed=supposed, records=drafts)) is None


class _Shown(msgspec.Struct, frozen=True, kw_only=True):
    """The definition of the tool as it is now, and as it was allowed."""

    digest: str | None
    """``None`` if the server does not list the tool."""
    allowed: DefinitionRow | None

    @property
    def is_changed(self) -> bool:
        return self.allowed is not None and self.allowed.digest != self.digest


async def _shown(case: Case, params: CallToolRequestParams) -> _Shown:
    """Compare what the server says of the tool with what was allowed.

    Raises:
        Rejected: a person has blocked the server or switched the tool off, or there is too much to examine.
    """
    standing = await case.desk.store.standing(case.origin.identities, params.name)
    case.desk.allowed.note(case.origin, params.name, standing)
    if standing.blocked:
        raise case.refusal("policy", "blocked")
    now = await case.scanned(case.desk.digests.of(case.origin.identity, case.origin.tool))
    known = standing.definition
    if known is not None and known.off is not None:
        raise case.refusal("policy", "switched off", why="a person has switched this tool off")
    return _Shown(digest=now, allowed=known if known is not None and known.digest else None)


async def _allowed(case: Case, params: CallToolRequestParams, verdict: Verdict, shown: _Shown) -> bool:
    """Return whether nobody needs to be asked. The definition that a rule allows first is kept as the allowed one."""
    if verdict.effect != "allow":
        return not shown.is_changed and not verdict.is_exact and await _granted(case, params)
    define = None if shown.allowed is not None else _defined(case, shown)
    if define is None:
        return True
    prevents = await case.save(Change(define=define))
    if prevents is None:
        case.desk.allowed.note(case.origin, params.name, Standing(blocked=False, definition=define))
    return prevents is None


def _defined(case: Case, shown: _Shown, by: str | None = None) -> DefinitionRow | None:
    tool = case.origin.tool
    return None if tool is None or shown.digest is None else row_of(case.origin, tool, shown.digest, by)


async def _granted(case: Case, params: CallToolRequestParams) -> bool:
    """Use a permission that was given before, if there is one."""
    for given in await case.desk.grants.covering(params, case.origin):
        drafts = (case.draft("grant", grant=given.id),)
        if await case.save(Change(use=given.id, records=drafts)) is None:
            return True
    return False


async def _reviewed(case: Case, params: CallToolRequestParams, entered: Pass, shown: _Shown, verdict: Verdict) -> None:
    await case.save()
    risks = await case.scanned(risks_of(params, case.origin))
    item = ToolItem(
        origin=case.origin,
        params=params,
        choices=_CHOICES - {"grant"} if verdict.is_exact else _CHOICES,
        risks=(redefined(), *risks) if shown.is_changed else risks,
        expires_in=case.expires_in,
        allowed=shown.allowed.body if shown.is_changed and shown.allowed is not None else None,
    )
    decision = await approved(case, item, entered)
    by = decider_of(decision)
    ticket, case.ticket = case.ticket, None
    define = None if shown.allowed is not None and not shown.is_changed else _defined(case, shown, by)
    prevents = await case.save(Change(finish=ticket, define=define))
    if prevents == "definition":
        # It was allowed this time. As long as it cannot be kept, a person is asked each time.
        prevents = await case.save(Change(finish=ticket))
    if prevents is not None:
        raise case.refusal("changed", "the decision does not exist any more")
    if decision.scope != "once":
        await case.desk.grants.add(Grant.give(params, case.origin, decision.scope, decision.terms))
