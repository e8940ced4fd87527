"""The handlers of a server: one function for each method it serves.

A modern call whose handler may ask runs in ``ServerRounds``; every other request runs in the task that received it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from types import CoroutineType
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Raw, structs

from antiphon import errors
from antiphon.engine.connection import LATER, OTHERS, Connection, Handler, Later
from antiphon.protocol.events import Request
from antiphon.protocol.server_session import ServerSession
from antiphon.server.calls.call import UNAVAILABLE, Handled, HandlerCall, within
from antiphon.server.calls.server_rounds import ServerRounds
from antiphon.server.context import Context
from antiphon.server.core import Core
from antiphon.server.features.checked_options import ServedFeature, demand_scopes
from antiphon.server.features.prompts import ServedPrompt
from antiphon.server.features.registry import Via
from antiphon.server.features.resources import ServedResource, ServedTemplate
from antiphon.server.features.tools import Requirement, ServedTool
from antiphon.server.functions.arguments import ArgumentError
from antiphon.server.mounts import Mount, Mounts
from antiphon.server.served_subscriptions import MAX_SUBSCRIPTIONS, Subscriptions
from antiphon.server.server_middleware import ServerMiddlewareStack, ServerRequest
from antiphon.wire.common import EmptyResult, Wire
from antiphon.wire.completion import CompleteRequestParams, PromptReference
from antiphon.wire.envelope import cause_of, decode_wire, drop_frames
from antiphon.wire.logging import SetLevelRequestParams
from antiphon.wire.methods import METHODS
from antiphon.wire.prompts import GetPromptRequestParams
from antiphon.wire.resources import ReadResourceRequestParams, ReadResourceResult, SubscribeRequestParams
from antiphon.wire.skills import GetSkillRequestParams, GetSkillResult, ReadDirectoryRequestParams, ReadDirectoryResult
from antiphon.wire.subscriptions import SubscriptionsListenRequestParams
from antiphon.wire.tools import CallToolRequestParams, CallToolResult, Tool, fail_tool

if TYPE_CHECKING:
    from antiphon.server.tasks.task_requests import TaskRequests

Peer = Connection[ServerSession]


@dataclass(eq=False)
class Handlers:
    """The functions of one server."""

    _core: Core
    _lists: Mapping[str, Handler]
    _subscriptions: Subscriptions
    _rounds: ServerRounds
    _middleware: ServerMiddlewareStack
    _mounts: Mounts
    task_requests: Callable[[], TaskRequests] = field(init=False)
    """Returns what serves requests about tasks. Set by the owner, since tasks find their handlers here."""

    def __post_init__(self) -> None:
        self._finders: Mapping[str, Callable[[Any, Request, Peer], Handled]] = {
            "tools/call": self._tool_call,
            "resources/read": self._reading,
            "prompts/get": self._prompting,
        }
        """The functions that find the handler of a call, by method."""

    def table(self) -> Mapping[str, Handler]:
        """Return the handlers of all methods; the capabilities and the revision decide which are served."""
        table = self._list_plain()
        if not self._middleware:
            return table
        table[OTHERS] = _refuse_unknown
        around = {method: partial(self._around, handler) for method, handler in table.items()}

        def serve_call(request: Request, peer: Peer) -> CallToolResult | CoroutineType[Any, Any, Wire] | Later:
            return self._serve(request, peer, self.target(request.params, request, peer))

        return around | dict.fromkeys(self._finders, serve_call)

    def _list_plain(self) -> dict[str, Handler]:
        """Return the handlers of all methods, without middleware."""
        return {
            **self._lists,
            "tools/call": self.call_tool,
            "resources/read": self._serve_found,
            "resources/subscribe": self.subscribe,
            "resources/unsubscribe": self.unsubscribe,
            "subscriptions/listen": self.listen,
            "prompts/get": self._serve_found,
            "completion/complete": self.complete,
            "skills/get": self.get_skill,
            "resources/directory/read": self.read_directory,
            "logging/setLevel": self.set_level,
            **dict.fromkeys(("tasks/get", "tasks/update", "tasks/cancel", "tasks/result"), self._about_task),
        }

    def _about_task(self, request: Request, peer: Peer) -> Any:
        return self.task_requests().serve(request, peer)

    # --- through middleware -------------------------------------------------------------------------------------

    async def _around(self, handler: Handler, request: Request, peer: Peer) -> Any:
        """Serve a request that does not ask."""

        async def last(passed: ServerRequest) -> Any:
            request.params = passed.params
            return await _await_outcome(handler(request, peer), request)

        call = HandlerCall(self._core, peer, request)
        result = await self._middleware.run(self._passing(request.params, request, call), last)
        return LATER if result is None else result

    def _passing(self, params: Any, request: Request, call: HandlerCall) -> ServerRequest:
        return ServerRequest(request.method.name, params, call, self._core)

    # --- for the server on which this one is mounted ------------------------------------------------------------

    @property
    def answering(self) -> bool:
        """Whether middleware may answer requests here, so that the registries may lack features."""
        return bool(self._middleware) or len(self._mounts.answering) > 0

    def target(self, params: Any, request: Request, peer: Peer) -> Handled:
        """Return the middleware around a call's handler, which is found after it, because it may change the name."""
        find = self._finders[request.method.name]
        if not self._middleware:
            return find(params, request, peer)

        def body(call: HandlerCall) -> CoroutineType[Any, Any, Wire]:
            def last(passed: ServerRequest) -> Awaitable[Wire]:
                if passed.method != request.method.name:
                    return self._serve_other(passed, request, peer, call)
                return find(passed.params, request, peer).body(call)

            return self._middleware.run(self._passing(params, request, call), last)

        called = self._middleware.find_called(params) if isinstance(params, CallToolRequestParams) else params
        if (
            isinstance(called, CallToolRequestParams)
            and self._core.features.tools.get(called.name) is None
            and self._mounts.by_name(called.name) is None
        ):
            # The middleware may serve it or change its name; otherwise it is refused behind the middleware.
            return Handled(params.name, body, self._middleware.code)
        try:
            sent = find(called, request, peer)
        except errors.InsufficientScope:
            raise
        except errors.PeerError:
            # There is no such target, unless the middleware changes the name.
            return Handled(_get_subject(params), body, self._middleware.code)
        return sent.around(_get_subject(params), body, lambda: self._middleware.code() + sent.code(), asks=True)

    async def _serve_other(self, passed: ServerRequest, request: Request, peer: Peer, call: HandlerCall) -> Any:
        """Serve a request of another method that middleware makes during a call."""
        other = structs.replace(request, method=METHODS[passed.method], params=passed.params)
        if (find := self._finders.get(passed.method)) is not None:
            return await find(passed.params, other, peer).body(call)
        return await _await_outcome(self._list_plain()[passed.method](other, peer), other)

    def definition_of(self, name: str, principal: str | None) -> Tool | None:
        """Return the definition of a tool that is served here, also by middleware; ``None`` if it is not known."""
        core = self._core
        found = core.features.tools.get(name)
        if found is not None:
            return None if found.is_hidden_from(principal) else found.definition
        listed = core.find_tool(name, principal) if core.find_tool is not None else None
        via = self._mounts.by_name(name) if listed is None else None
        return listed if via is None else via.mount.behind.definition_of(via.name, principal)

    async def answer(self, params: Any, request: Request, peer: Peer) -> Any:
        """Serve a request that is no call, through the middleware; return its result."""
        if request.sent is None:
            request.sent = request.params
        request.params = params
        return await _await_outcome(self.table()[request.method.name](request, peer), request)

    async def around(
        self, params: Any, request: Request, peer: Peer, last: Callable[[Collection[str]], Awaitable[Any]]
    ) -> Any:
        """Run the middleware around a subscription that the outer server keeps; it may refuse it, or remove URIs."""

        async def inward(passed: ServerRequest) -> Any:
            kept = _list_uris(passed.params)

            async def onward(dropped: Collection[str]) -> Any:
                return await last([uri for uri in _list_uris(params) if uri not in kept or uri in dropped])

            return await self._mounts.around(kept, partial(_narrow_subscription, passed.params), request, peer, onward)

        return await self._middleware.run(
            self._passing(params, request, HandlerCall(self._core, peer, request)), inward
        )

    # --- tools --------------------------------------------------------------------------------------------------

    def call_tool(self, request: Request, peer: Peer) -> CallToolResult | CoroutineType[Any, Any, Wire] | Later:
        """Serve ``tools/call``."""
        params: CallToolRequestParams = request.params
        tool = self._core.features.tools.get(params.name)
        if tool is None or not tool.is_direct:
            return self._serve(request, peer, self._tool_call(params, request, peer))
        if tool.scopes:
            demand_scopes(tool.scopes, request, peer)
        if tool.requires is not None and not self._core.can_serve(tool.requires, request):
            return _report_missing_means(tool, tool.requires, request)
        wait = self._core.tool_wait(peer)
        record = request.record
        is_again = record is not None and record.again
        if is_again or tool.task != "never" or params.task is not None:
            return self._serve(request, peer, self._tool_call(params, request, peer, wait))
        if not tool.wants_context:
            return self._run(tool, params.arguments, request, wait, None)
        if not request.revision.modern and record is None:
            return self._run(tool, params.arguments, request, wait, HandlerCall(self._core, peer, request))
        handled = Handled(
            tool.name,
            partial(self._run, tool, params.arguments, request, wait),
            partial(self._code, tool),
            once=tool.once,
            # Only recorded calls need it, and most calls are not recorded.
            repeats=record is not None and tool.repeats,
        )
        rounds = self._rounds
        recorded = None if record is None else rounds.recorded(peer, request, handled, record)
        return rounds.serve(peer, request, handled) if recorded is None else recorded.begun()

    def _tool_call(
        self, params: CallToolRequestParams, request: Request, peer: Peer, wait: float | None = None
    ) -> Handled:
        """Return the handler of a tool. ``wait``: seconds to wait for the tool rate, if they are known already."""
        tool = _unless_hidden(self._core.features.tools.get(params.name), peer)
        via = self._mounts.by_name(params.name) if tool is None else tool.via
        if via is not None:
            return self._call_mounted_tool(via, params, request, peer)
        if tool is None:
            raise errors.InvalidParams(f"Unknown tool: {params.name}")
        demand_scopes(tool.scopes, request, peer)

        async def body(call: HandlerCall) -> CallToolResult:
            needed = tool.requires
            # A mounted server may use the model of the server that it is mounted on.
            if needed is not None and not (self._core.can_serve(needed, request) or call.core.stands_for(needed)):
                return _report_missing_means(tool, needed, request)
            until = self._core.tool_wait(peer) if wait is None else wait
            return await self._run(tool, params.arguments, request, until, call)

        code, repeats = partial(self._code, tool), tool.repeats
        return Handled(tool.name, body, code, once=tool.once, asks=tool.wants_context, repeats=repeats, task=tool.task)

    def _call_mounted_tool(self, via: Via, params: CallToolRequestParams, request: Request, peer: Peer) -> Handled:
        mount: Mount = via.mount
        inner = mount.behind.target(structs.replace(params, name=via.name), request, peer)

        def body(call: HandlerCall) -> CoroutineType[Any, Any, Any]:
            wait = self._core.tool_wait(peer)
            running = inner.body(call)
            return _await_after(wait, running) if wait else running

        return inner.around(params.name, body, inner.code, asks=inner.asks)

    def _code(self, found: ServedTool | ServedPrompt | ServedResource | ServedTemplate) -> bytes:
        return self._core.code_of(lambda: found.code)

    async def _run(
        self, tool: ServedTool, arguments: Raw, request: Request, wait: float, call: HandlerCall | None
    ) -> CallToolResult:
        if wait:
            await asyncio.sleep(wait)
        try:
            running = tool.call(arguments, Context(call, self._core) if call is not None else None)
            return await (running if tool.timeout is None else within(tool.timeout, tool.name, running))
        except Exception as error:
            if call is not None:
                call.failure = type(cause_of(error))
            # Keep no reference to the error beyond this block: it refers to this frame, and both would form a cycle
            # that only the garbage collector frees.
            if tool.scopes and (short := _collect_missing_scopes(cause_of(error))):
                # "servers SHOULD include all scopes required for the current operation in a single challenge"
                raise errors.InsufficientScope(scopes=short.union(tool.scopes)) from None
            if _is_for_the_peer(cause_of(error), request):
                raise
            text = self._core.failure_text(tool.name, cause_of(error))
            drop_frames(error)
            return fail_tool(text)

    def _serve(
        self, request: Request, peer: Peer, handled: Handled
    ) -> CallToolResult | CoroutineType[Any, Any, Any] | Later:
        params = request.params
        is_wished = isinstance(params, CallToolRequestParams) and params.task is not None
        if (handled.task != "never" or is_wished) and (
            begun := self.task_requests().as_task(
                request, peer, handled, partial(self._rounds.serve, peer, request, handled)
            )
        ) is not None:
            return begun
        if request.revision.modern and handled.asks:
            return self._rounds.serve(peer, request, handled)
        if request.record is not None:
            return self._rounds.recorded(peer, request, handled, request.record).serve()
        return handled.body(HandlerCall(self._core, peer, request))

    # --- resources, prompts, completion -------------------------------------------------------------------------

    def _serve_found(self, request: Request, peer: Peer) -> Wire | CoroutineType[Any, Any, Wire] | Later:
        """Serve ``resources/read`` and ``prompts/get``."""
        return self._serve(request, peer, self._finders[request.method.name](request.params, request, peer))

    def _reading(self, params: ReadResourceRequestParams, request: Request, peer: Peer) -> Handled:
        found = _unless_hidden(self._core.resource(params.uri), peer)
        if found is None:
            return self._mounts.read(params, request, peer)
        if found.via is not None:
            return found.via.mount.behind.target(params, request, peer)
        demand_scopes(found.scopes, request, peer)
        code = partial(self._code, found)
        return Handled(params.uri, partial(self._read_resource, found, params.uri), code, repeats=True)

    async def _read_resource(
        self, found: ServedResource | ServedTemplate, uri: str, call: HandlerCall
    ) -> ReadResourceResult:
        result = await found.read(uri, Context(call, self._core))
        is_private = call.connection.principal is not None or found.visible is not None
        hints = self._core.give_cache_hints(found.cache, is_private=is_private)
        # 2026-07-28 server/utilities/caching: what depends on answers of the client "MUST NOT be cached".
        return structs.replace(result, **hints) if hints and result.ttl_ms is None and not call.has_asked else result

    def _prompting(self, params: GetPromptRequestParams, request: Request, peer: Peer) -> Handled:
        prompt = _unless_hidden(self._core.features.prompts.get(params.name), peer)
        via = self._mounts.by_name(params.name) if prompt is None else prompt.via
        if via is not None:
            inner = via.mount.behind.target(structs.replace(params, name=via.name), request, peer)
            return inner.around(params.name, inner.body, inner.code, asks=True)
        if prompt is None:
            raise errors.InvalidParams(f"Unknown prompt: {params.name}")
        demand_scopes(prompt.scopes, request, peer)
        code = partial(self._code, prompt)
        return Handled(
            params.name, lambda call: prompt.get(params.arguments, Context(call, self._core)), code, repeats=True
        )

    async def complete(self, request: Request, peer: Peer) -> Wire:
        """Serve ``completion/complete``."""
        params: CompleteRequestParams = request.params
        ref, completions = params.ref, self._core.completions
        owner, prompt = completions.find(ref), ref.name if isinstance(ref, PromptReference) else None
        if owner is not None and owner.is_hidden_from(peer.principal):
            raise completions.refuse_unknown(ref)
        # What no registry holds, the middleware of a mounted server may know.
        via = owner.via if owner is not None else None if prompt is None else self._mounts.by_name(prompt)
        if via is not None:
            inner = params if prompt is None else structs.replace(params, ref=structs.replace(ref, name=via.name))
            return await via.mount.behind.answer(inner, request, peer)
        if owner is None:
            mounts = self._mounts.answering if prompt is None else ()
            return await _ask_mounted(mounts, params, request, peer, completions.refuse_unknown(ref))
        demand_scopes(owner.scopes, request, peer)
        return await completions.complete(params, Context(HandlerCall(self._core, peer, request), self._core))

    # --- skills -------------------------------------------------------------------------------------------------

    async def get_skill(self, request: Request, peer: Peer) -> Wire:
        """Serve ``skills/get``."""
        params: GetSkillRequestParams = request.params
        skill = self._core.features.served_skills.get(params.uri)
        if skill is None:
            refusal = errors.InvalidParams(f"No skill is served at {params.uri}", data={"uri": params.uri})
            return await _ask_mounted(self._mounts.answering, params, request, peer, refusal)
        if skill.via is not None:
            return await skill.via.mount.behind.answer(params, request, peer)
        demand_scopes(skill.scopes, request, peer)
        return GetSkillResult(skill=skill.definition)

    async def read_directory(self, request: Request, peer: Peer) -> Wire:
        """Serve ``resources/directory/read``."""
        from antiphon.server.features.skill_folder import list_directory

        params: ReadDirectoryRequestParams = request.params
        found, skills = list_directory(params.uri, self._core.features.served_skills)
        if not found:
            refusal = errors.InvalidParams(f"{params.uri} is not a directory", data={"uri": params.uri})
            return await _ask_mounted(self._mounts.answering, params, request, peer, refusal)
        mounts = [skill.via.mount for skill in skills if skill.via is not None]
        if len(mounts) == len(skills) and all(mount is mounts[0] for mount in mounts):
            return await mounts[0].behind.answer(params, request, peer)
        demand_scopes({scope for skill in skills for scope in skill.scopes}, request, peer)
        return ReadDirectoryResult(resources=[*found.values()])

    # --- subscriptions ------------------------------------------------------------------------------------------

    def subscribe(self, request: Request, peer: Peer) -> EmptyResult | CoroutineType[Any, Any, Any]:
        """Serve ``resources/subscribe``; a caller that may not read a resource gets no updates of it."""
        params: SubscribeRequestParams = request.params
        demand_scopes(self._scopes_of_resource(params.uri, peer), request, peer)
        return self._keep_subscription(request, peer, self._subscriptions.subscribe)

    def unsubscribe(self, request: Request, peer: Peer) -> EmptyResult | CoroutineType[Any, Any, Any]:
        """Serve ``resources/unsubscribe``."""
        return self._keep_subscription(request, peer, self._subscriptions.unsubscribe)

    def listen(self, request: Request, peer: Peer) -> Later | CoroutineType[Any, Any, Any]:
        """Serve ``subscriptions/listen``, likewise."""
        params: SubscriptionsListenRequestParams = request.params
        # More URIs than allowed are refused below, so the rest need not be looked up here.
        uris = list(params.notifications.resource_subscriptions or ())[:MAX_SUBSCRIPTIONS]
        required = {scope for uri in uris for scope in self._scopes_of_resource(uri, peer)}
        demand_scopes(required, request, peer)
        if params.notifications.task_ids:
            from antiphon.server.tasks.task_requests import check_declared

            check_declared(request.capabilities)
            return self._keep_subscription(request, peer, self.task_requests().listen)
        return self._keep_subscription(request, peer, self._subscriptions.listen)

    def _scopes_of_resource(self, uri: str, peer: Peer) -> Sequence[str]:
        """Return the scopes that a token needs for a URI; none for a URI without a resource, or with a hidden one."""
        found = _unless_hidden(self._core.resource(uri), peer)
        return () if found is None else found.scopes

    def _keep_subscription(self, request: Request, peer: Peer, keep: Callable[[Request, Peer], Any]) -> Any:
        """Keep a subscription, after the middleware of the mounted servers whose resources it names."""
        if not self._mounts.answering:
            return keep(request, peer)
        params = request.params

        async def last(dropped: Collection[str]) -> Any:
            request.params = (
                _narrow_subscription(params, [u for u in _list_uris(params) if u not in dropped]) if dropped else params
            )
            return await _await_outcome(keep(request, peer), request)

        async def inward() -> Any:
            uris = _list_uris(params)[:MAX_SUBSCRIPTIONS]
            result = await self._mounts.around(uris, partial(_narrow_subscription, params), request, peer, last)
            return LATER if result is None else result

        return inward()

    def set_level(self, request: Request, peer: Peer) -> EmptyResult:
        """Serve ``logging/setLevel``."""
        params: SetLevelRequestParams = request.params
        if peer.session.is_kept:
            peer.session.log_level = params.level
        return EmptyResult()


ServedT = TypeVar("ServedT", bound=ServedFeature)


def _unless_hidden(found: ServedT | None, peer: Peer) -> ServedT | None:
    return None if found is None or found.is_hidden_from(peer.principal) else found


def _refuse_unknown(request: Request, _peer: Peer) -> Wire:
    """Refuse a method of an extension that no middleware has served."""
    raise errors.MethodNotFound(f"Method not found: {request.method.name}")


async def _await_outcome(outcome: Wire | Raw | Later | CoroutineType[Any, Any, Any], request: Request) -> Any:
    """Return the result that a handler gave, decoded, or ``None`` for one that comes later."""
    result = await outcome if isinstance(outcome, CoroutineType) else outcome
    if isinstance(result, Raw) and request.method.result is not None:
        return decode_wire(result, request.method.result)
    return None if isinstance(result, Later) else result


async def _await_after(seconds: float, running: Awaitable[Any]) -> Any:
    await asyncio.sleep(seconds)
    return await running


async def _ask_mounted(mounts: Sequence[Mount], params: Any, request: Request, peer: Peer, refusal: Exception) -> Wire:
    """Have one of these servers serve a request for what no registry holds; refuse it if none knows it."""
    for mount in mounts:
        with suppress(errors.InvalidParams):
            return await mount.behind.answer(params, request, peer)
    raise refusal


def _list_uris(params: Any) -> Sequence[str]:
    """Return the resources that a subscription names."""
    if isinstance(params, SubscriptionsListenRequestParams):
        return list(params.notifications.resource_subscriptions or ())
    return [params.uri]


def _narrow_subscription(params: Any, uris: Sequence[str]) -> Any:
    """Return the params of a subscription with only these resources."""
    if isinstance(params, SubscriptionsListenRequestParams):
        wanted = structs.replace(params.notifications, resource_subscriptions=uris or None)
        return structs.replace(params, notifications=wanted)
    return params


def _get_subject(params: CallToolRequestParams | ReadResourceRequestParams | GetPromptRequestParams) -> str:
    return params.uri if isinstance(params, ReadResourceRequestParams) else params.name


def _report_missing_means(tool: ServedTool, needed: Requirement, request: Request) -> CallToolResult:
    # 2026-07-28 basic/errors: -32021 with what is missing; no earlier revision has such a code.
    text = f"{tool.name} needs a client that offers {needed}"
    if not request.revision.modern:
        return fail_tool(text)
    feature, _, part = needed.partition(".")
    parts: dict[str, object] = {part: {}} if part else {}
    raise UNAVAILABLE.get(feature, errors.MissingCapability)(text, data={"requiredCapabilities": {feature: parts}})


def _is_for_the_peer(error: Exception, request: Request) -> bool:
    """Return whether an exception of a tool is a protocol error; all others are results, which a model can act on."""
    if not isinstance(error, errors.PeerError) or error.remote:
        return False
    if isinstance(error, ArgumentError):
        # 2025-11-25 server/tools: input validation errors are tool execution errors, for the model to correct.
        return not request.revision.argument_errors_are_results
    return request.revision.modern or not isinstance(error, errors.MissingCapability)


def _collect_missing_scopes(error: Exception) -> frozenset[str]:
    """Return the scopes that a handler itself has found missing; none for any other error."""
    return error.scopes if isinstance(error, errors.InsufficientScope) and not error.remote else frozenset()
