"""What a model gets of a tool's result, by the rules about results: as it is, masked, seen by a person first, or not.

A call has run when its result is looked at, so nothing here fails the call: what is withheld is replaced by a sentence
for the model. The record has what was found and the hash of what the model got.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

from msgspec import structs

from antiphon.errors import Rejected
from antiphon.host.agent_run.offered_tools import fit_for_model, refusal_of
from antiphon.host.checks.labels import covers_tool
from antiphon.host.checks.result_rules import ExaminedResult, ResultKind, ResultRule, examine_result
from antiphon.host.pipeline.case import TOOL, Case, Desk
from antiphon.host.pipeline.stages import admit_ask, check_approval, decided
from antiphon.host.review.question import PENDING
from antiphon.host.review.review import Answer, ToolItem, digest
from antiphon.wire.content import EmbeddedResource, ResourceContents, TextContent
from antiphon.wire.origin import Origin
from antiphon.wire.prompts import GetPromptRequestParams, GetPromptResult, PromptMessage
from antiphon.wire.resources import ReadResourceRequestParams, ReadResourceResult
from antiphon.wire.tools import CallToolRequestParams, CallToolResult

R = TypeVar("R", CallToolResult, ReadResourceResult, GetPromptResult)
AnyParams = CallToolRequestParams | ReadResourceRequestParams | GetPromptRequestParams
_WITHHELD = "The call has run, and its result is withheld ({why}). Do not make the call again because of this."


async def pass_result(desk: Desk, result: R, params: AnyParams, origin: Origin) -> R:
    """Return what a model gets of a result: of a call that was allowed, of a resource or of a prompt.

    Raises:
        Rejected: what was read is withheld; of a tool's result a sentence says so.
        InternalError: the reviewer or the store failed; the model gets nothing of the result.
    """
    if not desk.policy.results:
        return result
    kind, name, call = _read_params(params)
    rules = [rule for rule in desk.policy.results if kind in rule.kinds and _covers_name(rule, name, origin)]
    if not rules:
        return result
    case = Case(desk, origin, TOOL)
    if isinstance(result, CallToolResult):
        return await _pass_by_rules(case, rules, result, call)
    passed = await _pass_by_rules(case, rules, _as_tool_result(result), call)
    if passed.is_error:
        raise Rejected(passed.text, data={"reason": "policy"})
    return _restore_reading(result, passed)


def _covers_name(rule: ResultRule, name: str, origin: Origin) -> bool:
    # A task that was picked up by its id alone may be of any tool, but is no exception for one.
    return covers_tool(rule if name or rule.effect == "pass" else structs.replace(rule, name="*"), name, origin)


def _read_params(params: AnyParams) -> tuple[ResultKind, str, CallToolRequestParams]:
    """Return what was called or read: its kind, its name, and the call of the tool by which an agent would do so."""
    if isinstance(params, ReadResourceRequestParams):
        return "resource", params.uri, CallToolRequestParams.of("read_resource", {"uri": params.uri})
    if isinstance(params, GetPromptRequestParams):
        given = {"name": params.name, "arguments": params.arguments or {}}
        return "prompt", params.name, CallToolRequestParams.of("get_prompt", given)
    return "tool", params.name, params


def _as_tool_result(result: ReadResourceResult | GetPromptResult) -> CallToolResult:
    if isinstance(result, ReadResourceResult):
        return CallToolResult(content=[EmbeddedResource(resource=each) for each in result.contents], meta=result.meta)
    more = None if result.description is None else {"description": result.description}
    return CallToolResult(
        content=[message.content for message in result.messages], structured_content=more, meta=result.meta
    )


def _restore_reading(result: Any, passed: CallToolResult) -> Any:
    if isinstance(result, ReadResourceResult):
        uri = result.contents[0].uri if result.contents else ""
        contents = [
            each.resource if isinstance(each, EmbeddedResource) else ResourceContents.of(uri, getattr(each, "text", ""))
            for each in passed.content
        ]
        return structs.replace(result, contents=contents, meta=passed.meta)
    roles = [message.role for message in result.messages]
    messages = [PromptMessage(role=role, content=block) for role, block in zip(roles, passed.content, strict=False)]
    members = cast("Mapping[str, Any]", passed.structured_content or {})
    return structs.replace(result, messages=messages, description=members.get("description"), meta=passed.meta)


async def _pass_by_rules(
    case: Case, rules: Sequence[ResultRule], result: CallToolResult, params: CallToolRequestParams
) -> CallToolResult:
    origin = case.origin
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
