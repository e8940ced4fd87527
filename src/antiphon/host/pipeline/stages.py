"""The short stages: admission, blocks, secrets in both directions, the question to a person, and the end of an ask.

Makes sure that nothing is sent before it is recorded. ``sampling`` has the order of the stages, and ``tool_consent``
that for tool calls.

``pass_result`` decides what a model gets of a tool's result. A call has run when its result is looked at, so nothing in
it fails the call: what is withheld is replaced by a sentence for the model.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import lru_cache, partial
from typing import Any, TypeVar, cast

import msgspec
from msgspec import structs

from antiphon.errors import AntiphonError, ConfigError, InvalidParams, Rejected
from antiphon.host.agent_run.offered_tools import fit_for_model, refusal_of
from antiphon.host.audit import Facts
from antiphon.host.checks.ask_limits import LimitReached, Pass, check_options
from antiphon.host.checks.form_fields import check_content, fields_of
from antiphon.host.checks.labels import covers_tool
from antiphon.host.checks.redact import mask_text
from antiphon.host.checks.result_rules import ExaminedResult, ResultKind, ResultRule, examine_result
from antiphon.host.checks.risk import mask_in_side_process
from antiphon.host.checks.validate import validate_request
from antiphon.host.host_telemetry import watch_review
from antiphon.host.pipeline.case import FAILED, TOOL, Case, Desk, Reason
from antiphon.host.providers.base import Provider, ProviderFailure, Usage, Warming
from antiphon.host.review import review
from antiphon.host.review.question import PENDING, AnyItem, CallLeft, CallTaken, Outcome
from antiphon.host.store.base import BlockRow
from antiphon.host.store.chain import Step
from antiphon.machine.asyncio_tasks import end_tasks, is_withdrawn
from antiphon.machine.call_time import count_time, hold_variable
from antiphon.wire.content import EmbeddedResource, ResourceContents
from antiphon.wire.elicitation import ElicitResult, drop_refused
from antiphon.wire.origin import Origin
from antiphon.wire.prompts import GetPromptRequestParams, GetPromptResult, PromptMessage
from antiphon.wire.resources import ReadResourceRequestParams, ReadResourceResult
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult
from antiphon.wire.tools import CallToolRequestParams, CallToolResult, fail_tool

T = TypeVar("T")
M = TypeVar("M", CreateMessageRequestParams, CreateMessageResult)

_NAME, _TARGET = 128, 512
"""Most characters of a tool's name and of a server's address in a record."""

_SEEN = 256
"""Most names and addresses whose masked form is kept, each of at most ``_TARGET`` characters."""

WITHDRAWAL = 1.0
"""Seconds that a withdrawn ask waits until this is saved."""

_log = logging.getLogger("antiphon.host")


async def conclude_ask(case: Case, work: Awaitable[T]) -> T:
    """Do the work of an ask, and save what is left of it however that ends.

    Raises:
        InternalError: the store or a part of the host failed; the reason is not sent to the server.
        Whatever the work raises.
    """
    case.note("received", case.origin.door or "", **_describe_asker(case))
    try:
        outcome = await work
    except AntiphonError as error:
        why = str(error.data.get("reason", "error")) if isinstance(error, Rejected) else "error"
        case.became = None if why == "user" else Outcome(became="failed", why=why)
        await _save_rest(case)
        raise
    except BaseException as error:
        if is_withdrawn(error):
            case.note("withdrawn")
            case.became = Outcome(became="late", why="cancelled")
            await _save_withdrawn(case)
            raise
        failure = case.failure(f"the store or a part of the host failed: {type(error).__name__}: {error}")
        case.became = FAILED
        await _save_rest(case)
        if not isinstance(error, Exception | asyncio.CancelledError):
            # The program is to end, which is for it to decide; what was held is settled before.
            raise
        raise failure from None
    if not case.is_saved:
        await _save_rest(case)
    case.desk.released.add(case.origin, case.method, tuple(case.reviews), by_person=case.by_person)
    return outcome


async def know_task(case: Case) -> None:
    """Add to the origin what the store knows of the task that the ask belongs to, for those who decide."""
    task = case.origin.task
    if task is None:
        return
    known = await case.desk.store.task_so_far(task.name, task.ask)
    spent = known.spent
    task = msgspec.structs.replace(task, first=known.first, asks=known.asks, money=spent.money, tokens=spent.tokens)
    case.origin = msgspec.structs.replace(case.origin, task=task)


def admit_ask(case: Case, max_tokens: int = 0) -> Pass:
    """Admit an ask, within the limits.

    Raises ``Rejected``: a limit is reached, or a person has stopped the call it belongs to.
    """
    gate = case.desk.gate
    if gate.is_stopped(case.origin):
        raise case.refusal("user", "the call was stopped")
    try:
        return gate.enter(case.origin, max_tokens)
    except LimitReached as reached:
        raise case.refusal("limit", str(reached)) from None


async def refuse_blocked(case: Case) -> None:
    """Check whether a person has blocked the server. A reservation checks this itself, see ``Case.hold``.

    Raises ``Rejected``: it is blocked.
    """
    if await case.desk.store.blocks(*case.origin.identities):
        raise case.refusal("policy", "blocked")


async def without_secrets(case: Case, message: M) -> M:
    """Run stage 6 for a request or an answer."""
    kind = "request" if isinstance(message, CreateMessageRequestParams) else "response"
    mode = getattr(case.desk.redaction, kind)
    clean = None if mode == "allow" else await case.scan_message(mask_in_side_process(message))
    if clean is None:
        return message
    if mode == "block":
        raise case.refusal("secret")
    try:
        if isinstance(clean, CreateMessageRequestParams):
            validate_request(clean)
    except InvalidParams:
        # The masked text was needed for the request to be valid: an id, a name.
        raise case.refusal("secret") from None
    case.note("redacted", kind, review.digest(clean))
    return clean


async def wait_for_provider(case: Case, completing: Awaitable[T]) -> T:
    """Wait for a provider that was called.

    Raises ``InternalError``: it failed, or took too long; what that costs is noted as far as it is known.
    """
    try:
        return await completing
    except TimeoutError:
        raise case.failure("the provider took too long") from None
    except Exception as error:
        if isinstance(error, ProviderFailure) and not error.charged:
            # The provider refused without completing, so nothing was used. For any other failure the usage is
            # unknown.
            case.usage = Usage(input_tokens=0, output_tokens=0)
        # A missing package or key can be remedied by our own caller.
        remedy = str(error) if isinstance(error, ConfigError) else ""
        raise case.failure(f"the provider failed: {type(error).__name__}: {error}", remedy) from None


def place_of(error: InvalidParams) -> str:
    """Return the place that an invalid request names."""
    return error.message.partition(":")[0]


def _describe_asker(case: Case) -> Facts:
    """Return who asked, in words for people, because an identity is only a hash."""
    origin = case.origin
    named = _mask_name(origin.call.name)[:_NAME] if origin.call and origin.call.name else None
    facts = Facts(server=_mask_name(origin.target)[:_TARGET], tool=named)
    if origin.task is not None:
        facts["task"] = origin.task.name
    return facts


def _mask_name(text: str) -> str:
    """Mask a name or an address. The same few come with every call; a long text is not kept for the next one."""
    return _mask_again(text) if len(text) <= _TARGET else mask_text(text)


_mask_again = lru_cache(_SEEN)(mask_text)


async def _save_withdrawn(case: Case) -> None:
    """Save what is left of a withdrawn ask, without waiting long for a store that does not respond."""
    try:
        async with asyncio.timeout(WITHDRAWAL):
            await case.close()
    except Exception as error:
        # A change that has begun is finished; a settlement that could not be saved is saved by the store
        # later.
        _log.warning("a withdrawn ask waits for the store: %s", type(error).__name__)
        await case.save_later()


async def _save_rest(case: Case) -> None:
    """Save what is left; if that fails nothing is sent either."""
    try:
        await case.close()
    except Exception as error:
        failure = case.failure(f"the store failed: {type(error).__name__}: {error}")
        await case.save_later()
        raise failure from None


async def decided(
    case: Case, item: review.ReviewItem | review.ToolItem, admitted: Pass
) -> review.Approve | review.Edit | review.EditCall | review.Answer | review.Regenerate:
    """Ask the reviewer. A refusal is raised, and ``CallTaken`` if the same call of a tool was decided elsewhere."""
    reviewer = _find_reviewer(case, item)
    try:
        ask = partial(reviewer.confirm, item) if isinstance(item, review.ToolItem) else partial(reviewer.review, item)
        decision = await _count_review(case, admitted, ask)
        # A reviewer may be anybody's code; what it returns is kept, as a grant for instance.
        check_options(decision)
    except review.Blocked:
        raise case.withdrawal() from None
    except review.NoReviewer as error:
        raise _refuse_unanswered(case, error) from None
    except TimeoutError:
        raise case.refusal("expired") from None
    except LimitReached as reached:
        raise case.refusal("limit", str(reached)) from None
    except Exception as error:
        raise case.failure(f"the reviewer failed: {type(error).__name__}: {error}") from None
    if decision.ticket is not None:
        case.ticket = decision.ticket
    step = "review" if item.result is None else "response"
    by = await _record_decider(case, step, item, decision)
    if isinstance(decision, review.Deny):
        raise _refuse_denied(case, item, decision)
    case.note(step, review.name_of(decision), by=by)
    case.by_person = True
    # Meanwhile somebody may have blocked the server in another process, where this wait could not be ended.
    await refuse_blocked(case)
    return decision


def _find_reviewer(case: Case, item: review.ReviewItem | review.ToolItem) -> review.Reviewer:
    desk = case.desk
    if desk.reviewer is None or desk.headless:
        raise case.refusal("no-reviewer")
    if isinstance(item, review.ToolItem) and item.demands and not isinstance(desk.reviewer, review.QueueReviewer):
        raise case.refusal("no-reviewer", why="a rule leaves this to people who have signed in on the review page")
    return desk.reviewer


def _refuse_unanswered(case: Case, error: review.NoReviewer) -> Exception:
    if isinstance(error, CallTaken):
        return error
    if isinstance(error, CallLeft):
        return case.leave_call(error.id)
    return case.refusal("deferred" if isinstance(error, review.Deferred) else "no-reviewer", why=str(error))


def check_approval(case: Case, item: review.ReviewItem | review.ToolItem, decision: object) -> review.Approve:
    """Return a decision that approves exactly what was asked for. Anything else is raised."""
    if not isinstance(decision, review.Approve):
        raise case.failure("the reviewer's decision is none of the choices")
    if decision.digest != review.digest_item(item):
        raise case.refusal("changed")
    return decision


async def _record_decider(case: Case, step: Step, item: AnyItem, made: review.Decision | review.Filled) -> str | None:
    """Record what was taken back before a decision, and a denial, which ends other asks. Returns who decided."""
    by = review.decider_of(made)
    if made.ticket is not None:
        case.reviews.append(made.ticket.id)
    for name in made.undone:
        case.note(step, f"undone:{name}", by=by)
    if isinstance(made, review.Deny):
        await _extend_denial(case, made, by)
        told = review.can_tell(item) if made.tell and made.reason else None
        case.note(step, review.name_of(made), by=by, reason=made.reason and mask_text(made.reason), told=told)
    return by


def _refuse_denied(case: Case, item: review.ReviewItem | review.ToolItem, denial: review.Deny) -> Rejected:
    """Make the error of a denial: with the reason, if the person wants to tell it."""
    refusal = case.refusal("user")
    if denial.reason:
        reason = mask_text(denial.reason)
        # For the caller of the tool, on this side: a note is not sent.
        refusal.add_note(f"denied: {reason}")
        if denial.tell and review.can_tell(item):
            refusal.data = {**refusal.data, "note": reason[: review.MAX_TOLD]}
    return refusal


async def fill_in_form(case: Case, item: review.ElicitItem, admitted: Pass) -> ElicitResult:
    """Let the reviewer answer an elicitation, and check the answer."""
    desk = case.desk
    if desk.reviewer is None or desk.headless:
        # A form needs a person even if the policy allows everything.
        return case.decline("no-reviewer")
    try:
        reviewer = desk.reviewer
        given = await _count_review(case, admitted, lambda: reviewer.elicit(item))
        filled = review.Filled(result=given) if isinstance(given, ElicitResult) else given
        result = filled.result if isinstance(filled, review.Filled) else filled
        check_options(result)
        if isinstance(result, ElicitResult) and result.action == "accept" and item.params.mode == "form":
            check_content(fields_of(item.params), result.content or {})
        result = drop_refused(result) if isinstance(result, ElicitResult) else result
    except review.Blocked:
        return case.decline("user" if case.desk.gate.is_stopped(case.origin) else "policy")
    except (review.NoReviewer, TimeoutError, LimitReached) as error:
        return case.decline(next(reason for kind, reason in _UNANSWERED.items() if isinstance(error, kind)))
    except Exception as error:
        raise case.failure(f"the reviewer failed: {type(error).__name__}: {error}") from None
    by = await _record_decider(case, "review", item, filled)
    if isinstance(result, review.Deny):
        return case.decline("user")
    if await case.desk.store.blocks(*case.origin.identities):
        return case.decline("policy")
    case.by_person = True
    case.note("answered", result.action, review.digest(result), by=by, content=await case.content(result))
    return result


_UNANSWERED: dict[type[Exception], Reason] = {
    review.NoReviewer: "no-reviewer",
    TimeoutError: "expired",
    LimitReached: "limit",
}


def no_wider(
    case: Case, edited: CreateMessageRequestParams, params: CreateMessageRequestParams
) -> CreateMessageRequestParams:
    """Check an edited request: it may ask for less than the server did, never for more."""
    try:
        validate_request(edited)
    except InvalidParams as error:
        raise case.failure(f"the edited request is not valid: {error.message}") from None
    tools = list(params.tools or ())
    if edited.max_tokens > params.max_tokens or any(tool not in tools for tool in edited.tools or ()):
        raise case.failure("the edited request wants more tokens or other tools than the server did")
    return edited


@asynccontextmanager
async def keep_provider_warm(provider: Provider, model: str | None) -> AsyncGenerator[None]:
    """Let a provider prepare while a person reviews. If it cannot, the completion will report the reason."""
    if not isinstance(provider, Warming):
        yield
        return
    warming = asyncio.create_task(_warm_provider(provider, model), name="antiphon-warm")
    try:
        yield
    finally:
        await end_tasks(warming)


async def _warm_provider(provider: Warming, model: str | None) -> None:
    with suppress(Exception):
        await provider.warm(model)


async def _extend_denial(case: Case, denial: review.Deny, by: str | None) -> None:
    """Carry out what a denial says about further asks."""
    origin = case.origin
    if denial.reach == "call":
        case.desk.gate.stop(origin)
        case.desk.waiting.end(origin, "call")
    elif denial.reach == "server":
        alike = origin.coarser[0] if origin.coarser else None
        row = BlockRow(identity=origin.identity, target=origin.target, since=time.time(), by=by, coarse=alike)
        await case.desk.store.block(row)
        case.desk.waiting.end(origin, "server")


async def _count_review(case: Case, admitted: Pass, ask: Callable[[], Awaitable[T]]) -> T:
    gate = case.desk.gate
    gate.begin_review(admitted)
    try:
        # A queue polls the store while a person thinks. This must not use up the time the call has for the store.
        with count_time(None):
            return await watch_review(case.desk.waiting.put(case.origin, case.expires_in, ask()))
    finally:
        gate.end_review(admitted)


R = TypeVar("R", CallToolResult, ReadResourceResult, GetPromptResult)
AnyParams = CallToolRequestParams | ReadResourceRequestParams | GetPromptRequestParams
_WITHHELD = "The call has run, and its result is withheld ({why}). Do not make the call again because of this."


async def pass_result(desk: Desk, result: R, params: AnyParams, origin: Origin) -> R:
    """Return what a model gets of a result: of a call that was allowed, of a resource or of a prompt.

    Raises ``Rejected``: what was read is withheld; of a tool's result a sentence says so. Raises ``InternalError``: the
    reviewer or the store failed; the model gets nothing of the result.
    """
    if not desk.policy.results:
        return result
    kind, name, call = _read_params(params)
    # A task that was picked up by its id alone may be of any tool, but is no exception for one.
    names = ((rule, rule.name if name or rule.effect == "pass" else "*") for rule in desk.policy.results)
    rules = [rule for rule, called in names if kind in rule.kinds and covers_tool(called, rule.server, name, origin)]
    if not rules:
        return result
    case = Case(desk, origin, TOOL)
    if isinstance(result, CallToolResult):
        return await _pass_by_rules(case, rules, result, call)
    passed = await _pass_by_rules(case, rules, _as_tool_result(result), call)
    if passed.is_error:
        raise Rejected(passed.text, data={"reason": "policy"})
    return _restore_reading(result, passed)


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
            case.note("response", "refuse", review.digest(result), reason=refused)
            passed = fail_tool(_WITHHELD.format(why=refused))
        elif examined.list_forms("ask"):
            passed = await _ask_about_result(case, params, examined)
        else:
            masked = examined.list_forms("mask")
            case.note("response", "mask" if masked else "pass", reason=masked or examined.list_forms("pass") or None)
            passed = examined.masked
    except Rejected as error:
        note = refusal_of(error, "note")
        passed = fail_tool(_WITHHELD.format(why=f"{error.message}: {note}" if note else error.message))
    try:
        case.note("answered", "result", review.digest(passed), content=await case.content(passed))
    finally:
        await case.close()
    return passed


async def _ask_about_result(case: Case, params: CallToolRequestParams, examined: ExaminedResult) -> CallToolResult:
    entered, pending = admit_ask(case), PENDING.get()
    seconds = [case.expires_in, None if pending is None else max(0.0, pending.seconds_left)]
    # The outcome of a call that has run is not asked for again, so that its caller is answered before it leaves.
    try:
        with hold_variable(PENDING, None):
            expires_in = min((each for each in seconds if each is not None), default=None)
            case.origin = structs.replace(case.origin, patience=expires_in)
            await case.save()
            item = review.ToolItem(
                origin=case.origin,
                params=params,
                result=examined.masked,
                choices=frozenset({"approve", "answer", "deny"}),
                risks=examined.risks,
                expires_in=expires_in,
            )
            decision = await decided(case, item, entered)
    finally:
        case.desk.gate.leave(entered)
    if not await case.finish():
        raise case.refuse_undecided()
    if isinstance(decision, review.Answer):
        words = decision.result if isinstance(decision.result, str) else decision.result.text
        return fail_tool(words)
    check_approval(case, item, decision)
    return examined.masked
