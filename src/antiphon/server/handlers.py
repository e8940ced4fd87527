"""What a server answers: one function for each method it serves. The table is data; the work is the features'.

A call whose handler may ask back runs where its era wants: modern ones in ``Rounds``, all others where they arrived.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import CoroutineType
from typing import Any

from msgspec import Raw

from antiphon.engine.connection import Connection, Handler, Later
from antiphon.errors import (
    ElicitationUnavailable,
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
from antiphon.server.features.tools import Requirement, ServedTool
from antiphon.server.functions.arguments import ArgumentError
from antiphon.server.listing import Pages
from antiphon.server.subscriptions import Subscriptions
from antiphon.wire.common import EmptyResult, Wire
from antiphon.wire.completion import CompleteRequestParams
from antiphon.wire.content import TextContent
from antiphon.wire.failure import cause_of, drop_frames
from antiphon.wire.logging import SetLevelRequestParams
from antiphon.wire.prompts import GetPromptRequestParams
from antiphon.wire.resources import ReadResourceRequestParams
from antiphon.wire.tools import CallToolRequestParams, CallToolResult

__all__ = ["Handlers"]

Peer = Connection[ServerSession]

_UNAVAILABLE: dict[str, type[MissingCapability]] = {
    "sampling": SamplingUnavailable,
    "elicitation": ElicitationUnavailable,
}


class Handlers:
    """The functions of one server."""

    def __init__(self, core: Core, pages: Pages, subscriptions: Subscriptions, rounds: Rounds) -> None:
        self._core = core
        self._pages = pages
        self._subscriptions = subscriptions
        self._rounds = rounds

    def table(self) -> Mapping[str, Handler]:
        """Return every method a server may serve; its capabilities and the revision decide which are served."""
        pages, subscriptions = self._pages, self._subscriptions
        return {
            "tools/list": pages.tools,
            "tools/call": self.call_tool,
            "resources/list": pages.resources,
            "resources/templates/list": pages.templates,
            "resources/read": self.read_resource,
            "resources/subscribe": subscriptions.subscribe,
            "resources/unsubscribe": subscriptions.unsubscribe,
            "subscriptions/listen": subscriptions.listen,
            "prompts/list": pages.prompts,
            "prompts/get": self.get_prompt,
            "completion/complete": self.complete,
            "logging/setLevel": self.set_level,
        }

    # --- tools --------------------------------------------------------------------------------------------------

    def call_tool(
        self, request: Request, peer: Peer
    ) -> CallToolResult | CoroutineType[Any, Any, CallToolResult] | Later:
        """Serve ``tools/call``."""
        params: CallToolRequestParams = request.params
        tool = self._core.features.tools.get(params.name)
        if tool is None:
            raise InvalidParams(f"Unknown tool: {params.name}")
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

    async def _run(
        self, tool: ServedTool, arguments: Raw, call: Call | None, request: Request, wait: float
    ) -> CallToolResult:
        if wait:
            await asyncio.sleep(wait)
        try:
            running = tool.call(arguments, Context(call) if call is not None else None)
            return await (running if tool.timeout is None else within(tool.timeout, tool.name, running))
        except Exception as error:
            # No name but this one, which ends with the block: the error leads to this frame, and would be garbage
            # together with it that only a collection finds.
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
        params: ReadResourceRequestParams = request.params
        return self._serve(
            request,
            peer,
            Handled(
                params.uri,
                lambda call: self._core.read_resource(params.uri, Context(call)),
                lambda: self._core.code_of_resource(params.uri),
            ),
        )

    def get_prompt(self, request: Request, peer: Peer) -> CoroutineType[Any, Any, Wire] | Later:
        """Serve ``prompts/get``."""
        params: GetPromptRequestParams = request.params
        prompt = self._core.features.prompts.get(params.name)
        if prompt is None:
            raise InvalidParams(f"Unknown prompt: {params.name}")
        return self._serve(
            request,
            peer,
            Handled(params.name, lambda call: prompt.get(params.arguments, Context(call)), lambda: prompt.code),
        )

    async def complete(self, request: Request, peer: Peer) -> Wire:
        """Serve ``completion/complete``."""
        params: CompleteRequestParams = request.params
        return await self._core.completions.complete(params, Context(Call(self._core, peer, request)))

    def set_level(self, request: Request, peer: Peer) -> EmptyResult:
        """Serve ``logging/setLevel``."""
        params: SetLevelRequestParams = request.params
        peer.session.log_level = params.level
        return EmptyResult()


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


def _failed(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=text)], is_error=True)
