"""The handlers of a server: one function for each method it serves.

A call whose handler may ask runs in the way of its era: a modern one in ``Rounds``, all others where they arrived.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from types import CoroutineType
from typing import Any

from msgspec import Raw

from antiphon.engine.connection import LATER, Connection, Handler, Later
from antiphon.errors import (
    ElicitationUnavailable,
    InsufficientScope,
    InvalidParams,
    MissingCapability,
    PeerError,
    SamplingUnavailable,
)
from antiphon.protocol.events import Request
from antiphon.protocol.server_session import ServerSession
from antiphon.server.calls.call import Call, Handled
from antiphon.server.calls.rounds import Rounds
from antiphon.server.calls.tool_timeouts import within
from antiphon.server.context import Context
from antiphon.server.core import Core
from antiphon.server.features.scopes import demand
from antiphon.server.features.tools import Requirement, ServedTool
from antiphon.server.functions.arguments import ArgumentError
from antiphon.server.listing import Pages
from antiphon.server.middleware import ServerRequest, Stack
from antiphon.server.subscriptions import MAX_SUBSCRIPTIONS, Subscriptions
from antiphon.wire.common import EmptyResult, Wire
from antiphon.wire.completion import CompleteRequestParams
from antiphon.wire.content import TextContent
from antiphon.wire.envelope import decode
from antiphon.wire.failure import cause_of, drop_frames
from antiphon.wire.logging import SetLevelRequestParams
from antiphon.wire.prompts import GetPromptRequestParams
from antiphon.wire.resources import ReadResourceRequestParams, SubscribeRequestParams
from antiphon.wire.subscriptions import SubscriptionsListenRequestParams
from antiphon.wire.tools import CallToolRequestParams, CallToolResult

__all__ = ["Handlers"]

Peer = Connection[ServerSession]

_UNAVAILABLE: dict[str, type[MissingCapability]] = {
    "sampling": SamplingUnavailable,
    "elicitation": ElicitationUnavailable,
}


class Handlers:
    """The functions of one server."""

    def __init__(
        self, core: Core, pages: Pages, subscriptions: Subscriptions, rounds: Rounds, middleware: Stack
    ) -> None:
        self._core = core
        self._pages = pages
        self._subscriptions = subscriptions
        self._rounds = rounds
        self._middleware = middleware

    def table(self) -> Mapping[str, Handler]:
        """Return the handlers of all methods; the capabilities and the revision decide which are served."""
        pages, subscriptions = self._pages, self._subscriptions
        table: dict[str, Handler] = {
            "tools/list": pages.tools,
            "tools/call": self.call_tool,
            "resources/list": pages.resources,
            "resources/templates/list": pages.templates,
            "resources/read": self.read_resource,
            "resources/subscribe": self.subscribe,
            "resources/unsubscribe": subscriptions.unsubscribe,
            "subscriptions/listen": self.listen,
            "prompts/list": pages.prompts,
            "prompts/get": self.get_prompt,
            "completion/complete": self.complete,
            "logging/setLevel": self.set_level,
        }
        if not self._middleware:
            return table
        called = {"tools/call": self._tool_call, "resources/read": self._reading, "prompts/get": self._prompting}
        around = {method: partial(self._around, handler) for method, handler in table.items()}
        return around | {method: partial(self._around_call, find) for method, find in called.items()}

    # --- through middleware -------------------------------------------------------------------------------------

    async def _around(self, handler: Handler, request: Request, peer: Peer) -> Any:
        """Serve a request that does not ask."""

        async def last(passed: ServerRequest) -> Any:
            request.params = passed.params
            outcome = handler(request, peer)
            result = await outcome if isinstance(outcome, CoroutineType) else outcome
            if isinstance(result, Raw) and request.method.result is not None:
                return decode(result, request.method.result)
            return None if isinstance(result, Later) else result

        call = Call(self._core, peer, request)
        result = await self._middleware.run(ServerRequest(request.method.name, request.params, call), last)
        return LATER if result is None else result

    def _around_call(
        self, find: Callable[[Any, Request, Peer], Handled], request: Request, peer: Peer
    ) -> CoroutineType[Any, Any, Wire] | Later:
        """Serve a call that may ask. Its target is looked up after the middleware, which may change the name."""

        def body(call: Call) -> CoroutineType[Any, Any, Wire]:
            def last(passed: ServerRequest) -> Awaitable[Wire]:
                return find(passed.params, request, peer).body(call)

            return self._middleware.run(ServerRequest(request.method.name, request.params, call), last)

        try:
            sent = find(request.params, request, peer)
        except InsufficientScope:
            raise
        except PeerError:
            # There is no such target, unless the middleware changes the name.
            sent = Handled("", body, bytes)
        name, code = _subject(request.params), sent.code
        return self._serve(request, peer, Handled(name, body, lambda: self._middleware.code() + code(), once=sent.once))

    # --- tools --------------------------------------------------------------------------------------------------

    def call_tool(
        self, request: Request, peer: Peer
    ) -> CallToolResult | CoroutineType[Any, Any, CallToolResult] | Later:
        """Serve ``tools/call``."""
        params: CallToolRequestParams = request.params
        tool = self._core.features.tools.get(params.name)
        if tool is None:
            raise InvalidParams(f"Unknown tool: {params.name}")
        if tool.scopes:
            demand(tool.scopes, request, peer)
        if tool.requires is not None and not self._core.can_serve(tool.requires, request):
            return _useless(tool, tool.requires, request)
        wait = self._core.tool_wait(peer)
        if not tool.wants_context:
            return self._run(tool, params.arguments, None, request, wait)
        if not request.revision.modern:
            return self._run(tool, params.arguments, Call(self._core, peer, request), request, wait)
        return self._rounds.serve(
            peer,
            request,
            Handled(
                tool.name,
                lambda call: self._run(tool, params.arguments, call, request, wait),
                lambda: tool.code,
                once=tool.once,
            ),
        )

    def _tool_call(self, params: CallToolRequestParams, request: Request, peer: Peer) -> Handled:
        tool = self._core.features.tools.get(params.name)
        if tool is None:
            raise InvalidParams(f"Unknown tool: {params.name}")
        demand(tool.scopes, request, peer)

        async def body(call: Call) -> CallToolResult:
            if tool.requires is not None and not self._core.can_serve(tool.requires, request):
                return _useless(tool, tool.requires, request)
            return await self._run(tool, params.arguments, call, request, self._core.tool_wait(peer))

        return Handled(tool.name, body, lambda: tool.code, once=tool.once)

    async def _run(
        self, tool: ServedTool, arguments: Raw, call: Call | None, request: Request, wait: float
    ) -> CallToolResult:
        if wait:
            await asyncio.sleep(wait)
        try:
            running = tool.call(arguments, Context(call) if call is not None else None)
            return await (running if tool.timeout is None else within(tool.timeout, tool.name, running))
        except Exception as error:
            # The only name for the error ends with this block: the error leads to this frame, and
            # otherwise both would form a cycle that only the garbage collector frees.
            if tool.scopes and (short := _required_beyond(cause_of(error))):
                # "servers SHOULD include all scopes required for the current operation in a single challenge"
                raise InsufficientScope(scopes=short.union(tool.scopes)) from None
            if _is_for_the_peer(cause_of(error), request):
                raise
            text = self._core.failure_text(tool.name, cause_of(error))
            drop_frames(error)
            return _failed(text)

    def _serve(self, request: Request, peer: Peer, handled: Handled) -> CoroutineType[Any, Any, Any] | Later:
        if request.revision.modern:
            return self._rounds.serve(peer, request, handled)
        return handled.body(Call(self._core, peer, request))

    # --- resources, prompts, completion -------------------------------------------------------------------------

    def read_resource(self, request: Request, peer: Peer) -> CoroutineType[Any, Any, Wire] | Later:
        """Serve ``resources/read``."""
        return self._serve(request, peer, self._reading(request.params, request, peer))

    def _reading(self, params: ReadResourceRequestParams, request: Request, peer: Peer) -> Handled:
        demand(self._core.scopes_of_resource(params.uri), request, peer)
        return Handled(
            params.uri,
            lambda call: self._core.read_resource(params.uri, Context(call)),
            lambda: self._core.code_of_resource(params.uri),
        )

    def get_prompt(self, request: Request, peer: Peer) -> CoroutineType[Any, Any, Wire] | Later:
        """Serve ``prompts/get``."""
        return self._serve(request, peer, self._prompting(request.params, request, peer))

    def _prompting(self, params: GetPromptRequestParams, request: Request, peer: Peer) -> Handled:
        prompt = self._core.features.prompts.get(params.name)
        if prompt is None:
            raise InvalidParams(f"Unknown prompt: {params.name}")
        demand(prompt.scopes, request, peer)
        return Handled(params.name, lambda call: prompt.get(params.arguments, Context(call)), lambda: prompt.code)

    async def complete(self, request: Request, peer: Peer) -> Wire:
        """Serve ``completion/complete``."""
        params: CompleteRequestParams = request.params
        demand(self._core.completions.scopes_of(params.ref), request, peer)
        return await self._core.completions.complete(params, Context(Call(self._core, peer, request)))

    def subscribe(self, request: Request, peer: Peer) -> EmptyResult:
        """Serve ``resources/subscribe``; a caller that may not read a resource gets no updates of it."""
        params: SubscribeRequestParams = request.params
        demand(self._core.scopes_of_resource(params.uri), request, peer)
        return self._subscriptions.subscribe(request, peer)

    def listen(self, request: Request, peer: Peer) -> Later:
        """Serve ``subscriptions/listen``, likewise."""
        params: SubscriptionsListenRequestParams = request.params
        # What is more than may be listened to is refused in a moment, and not looked up before.
        uris = list(params.notifications.resource_subscriptions or ())[:MAX_SUBSCRIPTIONS]
        required = {scope for uri in uris for scope in self._core.scopes_of_resource(uri)}
        demand(required, request, peer)
        return self._subscriptions.listen(request, peer)

    def set_level(self, request: Request, peer: Peer) -> EmptyResult:
        """Serve ``logging/setLevel``."""
        params: SetLevelRequestParams = request.params
        peer.session.log_level = params.level
        return EmptyResult()


def _subject(params: CallToolRequestParams | ReadResourceRequestParams | GetPromptRequestParams) -> str:
    return params.uri if isinstance(params, ReadResourceRequestParams) else params.name


def _useless(tool: ServedTool, needed: Requirement, request: Request) -> CallToolResult:
    # 2026-07-28 basic/errors: -32021 with what is missing; no earlier revision has such a code.
    text = f"{tool.name} needs a client that offers {needed}"
    if not request.revision.modern:
        return _failed(text)
    feature, _, part = needed.partition(".")
    parts: dict[str, object] = {part: {}} if part else {}
    raise _UNAVAILABLE.get(feature, MissingCapability)(text, data={"requiredCapabilities": {feature: parts}})


def _is_for_the_peer(error: Exception, request: Request) -> bool:
    """Tell whether an exception of a tool is a protocol error; all others are results, which a model can act on."""
    if not isinstance(error, PeerError) or error.remote:
        return False
    if isinstance(error, ArgumentError):
        # 2025-11-25 server/tools: input validation errors are tool execution errors, for the model to correct.
        return not request.revision.argument_errors_are_results
    return request.revision.modern or not isinstance(error, MissingCapability)


def _required_beyond(error: Exception) -> frozenset[str]:
    """Return the scopes that a handler has found missing, in its own words; none for any other error."""
    return error.scopes if isinstance(error, InsufficientScope) and not error.remote else frozenset()


def _failed(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=text)], is_error=True)
