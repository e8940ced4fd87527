"""Google's Agent Development Kit: ``LlmAgent(tools=[AdkToolset(client, host=host)])``.

Needs ``antiphon[google-adk]``.
"""

from __future__ import annotations

import asyncio
from typing import Any, Unpack

from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from antiphon.adapters.agent_tools import AgentOptions, AgentTools, Tools, Undecided
from antiphon.host.agent_run.offered_tools import OfferedTool
from antiphon.host.providers.vendor.translation import translate_block
from antiphon.wire.content import AudioContent, ImageContent, TextContent
from antiphon.wire.tools import CallToolResult

__all__ = ["AdkToolset"]


class AdkToolset(AgentTools, BaseToolset):
    """The tools of servers as a toolset of the Agent Development Kit.

    The kit enters no toolset: the first listing connects, and ``close()``, which the runner calls, disconnects.

    With ``approval="framework"`` the kit's tool confirmation is requested for what the policy leaves open.

    Args:
        tools: a ``Client`` or several, a ``Gateway``, or the path of a file that lists servers.
        options: ``host``, ``approval`` and ``on_progress``; see ``AgentOptions``.
    """

    framework = "google-adk"

    def __init__(self, tools: Tools, **options: Unpack[AgentOptions]) -> None:
        AgentTools.__init__(self, tools, **options)
        BaseToolset.__init__(self)
        self._is_connected, self._connecting = False, asyncio.Lock()

    async def get_tools(self, readonly_context: ReadonlyContext | None = None) -> list[BaseTool]:
        """List the tools that a model may call; connect first.

        Args:
            readonly_context: the run; not used.
        """
        async with self._connecting:
            if not self._is_connected:
                await self.__aenter__()
                self._is_connected = True
        return [_AdkTool(self, offered) for offered in (await self._offer()).values()]

    async def close(self) -> None:
        """Disconnect."""
        async with self._connecting:
            if self._is_connected:
                self._is_connected = False
                await self.__aexit__()

    async def call(self, offered: OfferedTool, arguments: dict[str, Any], context: ToolContext) -> dict[str, Any]:
        """Call a tool; why it was refused or has failed is an error for the model.

        Args:
            offered: the tool.
            arguments: its arguments.
            context: the call, with the decision of the kit's user once there is one.
        """
        decision, call = context.tool_confirmation, [context.session.id, context.function_call_id]
        approved = None if decision is None else decision.confirmed
        try:
            result = await self._call(offered, arguments, call, approved=approved)
        except Undecided:
            context.request_confirmation(hint=f"May {offered.name} run with these arguments?")
            context.actions.skip_summarization = True
            return {"error": "This call waits for the user's confirmation."}
        return _convert_result(result)


class _AdkTool(BaseTool):
    def __init__(self, toolset: AdkToolset, offered: OfferedTool) -> None:
        described = offered.tool.description or offered.tool.title or offered.name
        super().__init__(name=offered.name, description=described)
        self._toolset, self._offered = toolset, offered

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(
            name=self.name, description=self.description, parameters_json_schema=self._offered.tool.input_schema
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> dict[str, Any]:
        return await self._toolset.call(self._offered, args, tool_context)


def _convert_result(result: CallToolResult) -> dict[str, Any]:
    """Return what the model gets: data if there is any, else the texts; media as base64."""
    if result.is_error:
        return {"error": result.text or "The tool has failed"}
    media = [
        {"mime_type": block.mime_type, "data": block.data}
        for block in result.content
        if isinstance(block, ImageContent | AudioContent)
    ]
    others = [block for block in result.content if not isinstance(block, ImageContent | AudioContent)]
    told: dict[str, Any] = {"media": media} if media else {}
    if result.structured_content is not None and all(isinstance(block, TextContent) for block in others):
        return {**told, "result": result.structured_content}
    texts = [str(translate_block(block)) for block in others]
    return {**told, "result": "\n".join(texts)} if texts else told
