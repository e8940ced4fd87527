"""What a model gets of a tool's result, by the rules about results: as it is, masked, seen by a person first, or not.

A call has run when its result is looked at, so nothing here fails the call: what is withheld is replaced by a sentence
for the model. The record has what was found and the hash of what the model got.
"""

from __future__ import annotations

from msgspec import structs

from antiphon.errors import Rejected
from antiphon.host.agent_run.offered_tools import fit_for_model, refusal_of
from antiphon.host.checks.labels import covers_tool
from antiphon.host.checks.result_rules import ExaminedResult, examine_result
from antiphon.host.pipeline.case import TOOL, Case, Desk
from antiphon.host.pipeline.stages import admit_ask, check_approval, decided
from antiphon.host.review.pending_call import PENDING
from antiphon.host.review.review import Answer, ToolItem, digest
from antiphon.wire.content import TextContent
from antiphon.wire.origin import Origin
from antiphon.wire.tools import CallToolRequestParams, CallToolResult

_WITHHELD = "The call has run, and its result is withheld ({why}). Do not make the call again because of this."


async def pass_result(
    desk: Desk, result: CallToolResult, params: CallToolRequestParams, origin: Origin
) -> CallToolResult:
    """Return what a model gets of the result of a call that was allowed.

    Raises:
        InternalError: the reviewer or the store failed; the model gets nothing of the result.
    """
    results = desk.policy.results
    rules = [rule for rule in results if covers_tool(rule, params.name, origin)] if results else []
    if not rules:
        return result
    case = Case(desk, origin, TOOL)
    try:
        examined = await case.scan_message(examine_result(rules, result, params, origin))
        if examined.most is not None:
            examined = structs.replace(examined, masked=fit_for_model(examined.masked, examined.most))
        refused = examined.list_forms("refuse")
        if refused:
            case.note("response", "refuse", digest(result), reason=refused)
            passed = _withhold_result(refused)
        elif examined.list_forms("ask"):
            passed = await _ask_about_result(case, params, examined)
        else:
            masked = examined.list_forms("mask")
            case.note("response", "mask" if masked else "pass", reason=masked or examined.list_forms("pass") or None)
            passed = examined.masked
    except Rejected as error:
        note = refusal_of(error, "note")
        passed = _withhold_result(f"{error.message}: {note}" if note else error.message)
    try:
        case.note("answered", "result", digest(passed), content=await case.content(passed))
    finally:
        await case.close()
    return passed


async def _ask_about_result(case: Case, params: CallToolRequestParams, examined: ExaminedResult) -> CallToolResult:
    entered, pending = admit_ask(case), PENDING.get()
    seconds = [case.expires_in, None if pending is None else max(0.0, pending.seconds_left)]
    # The outcome of a call that has run is not asked for again, so that its caller is answered before it leaves.
    before = PENDING.set(None)
    try:
        expires_in = min((each for each in seconds if each is not None), default=None)
        case.origin = structs.replace(case.origin, patience=expires_in)
        await case.save()
        item = ToolItem(
            origin=case.origin,
            params=params,
            result=examined.masked,
            choices=frozenset({"approve", "answer", "deny"}),
            risks=examined.risks,
            expires_in=expires_in,
        )
        decision = await decided(case, item, entered)
    finally:
        PENDING.reset(before)
        case.desk.gate.leave(entered)
    await case.finish()
    if isinstance(decision, Answer):
        words = decision.result if isinstance(decision.result, str) else decision.result.text
        return CallToolResult(content=[TextContent(text=words)], is_error=True)
    check_approval(case, item, decision)
    return examined.masked


def _withhold_result(why: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=_WITHHELD.format(why=why))], is_error=True)
