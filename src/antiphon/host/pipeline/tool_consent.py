"""Consent to a tool call before it is sent, in the same stages as for asks of a server.

``Client(confirm=host)`` calls ``confirm_tool``. Owns the order of these stages. The server's description of a tool
(``origin.tool``) is shown, and relied on only if a rule of the user says so. The definition that was allowed first, by
a person or a rule, is kept: if the server changes it, a person is asked, whatever rule or grant allowed it before.

A call whose caller may ask again is stored as sent in the transaction that carries its decision out, and its outcome is
stored when it is known. So the same call never runs twice because of one decision.
"""

from __future__ import annotations

import asyncio
import logging
import time
from datetime import datetime

import msgspec
from msgspec import DecodeError, MsgspecError, structs

from antiphon.errors import InvalidParams
from antiphon.host.checks.ask_limits import LimitReached, Pass
from antiphon.host.checks.labels import LABELS, Label, find_labels
from antiphon.host.checks.policy_rules import Verdict, decide
from antiphon.host.checks.risk import make_flow_risk, make_redefined_risk, risks_of
from antiphon.host.pipeline.case import TOOL, Case, Desk
from antiphon.host.pipeline.stages import admit_ask, check_approval, conclude_ask, decided
from antiphon.host.review import review
from antiphon.host.review.decisions import arguments_of, check_arguments
from antiphon.host.review.definitions import row_of
from antiphon.host.review.given_grants import Grant
from antiphon.host.review.question import PENDING, READ, CallTaken, PendingCall, fingerprint_call, hash_owner
from antiphon.host.review.queue import LATER
from antiphon.host.store.base import Change, DefinitionRow, PendingCallRow, Standing, Store, Supposed
from antiphon.wire.content import TextContent
from antiphon.wire.envelope import decode_wire, encode_value
from antiphon.wire.origin import ChangedCall, Origin
from antiphon.wire.tools import CallToolRequestParams, CallToolResult, fail_tool

REPEATED = 60.0
"""Seconds for which the outcome is told to the same call again; hosts that gave a call up call again within these. A
later call is a new one."""
UNKNOWN_KEPT = 24 * 3600.0
"""Seconds for which the same call is told that nobody knows whether it ran."""
MAX_BODY = 64_000
"""Most bytes of an outcome that are kept."""
MAX_TEXT = 100_000
"""Most characters that a person is shown of a file that is read: instructions of some 50 pages."""
SAVING = 5.0
"""Seconds that a result waits until its outcome is stored."""

_log = logging.getLogger("antiphon.host")


def begin_call(case: Case, params: CallToolRequestParams, id: str) -> PendingCallRow:
    """Describe a call that is sent now because of a decision; to be stored in the same transaction."""
    now = time.time()
    return PendingCallRow(
        id=id,
        fingerprint=fingerprint_call(params, case.origin),
        owner=hash_owner(case.origin.principal),
        until=now + UNKNOWN_KEPT,
        sent=True,
        host=case.desk.store.host,
        at=now,
    )


async def settle_call(store: Store, row: PendingCallRow, result: CallToolResult | None) -> None:
    """Store what became of a call that was sent; ``None``: nobody knows."""
    now = time.time()
    if result is None:
        row = structs.replace(row, host=None)
    else:
        body = encode_value(result)
        if len(body) > MAX_BODY:
            body = encode_value(
                CallToolResult(content=[TextContent(text="It ran; its result is too long to be kept.")])
            )
        row = structs.replace(row, body=body.decode(), until=now + REPEATED)
    try:
        async with asyncio.timeout(SAVING):
            await store.settle_call(row)
    except Exception as error:
        # The result goes to its caller; the same call is then told that nobody knows whether it ran.
        _log.warning("the outcome of a call could not be stored: %s", type(error).__name__)


async def repeat_outcome(case: Case, params: CallToolRequestParams, pending: PendingCall) -> CallToolResult | None:
    """Return what became of the same call, if it has run because of a decision; ``None`` if it has not."""
    store, fingerprint = case.desk.store, fingerprint_call(params, case.origin)
    with store.news.listening() as news:
        while True:
            row = await store.pending_call(fingerprint=fingerprint)
            if row is None or not row.sent:
                return None
            if row.body is not None or row.host is None:
                pending.is_repeated = True
                return _describe_outcome(row)
            if pending.seconds_left <= 0:
                raise case.leave_call(row.id, is_sent=True)
            await news.wait(min(LATER, pending.seconds_left))


def _describe_outcome(row: PendingCallRow) -> CallToolResult:
    at = datetime.fromtimestamp(row.at).astimezone().strftime("%H:%M:%S")
    if row.body is None:
        text = (
            f"Nobody knows whether this call ran: it was sent at {at} (id {row.id}), and its outcome was lost. It is "
            "not sent again. Find out what it has done before you make another call in its place."
        )
        return fail_tool(text)
    result = decode_wire(row.body.encode(), CallToolResult)
    note = f"This is the outcome of the call of {at} (id {row.id}), told again. It did not run a second time."
    return structs.replace(result, content=[*result.content, TextContent(text=note)])


async def wait_for_decision(store: Store, id: str) -> bool:
    """Wait until a person has decided about a call that was left. Returns false if its question ended without that."""
    with store.news.listening() as news:
        while (row := await store.review(id)) is not None and row.state == "pending":
            now = time.time()
            if row.expires is not None and row.expires <= now:
                return False
            if row.held and row.release is not None and row.release <= now:
                return True
            await news.wait(LATER)
    return row is not None and row.state in ("decided", "done")


async def find_call(
    store: Store, id: str, identity: str, name: str, principal: str | None
) -> CallToolRequestParams | CallToolResult | None:
    """Return the call with this id, or its outcome; ``None`` if this principal has made no such call of this tool.

    ``identity``: that of the tool's server; ``name``: the server's own name of the tool.
    """
    row, asked = await store.pending_call(id=id), await store.review(id)
    if row is not None and not row.sent:
        # It may have been asked about twice, and sent by the other decision.
        row = await store.pending_call(fingerprint=row.fingerprint) or row
    if (row is not None and row.owner != hash_owner(principal)) or (asked is not None and asked.identity != identity):
        return None
    if row is not None and row.sent and (row.body is not None or row.host is None):
        return _describe_outcome(row)
    try:
        item = None if asked is None or asked.item is None else decode_wire(asked.item.encode(), review.ToolItem)
    except DecodeError:
        return None
    if item is None or item.params.name != name or item.origin.principal != principal:
        return None
    return item.params


EDIT_NOTE = "A person changed the arguments of this call before it ran: {names}."
"""What the model is told about a changed call, by default."""
_CHOICES: frozenset[review.Choice] = frozenset({"approve", "edit", "answer", "deny", "grant"})


async def confirm_tool(desk: Desk, params: CallToolRequestParams, origin: Origin) -> ChangedCall | None:
    """Return if a tool may be called with these arguments, or what a person wants in their place.

    Raises ``InvalidParams``: the arguments cannot be read. Raises ``Rejected``: a person, the policy, a limit or the
    lack of a person refused; ``data.reason`` is a ``case.Reason``. Raises ``InternalError``: the reviewer or the store
    failed; the reason is not sent to the server.
    """
    # Each time a caller asks again, its ``_meta`` has another token of progress.
    case, params = Case(desk, origin, TOOL), structs.replace(params, meta=None)
    if not (desk.policy.rules and desk.policy.has_conditions) and desk.policy.default != "flow":
        return await conclude_ask(case, _run_consent(case, params))
    case.situation, made = desk.passed.situation(origin), False
    desk.passed.add(params.name, origin)
    try:
        changed = await conclude_ask(case, _run_consent(case, params))
        made = changed is None or changed.params is not None
        if made or ((pending := PENDING.get()) is not None and pending.is_repeated):
            desk.passed.flow(origin, find_labels(desk.policy.labels, params.name, origin, case.situation.given))
    finally:
        if not made:
            desk.passed.add(params.name, origin, -1)
    return changed


async def _run_consent(case: Case, params: CallToolRequestParams) -> ChangedCall | None:
    desk = case.desk
    try:
        # One hash for all records of the call: the params cannot change.
        hashed = review.digest(params)
    except (MsgspecError, RecursionError) as error:
        case.note("invalid", "arguments")
        raise InvalidParams(f"arguments: {error}", data={"place": "arguments"}) from None
    if await _allow_by_rule(case, params, hashed):
        return None
    shown = await _compare_definition(case, params)
    verdict = case.verdict(params, redefined=shown.is_changed)
    case.note(
        "policy", verdict.effect, hashed, content=await case.content(params), reason=verdict.rule and verdict.rule.when
    )
    if shown.is_changed:
        # Beside the effect, because a default that allows everything allows a changed definition, too.
        case.note("policy", "redefined", shown.digest)
    if verdict.effect == "deny":
        unseen = "definition" if shown.is_changed else "no-reviewer"
        raise case.refusal(unseen if verdict.reason in ("no-reviewer", "unclear", "definition", "flow") else "policy")
    entered, pending = admit_ask(case), PENDING.get()
    try:
        changed = None if verdict.effect == "allow" else await _repeat_call(case, params, pending)
        if changed is None and not await _is_allowed(case, params, verdict, shown):
            changed = await _review_call(case, params, entered, shown, verdict)
    finally:
        desk.gate.leave(entered)
    if pending is not None and pending.is_repeated:
        case.note("answered", "repeated", hashed)
    elif changed is None:
        case.note("answered", "confirmed", hashed)
    elif changed.params is not None:
        case.note("answered", "changed", review.digest(changed.params), content=await case.content(changed.params))
    elif changed.result is not None:
        case.note("answered", "in-person", review.digest(changed.result), content=await case.content(changed.result))
    return changed


async def _repeat_call(
    case: Case, params: CallToolRequestParams, pending: PendingCall | None, *, is_taken: bool = False
) -> ChangedCall | None:
    """Return what became of the same call, if a person has decided about it before.

    ``is_taken``: it was decided elsewhere. Raises ``Rejected``: it was decided elsewhere, and has not run.
    """
    result = None if pending is None else await repeat_outcome(case, params, pending)
    if result is None and is_taken:
        raise case.refusal("user", "elsewhere")
    return None if result is None else ChangedCall(result=result)


async def _allow_by_rule(case: Case, params: CallToolRequestParams, hashed: str) -> bool:
    """Try to allow a call in one transaction: a rule allows it, and this definition of its tool was allowed before.

    Nothing is read from the store first; the transaction that records the call checks that the definition is still
    allowed. Returns false if any of this does not hold; nothing was recorded then.
    """
    desk, origin = case.desk, case.origin
    allowed, labels = desk.allowed.get(origin, params.name) or (None, None)
    now = desk.digests.find_known(origin.identity, origin.tool)
    if allowed is None or allowed != (now or await case.scan_message(desk.digests.of(origin.identity, origin.tool))):
        return False
    case.note_tool(labels, is_known=True)
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


class _DefinitionPair(msgspec.Struct, frozen=True, kw_only=True):
    """The definition of the tool as it is now, and as it was allowed."""

    digest: str | None
    """``None`` if the server does not list the tool."""
    allowed: DefinitionRow | None

    @property
    def is_changed(self) -> bool:
        return self.allowed is not None and self.allowed.digest != self.digest


async def _compare_definition(case: Case, params: CallToolRequestParams) -> _DefinitionPair:
    """Compare what the server says of the tool with what was allowed.

    Raises ``Rejected``: a person has blocked the server or switched the tool off, or there is too much to examine.
    """
    standing = await case.desk.store.standing(case.origin.identities, params.name)
    case.desk.allowed.note(case.origin, params.name, standing)
    if standing.blocked:
        raise case.refusal("policy", "blocked")
    now = await case.scan_message(case.desk.digests.of(case.origin.identity, case.origin.tool))
    known = standing.definition
    if known is not None and known.off is not None:
        raise case.refusal("policy", "switched off", why="a person has switched this tool off")
    is_known = known is not None and bool(known.digest) and known.digest == now
    case.note_tool(None if known is None else known.labels, is_known=is_known)
    return _DefinitionPair(digest=now, allowed=known if known is not None and known.digest else None)


async def _is_allowed(case: Case, params: CallToolRequestParams, verdict: Verdict, shown: _DefinitionPair) -> bool:
    """Return whether nobody needs to be asked. The definition that a rule allows first is kept as the allowed one."""
    if verdict.effect != "allow":
        return not shown.is_changed and not verdict.is_exact and await _use_grant(case, params)
    define = None if shown.allowed is not None else _keep_definition(case, shown)
    prevents = await _save_if_standing(case, params, Change(define=define))
    if prevents is None and define is not None:
        case.desk.allowed.note(case.origin, params.name, Standing(blocked=False, definition=define))
    return prevents is None


async def _save_if_standing(case: Case, params: CallToolRequestParams, change: Change) -> str | None:
    """Save what lets a call run. Returns the key of what prevents it.

    Raises ``Rejected``: somebody has blocked the server or switched the tool off since that was read.
    """
    supposed = Supposed(identities=case.origin.identities, tool=params.name)
    prevents = await case.save(structs.replace(change, supposed=supposed))
    if prevents == "standing":
        await _compare_definition(case, params)
        raise case.refusal("changed", "it was blocked or switched off meanwhile")
    return prevents


def _list_labels(case: Case, params: CallToolRequestParams, shown: _DefinitionPair) -> tuple[Label, ...] | None:
    """Return the labels of a tool that a person is to check: those that neither a person nor a rule has given it."""
    policy, situation = case.desk.policy, case.situation
    uses_labels = policy.default == "flow" or bool(policy.variables & {"labels", "session"})
    if situation is None or not uses_labels or (situation.given is not None and not shown.is_changed):
        return None
    found = find_labels(policy.labels, params.name, case.origin, situation.given)
    by_rule = find_labels(policy.labels, params.name, case.origin, ())
    return None if by_rule else tuple(label for label in LABELS if label in found)


def _keep_definition(case: Case, shown: _DefinitionPair, by: str | None = None) -> DefinitionRow | None:
    tool = case.origin.tool
    return None if tool is None or shown.digest is None else row_of(case.origin, tool, shown.digest, by, case.labels)


async def _use_grant(case: Case, params: CallToolRequestParams) -> bool:
    """Use a permission that was given before, if there is one."""
    for given in await case.desk.grants.covering(params, case.origin):
        using = Change(use=given.id, records=(case.draft("grant", grant=given.id),))
        if await _save_if_standing(case, params, using) is None:
            return True
    return False


async def _review_call(
    case: Case, params: CallToolRequestParams, entered: Pass, shown: _DefinitionPair, verdict: Verdict
) -> ChangedCall | None:
    item = await _make_item(case, params, shown, verdict)
    pending = PENDING.get()
    try:
        decision = await decided(case, item, entered)
    except CallTaken:
        return await _repeat_call(case, params, pending, is_taken=True)
    changed = await _decide_replacement(case, item, decision)
    _check_policy_again(case, item, changed, shown)
    by = review.decider_of(decision)
    chosen = decision.labels if isinstance(decision, review.Approve) and item.labels is not None else None
    if chosen is not None:
        case.note_tool(" ".join(chosen), is_known=True)
    define = (
        None
        if shown.allowed is not None and not shown.is_changed and chosen is None
        else _keep_definition(case, shown, by)
    )
    begin = None if pending is None or case.ticket is None else begin_call(case, params, case.ticket.id)
    prevents = await _carry_out(case, params, Change(finish=case.ticket, define=define, begin=begin))
    if prevents == "definition":
        # It was allowed this time. As long as it cannot be kept, a person is asked each time.
        prevents = await _carry_out(case, params, Change(finish=case.ticket, begin=begin))
    if prevents in ("review", "sent") and begin is not None:
        return await _repeat_call(case, params, pending, is_taken=True)
    if prevents is not None:
        raise case.refuse_undecided()
    case.ticket = None
    if pending is not None:
        pending.begun = begin
        if changed is None or changed.params is not None:
            pending.approve(params if changed is None or changed.params is None else changed.params, case.origin, by)
    if isinstance(decision, review.Approve) and decision.scope != "once":
        grant = Grant.give(params, case.origin, decision.scope, decision.terms)
        await case.desk.grants.add(structs.replace(grant, when=decision.when))
    return changed


async def _make_item(
    case: Case, params: CallToolRequestParams, shown: _DefinitionPair, verdict: Verdict
) -> review.ToolItem:
    """Make what a person is shown of a call."""
    await case.save()
    seen, read = case.origin, READ.get()
    # A server that is started to read from has tasks that outlive this call, and must not inherit it.
    READ.set(None)
    text, left_out = ("", 0) if read is None else cut_text(await read())
    if text and seen.tool is not None:
        # What is read reaches a model as a definition does, so it is examined with it.
        seen = structs.replace(seen, tool=structs.replace(seen.tool, meta={"text": text}))
    risks = await case.scan_message(risks_of(params, seen))
    flowed = frozenset[Label]() if case.situation is None else case.situation.flowed
    if verdict.reason == "flow":
        risks = (make_flow_risk(flowed), *risks)
    return review.ToolItem(
        origin=case.origin,
        params=params,
        choices=_CHOICES - {"grant"} if verdict.is_exact else _CHOICES,
        risks=(make_redefined_risk(), *risks) if shown.is_changed else risks,
        expires_in=case.expires_in,
        labels=_list_labels(case, params, shown),
        allowed=shown.allowed.body if shown.is_changed and shown.allowed is not None else None,
        text=text,
        left_out=left_out,
        demands=verdict.demands,
    )


def cut_text(data: bytes) -> tuple[str, int]:
    """Return the beginning of a file as text, and how many of its bytes are not in it: all, if it is no text."""
    try:
        text = data.decode()[:MAX_TEXT]
    except UnicodeDecodeError:
        text = ""
    return text, len(data) - len(text.encode())


def _check_policy_again(case: Case, item: review.ToolItem, changed: ChangedCall | None, shown: _DefinitionPair) -> None:
    """Let the policy have the last word: about an edited call, and about what has happened while the person thought.

    Raises ``Rejected``: the policy denies the call that would run, or leaves it to more people than have decided.
    """
    if changed is not None and changed.params is None:
        return
    now = case.desk.passed.situation(case.origin, item.params.name)
    runs = item.params if changed is None or changed.params is None else changed.params
    verdict = decide(case.desk.policy, runs, case.origin, redefined=shown.is_changed, situation=now)
    if verdict.effect == "deny" or verdict.demands.exceeds(item.demands):
        raise case.refusal("policy")


async def _carry_out(case: Case, params: CallToolRequestParams, change: Change) -> str | None:
    """Save that a decision is carried out. If the caller gives up meanwhile, the call is not sent, and not known as so.

    Returns the key of what prevents it.
    """
    saving, pending = asyncio.ensure_future(_save_if_standing(case, params, change)), PENDING.get()
    try:
        return await asyncio.shield(saving)
    except asyncio.CancelledError:
        await asyncio.wait([saving])
        if pending is not None and change.begin is not None and not saving.cancelled() and saving.exception() is None:
            pending.begun = None if saving.result() else msgspec.structs.replace(change.begin, until=0.0)
        raise


async def _decide_replacement(case: Case, item: review.ToolItem, decision: review.Decision) -> ChangedCall | None:
    """Return what is to happen in place of the call as it was asked for; ``None`` if that was approved.

    Raises ``Rejected``: what was approved is not what was asked for. Raises ``InternalError``: the decision is none of
    the choices, or its arguments do not fit.
    """
    if isinstance(decision, review.Answer):
        words = decision.result if isinstance(decision.result, str) else decision.result.text
        # Words do not fit an output schema, and only an error needs no structured content.
        has_schema = item.origin.tool is not None and item.origin.tool.output_schema is not None
        return ChangedCall(result=CallToolResult(content=[TextContent(text=words)], is_error=has_schema))
    if isinstance(decision, review.EditCall):
        if decision.digest != review.digest(decision.params):
            raise case.refusal("changed")
        try:
            await check_arguments(item, decision.params)
        except ValueError as error:
            raise case.failure(f"the edited call does not fit: {error}") from None
        before, after = arguments_of(item.params), arguments_of(decision.params)
        # As JSON: to Python, 1 and true are equal.
        old, new = ({name: encode_value(value) for name, value in each.items()} for each in (before, after))
        names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
        return ChangedCall(params=decision.params, note=case.desk.edit_note.replace("{names}", ", ".join(names)))
    check_approval(case, item, decision)
    return None
