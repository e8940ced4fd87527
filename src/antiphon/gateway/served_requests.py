"""How a gateway serves the requests of clients: it finds the server, sends it the request, and returns the result.

Owns the table of methods that are served by the servers behind the gateway. ``group`` finds the server of a name.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import Any

import msgspec
from msgspec import structs

from antiphon import errors
from antiphon.client.client import Client, OnProgress
from antiphon.client.remote_skill import RemoteSkill
from antiphon.client.requests.request_calls import loose_origin
from antiphon.gateway.group import MAX_WATCHED, PrincipalGroup, choose_server, note_request
from antiphon.gateway.offer import make_outer_uri, rewrite_entry
from antiphon.gateway.relayed_asks import choose_extensions
from antiphon.gateway.server_catalogue import ServerCatalogue, ServerItem
from antiphon.gateway.tasks_behind import OwnedTask
from antiphon.gateway.terms import ANSWER_WITHIN
from antiphon.gateway.upstream import Upstream, UpstreamUnavailable
from antiphon.host.pipeline.tool_consent import find_call, settle_call, wait_for_decision
from antiphon.host.review.question import PendingCall
from antiphon.machine.asyncio_tasks import end_tasks
from antiphon.server.context import Context
from antiphon.server.server_middleware import CallNext, ServerRequest
from antiphon.server.tasks.task_requests import check_declared
from antiphon.wire.common import PENDING_CALL, PROGRESS_TOKEN, EmptyResult
from antiphon.wire.completion import CompleteRequestParams, CompleteResult, Completion, PromptReference
from antiphon.wire.content import TextContent
from antiphon.wire.envelope import encode_value, read_data
from antiphon.wire.logging import LoggingLevel
from antiphon.wire.lossless import Received, drop_own_members
from antiphon.wire.origin import MEMORY
from antiphon.wire.outcome_filter import pass_outcome
from antiphon.wire.prompts import GetPromptResult, ListPromptsResult
from antiphon.wire.resources import ListResourcesResult, ListResourceTemplatesResult, ReadResourceResult
from antiphon.wire.skills import SKILL_FILE, GetSkillResult, ListSkillsResult, ReadDirectoryResult, find_entry_problem
from antiphon.wire.subscriptions import SubscriptionFilter
from antiphon.wire.task import TASKS, CreateTaskResult, GetTaskResult
from antiphon.wire.tools import CallToolRequestParams, CallToolResult, ListToolsResult, fail_tool

_QUIET = 15.0
"""Seconds without a report after which the gateway sends one; hosts give up after 60, some after 30."""

_LOOK = 1.0
"""Seconds between two looks at a server that starts."""

_UNSAID: LoggingLevel = "info"
"""Level for a client up to 2025-11-25 that has set none: "the server MAY decide which messages to send"."""

Report = Callable[[float, float | None, str | None], Awaitable[None]]


@asynccontextmanager
async def report_progress(
    ctx: Context, starting: Callable[[], str | None] = lambda: None, *, quiet: float = _QUIET
) -> AsyncGenerator[Report]:
    """Pass progress on while a call runs, if its client asked for progress. Yields the function that takes reports.

    ``starting``: says how far the server has come while it starts; ``None`` when it runs. ``quiet``: seconds without a
    report after which the gateway sends one.
    """
    last: tuple[float, float | None] = (0.0, None)

    async def report(progress: float, total: float | None, message: str | None) -> None:
        nonlocal last
        last = max(progress, last[0]), total
        await ctx.progress(progress, total, message)

    async def go_on() -> None:
        nonlocal last
        loop = asyncio.get_running_loop()
        before, told, since = last, None, loop.time()
        while True:
            await asyncio.sleep(min(quiet, _LOOK))
            start = starting()
            has_news = start is not None and start != told
            if not has_news and last == before and loop.time() - since < quiet:
                continue
            if has_news or last == before:
                # Values must increase (2025-11-25 basic/utilities/progress); the smallest step does
                # not disturb later values.
                last = math.nextafter(last[0], math.inf), last[1]
                await ctx.progress(*last, start or "Waiting; somebody may be deciding")
            before, told, since = last, start, loop.time()

    going_on = asyncio.get_running_loop().create_task(go_on())
    try:
        yield report
    finally:
        await end_tasks(going_on)


_UNANSWERED = "The server's question was not answered"


async def _list_tools(group: PrincipalGroup, request: ServerRequest) -> ListToolsResult:
    catalogue = await group.listed()
    result = ListToolsResult(tools=catalogue.tools, meta=catalogue.meta)
    return request.repeat(catalogue.encoded, lambda: catalogue.listed(result) or result)


def _serve_list(make: Callable[[ServerCatalogue], Any]) -> Callable[[PrincipalGroup, ServerRequest], Awaitable[Any]]:
    """Serve a list with all members of its definitions, including those that this library does not know."""

    async def serve(group: PrincipalGroup, request: ServerRequest) -> Any:
        catalogue = await group.listed()
        result = make(catalogue)
        received = catalogue.listed(result)
        return result if received is None else request.pass_on(received)

    return serve


async def _call_tool(group: PrincipalGroup, request: ServerRequest) -> CallToolResult | CreateTaskResult:
    owned, terms, params = await group.owned("tool", request.params.name), group.terms, request.params
    if terms.host is None or terms.answer_within is None:
        return await _make_call(group, request, owned, params)
    if PENDING_CALL in request.ctx.request.meta:
        id = str(request.ctx.request.meta[PENDING_CALL])
        found = await find_call(
            terms.host.store, id, group.upstreams[owned.server].identity, owned.name, group.terms.principal
        )
        if isinstance(found, CallToolResult):
            return found
        if found is None:
            return fail_tool(f"No call of this tool with the id {id} waits for approval, or it has expired.")
        params = found
    pending = PendingCall(terms.answer_within, terms.pending_for)
    with pending:
        return await _make_call(group, request, owned, params, pending)


async def _make_call(
    group: PrincipalGroup,
    request: ServerRequest,
    owned: ServerItem,
    params: CallToolRequestParams,
    pending: PendingCall | None = None,
    *,
    is_task: bool = False,
) -> CallToolResult | CreateTaskResult:
    outcome: CallToolResult | None = None
    try:
        upstream = group.upstreams[owned.server]
        # The result of a task comes later, by a request of which no rule about results would know.
        tasks = (
            not is_task
            and TASKS in upstream.offer.extensions
            and group.tasks.may_begin(request)
            and not (group.terms.host is not None and group.terms.host.policy.results)
        )
        # Experimental tasks do not pass: a call of 2025-11-25 that wants to be one is served within its request.
        params = structs.replace(params, name=owned.name, task=None)
        sending = _send_request(upstream, request, params, tasks=tasks)
        result = await (group.tasks.make_call(sending) if tasks else sending)
        if isinstance(result.read, CreateTaskResult):
            result = group.tasks.follow_task(upstream, owned.name, result)
            outcome = CallToolResult(content=[TextContent(text=f"It goes on as the task {result.read.task_id}.")])
        else:
            outcome = result.read
        return request.pass_on(result)
    except errors.Rejected as error:
        reason, note = read_data(error, "reason"), read_data(error, "note")
        if reason == "pending":
            id = str(read_data(error, "id"))
            if not is_task and group.tasks.may_begin(request):
                return group.tasks.begin_waiting(id, partial(_run_when_decided, group, request, owned, params, id))
            return _describe_pending(group, request, id, is_sent=read_data(error, "sent") is True)
        outcome = fail_tool(f"The call was refused: {error.message}" + (f". The reason: {note}" if note else ""))
        if pending is not None and reason == "user" and pending.left is not None:
            pending.begun = structs.replace(pending.left, sent=True, at=time.time())
        return outcome
    except UpstreamUnavailable as error:
        return fail_tool(str(error))
    except errors.ResultInvalid as error:
        outcome = fail_tool(str(error))
        return outcome
    except errors.PeerError as error:
        outcome = fail_tool(error.message)
        raise
    finally:
        if pending is not None and pending.begun is not None and group.terms.host is not None:
            await settle_call(group.terms.host.store, pending.begun, outcome)


async def _run_when_decided(
    group: PrincipalGroup, request: ServerRequest, owned: ServerItem, params: CallToolRequestParams, id: str
) -> CallToolResult:
    """Make a call that became a task, once a person has decided about it."""
    terms = group.terms
    if terms.host is None or not await wait_for_decision(terms.host.store, id):
        return fail_tool(f"Nobody has approved this call in time (id {id}); it has not run.")
    if owned.server not in group.upstreams:
        return fail_tool(f"The server {owned.server!r} is no longer configured; this call (id {id}) has not run.")
    pending = PendingCall(ANSWER_WITHIN, terms.pending_for)
    with pending:
        made = await _make_call(group, request, owned, params, pending, is_task=True)
    return made if isinstance(made, CallToolResult) else fail_tool("The call goes on as another task.")


def _describe_pending(group: PrincipalGroup, request: ServerRequest, id: str, *, is_sent: bool) -> CallToolResult:
    """Tell a model that a call waits for a person, or runs. Where an output schema is declared, only an error fits."""
    tool = group.catalogue.tool(request.params.name)
    text = (
        f"This call waits for approval by a person (id {id}); it has not run. Ask again later by the same call: same "
        "tool, same arguments. It then runs if it was approved, and never twice."
    )
    if is_sent:
        text = f"This call was approved and runs (id {id}). Ask for its outcome later by the same call; it runs once."
    has_schema = tool is not None and tool.output_schema is not None
    return CallToolResult(content=[TextContent(text=text)], is_error=has_schema, meta={PENDING_CALL: id})


async def _get_prompt(group: PrincipalGroup, request: ServerRequest) -> GetPromptResult:
    owned = await group.owned("prompt", request.params.name)
    params = structs.replace(request.params, name=owned.name)
    reading = _ask_server(group, owned.server, request, params)
    return request.pass_on(await _pass_reading(group, owned.server, params, reading))


async def _pass_reading(group: PrincipalGroup, server: str, params: Any, reading: Awaitable[Received]) -> Received:
    """Return what the host's rules about results let through of a resource, of a prompt, or of the error instead."""
    confirmer, origin = group.terms.confirmer, group.upstreams[server].make_origin()
    if confirmer is None or not confirmer.policy.results:
        return await reading
    return await pass_outcome(reading, partial(confirmer.examine, params=params, origin=origin), is_local=True)


async def examine_list(group: PrincipalGroup, params: CallToolRequestParams, result: CallToolResult) -> CallToolResult:
    """Return what rules about results let through of a list that a tool of the gateway has made of all servers."""
    if (confirmer := group.terms.confirmer) is None:
        return result
    # A rule about any of the servers covers the list.
    servers = tuple(upstream.identity for upstream in group.upstreams.values())
    origin = structs.replace(loose_origin([MEMORY, "gateway"]), coarser=servers)
    listed = result
    if not result.is_error:
        listed = structs.replace(result, content=[], structured_content=msgspec.json.decode(result.text))
    passed = await confirmer.examine(listed, params, origin)
    if passed.content:
        return passed
    return structs.replace(result, content=[TextContent(text=encode_value(passed.structured_content).decode())])


async def _list_skills(group: PrincipalGroup, _request: ServerRequest) -> ListSkillsResult:
    catalogue = await group.listed()
    return ListSkillsResult(skills=catalogue.skills, meta=catalogue.meta)


async def _get_skill(group: PrincipalGroup, request: ServerRequest) -> GetSkillResult:
    server, word, uri = await group.skill_file(request.params.uri)
    result = await _ask_server(group, server, request, structs.replace(request.params, uri=uri))
    entry = result.read.skill
    problem = find_entry_problem(entry) if entry.uri == uri else "it is that of another skill"
    if problem is not None:
        raise errors.InternalError(f"The server's entry of {request.params.uri} cannot be used: {problem}")
    group.upstreams[server].skills.hold(entry)
    return request.pass_on(result.changed(structs.replace(result.read, skill=rewrite_entry(entry, word))))


async def _read_directory(group: PrincipalGroup, request: ServerRequest) -> ReadDirectoryResult:
    server, word, uri = await group.skill_file(request.params.uri)
    result = await _ask_server(group, server, request, structs.replace(request.params, uri=uri))
    found = [structs.replace(each, uri=make_outer_uri(word, each.uri)) for each in result.read.resources]
    return request.pass_on(result.changed(structs.replace(result.read, resources=found)))


async def _read_skill_file(group: PrincipalGroup, request: ServerRequest, server: str, word: str, uri: str) -> Received:
    """Read a file of a skill once the host allows the skill, and verify it before the client sees it."""
    upstream, confirm = group.upstreams[server], group.terms.confirmer
    entry = upstream.skills.find(uri)
    if entry is None and (uri.endswith(f"/{SKILL_FILE}") or group.catalogue.reader(request.params.uri) is None):
        # Only what a server lists as a resource is one without a skill: nothing else may pass by the question.
        text = f"No skill is known to have {request.params.uri}: fetch the entry of the skill first, by skills/get"
        raise errors.ResourceNotFound(text, data={"uri": request.params.uri})
    received: list[Received] = []

    async def fetch(_uri: str) -> ReadResourceResult:
        received[:] = [await _ask_server(group, server, request, structs.replace(request.params, uri=uri))]
        return received[0].read

    try:
        if entry is None:
            await fetch(uri)
        else:
            # What a person has seen is handed over: a second read returns the same bytes.
            read = partial(RemoteSkill(entry, fetch).read, uri)
            if confirm is not None:
                await upstream.skills.allow(entry, uri, upstream.make_origin(), confirm, read)
            await read()
    except errors.SkillInvalid as error:
        raise errors.InternalError(f"{error}; if the server has changed it, skills/get has the present entry") from None
    [result] = received
    contents = [structs.replace(each, uri=make_outer_uri(word, each.uri)) for each in result.read.contents]
    read = structs.replace(result.read, contents=contents)
    # Without unknown members: some clients take "Text" for the verified "text".
    return result.changed(read) if entry is None else Received.of(read)


async def _read_resource(group: PrincipalGroup, request: ServerRequest) -> ReadResourceResult:
    await group.listed()
    if (found := group.catalogue.find_skill_file(request.params.uri)) is not None:
        server, reading = found[0], _read_skill_file(group, request, *found)
    else:
        server = await group.reader(request.params.uri)
        reading = _ask_server(group, server, request, request.params)
    return request.pass_on(await _pass_reading(group, server, request.params, reading))


async def _complete_argument(group: PrincipalGroup, request: ServerRequest) -> CompleteResult:
    params: CompleteRequestParams = request.params
    ref = params.ref
    if isinstance(ref, PromptReference):
        owned = await group.owned("prompt", ref.name)
        params = structs.replace(params, ref=structs.replace(ref, name=owned.name))
    else:
        owned = await group.template(ref.uri)
    try:
        return request.pass_on(await _ask_server(group, owned.server, request, params))
    except errors.PeerError as error:
        if error.code != errors.MethodNotFound.CODE:
            raise
        # The gateway declares completion for all servers, so one without it suggests nothing.
        return CompleteResult(completion=Completion(values=[]))


async def _subscribe_to_resource(group: PrincipalGroup, request: ServerRequest, call_next: CallNext) -> Any:
    """Subscribe to a resource at its server, and only then confirm the subscription to the client."""
    async with group.watches.hold_subscription(request.params.uri):
        return await call_next(request)


async def _listen_to_servers(group: PrincipalGroup, request: ServerRequest, call_next: CallNext) -> Any:
    """Subscribe to resources and tasks at their servers; acknowledge only those whose changes will be reported."""
    wanted: SubscriptionFilter = request.params.notifications
    granted: list[str] = []
    async with AsyncExitStack() as held:
        for uri in list(wanted.resource_subscriptions or ())[:MAX_WATCHED]:
            with suppress(errors.PeerError):
                await held.enter_async_context(group.watches.hold_subscription(uri))
                granted.append(uri)
        changed = structs.replace(wanted, resource_subscriptions=granted or None)
        tasks = await _read_tasks(group, request, wanted)
        result = await call_next(request.replace(notifications=changed))
        group.tasks.watch(group.upstreams, tasks)
        return result


async def _read_tasks(
    group: PrincipalGroup, request: ServerRequest, wanted: SubscriptionFilter
) -> Mapping[str, Received]:
    """Return the present state of the tasks that the client may listen to; the others are not acknowledged."""
    if not wanted.task_ids:
        return {}
    check_declared(request.ctx.request.capabilities)
    tasks = await group.tasks.look_up_tasks(group.upstreams, wanted.task_ids)
    request.grant_tasks(tasks)
    return tasks


# --- tasks -----------------------------------------------------------------------------------------------------------


async def _get_task(group: PrincipalGroup, request: ServerRequest) -> GetTaskResult:
    owned = _find_own_task(group, request)
    if not owned.server:
        return group.tasks.look_waiting(owned.id, request.params.task_id)
    return request.pass_on(group.tasks.convert_state(await _of_task(group, request, owned), request.params.task_id))


async def _update_task(group: PrincipalGroup, request: ServerRequest) -> EmptyResult:
    owned = _find_own_task(group, request)
    if group.tasks.are_answered_here:
        # Where the host answers, the client has no open asks, and answers to unknown asks are ignored.
        return EmptyResult()
    return request.pass_on(await _of_task(group, request, owned))


async def _cancel_task(group: PrincipalGroup, request: ServerRequest) -> EmptyResult:
    owned = _find_own_task(group, request)
    if not owned.server and group.terms.host is not None:
        group.tasks.cancel_waiting(owned.id)
        await group.terms.host.store.close_review(owned.id, "withdrawn", keep_item=False)
        return EmptyResult()
    return request.pass_on(await _of_task(group, request, owned))


def _find_own_task(group: PrincipalGroup, request: ServerRequest) -> OwnedTask:
    if not request.is_modern:
        raise errors.MethodNotFound(f"Method not found: {request.method}")
    check_declared(request.ctx.request.capabilities)
    return group.tasks.owned(request.params.task_id)


async def _of_task(group: PrincipalGroup, request: ServerRequest, owned: OwnedTask) -> Received:
    """Send a request about a task to its server, with the server's own id of the task."""
    given: str = request.params.task_id
    if (upstream := group.upstreams.get(owned.server)) is None:
        raise errors.InvalidParams(f"Unknown task: {owned.server!r} is no longer configured")
    try:
        return await _send_request(upstream, request, structs.replace(request.params, task_id=owned.id), tasks=True)
    except UpstreamUnavailable as error:
        raise errors.InternalError(str(error)) from None
    except errors.PeerError as error:
        # The client knows the task by the gateway's id, not by the server's. A message names it once or twice; one
        # that consists of short ids would become a hundred times as long.
        message = error.message.replace(owned.id, given, 2)
        raise errors.PeerError(message, code=error.code, data=error.data) from None


SERVED: Mapping[str, Callable[[PrincipalGroup, ServerRequest], Awaitable[Any]]] = {
    "tools/list": _list_tools,
    "tools/call": _call_tool,
    "prompts/list": _serve_list(lambda found: ListPromptsResult(prompts=found.prompts, meta=found.meta)),
    "prompts/get": _get_prompt,
    "resources/list": _serve_list(lambda found: ListResourcesResult(resources=found.resources, meta=found.meta)),
    "resources/templates/list": _serve_list(
        lambda found: ListResourceTemplatesResult(resource_templates=found.templates, meta=found.meta)
    ),
    "resources/read": _read_resource,
    "completion/complete": _complete_argument,
    "skills/list": _list_skills,
    "skills/get": _get_skill,
    "resources/directory/read": _read_directory,
    "tasks/get": _get_task,
    "tasks/update": _update_task,
    "tasks/cancel": _cancel_task,
}
"""The functions that serve each method: ``async (group, request) -> result``."""

SUBSCRIBED: Mapping[str, Callable[[PrincipalGroup, ServerRequest, CallNext], Awaitable[Any]]] = {
    "resources/subscribe": _subscribe_to_resource,
    "subscriptions/listen": _listen_to_servers,
}
"""Methods that the gateway's own server completes: ``async (group, request, call_next) -> result``."""


async def pass_on(group: PrincipalGroup, request: ServerRequest) -> Any:
    """Pass on a request of an extension, which only a server behind the gateway knows."""
    received = request.received
    catalogue = await group.listed()
    server, params = choose_server(request.method, received.raw, group.spoken, catalogue)
    await note_request(group.terms, group.upstreams[server], request.method)
    sent = Received(params, received.read)
    return request.pass_on(await _ask_server(group, server, request, request.params, sent))


async def _ask_server(
    group: PrincipalGroup, server: str, request: ServerRequest, params: Any, received: Received | None = None
) -> Received:
    try:
        return await _send_request(group.upstreams[server], request, params, received)
    except UpstreamUnavailable as error:
        raise errors.InternalError(str(error)) from None


async def _send_request(
    upstream: Upstream, request: ServerRequest, params: Any, received: Received | None = None, *, tasks: bool = False
) -> Received:
    """Send a request to its server and return the result, both with all members, known or not."""
    about = request.ctx.request
    meta, declared, wanted = about.meta, about.capabilities.extensions, request.log_level
    passed = drop_own_members(meta) if meta else None
    send = partial(
        Client.forward, method=request.method, params=params, original=received or request.received,
        meta=passed or None, log_level=wanted or (None if request.is_modern else _UNSAID),
        extensions=choose_extensions(declared, tasks=tasks) if declared or tasks else None,
    )  # fmt: skip

    async def use(progress: OnProgress | None) -> Received:
        async with upstream.use_for(request) as client:
            if wanted is not None:
                await upstream.want_logs(client, wanted)
            return await send(client, progress=progress)

    causes = upstream.answerers.open.take_causes
    try:
        if PROGRESS_TOKEN not in meta:
            return _explain_result(await use(None), causes(request))
        async with report_progress(request.ctx, upstream.describe_start) as report:
            return _explain_result(await use(report), causes(request))
    except errors.PeerError as error:
        if isinstance(error, errors.Rejected) and not error.remote:
            raise
        # Copied, because an error marked as remote is never sent to a peer.
        why = causes(request)
        message = f"{error.message} ({_UNANSWERED}: {why})" if why else error.message
        raise errors.PeerError(message, code=error.code, data=error.data) from None
    finally:
        causes(request)


def _explain_result(result: Received, why: str) -> Received:
    """Add to the result of a tool why what its server asked was not answered: some hosts show their users no more."""
    read = result.read
    if not why or not isinstance(read, CallToolResult):
        return result
    return result.changed(structs.replace(read, content=[*read.content, TextContent(text=f"{_UNANSWERED}: {why}")]))
