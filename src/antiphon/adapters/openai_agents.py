"""The OpenAI Agents SDK: ``Agent(mcp_servers=[AntiphonServer(client, host=host)])``.

Needs ``antiphon[openai-agents]``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, Unpack

from agents.mcp import MCPServer
from mcp import types
from pydantic import BaseModel

from antiphon.adapters.agent_tools import AgentOptions, AgentTools, Tools
from antiphon.client.client import Client
from antiphon.errors import ConfigError
from antiphon.gateway.served_requests import fail_tool
from antiphon.wire.envelope import encode_value

__all__ = ["AntiphonServer"]

_Theirs = TypeVar("_Theirs", bound=BaseModel)


class AntiphonServer(AgentTools, MCPServer):
    """The tools of servers as one server of the OpenAI Agents SDK.

    With ``approval="framework"`` each call is approved in the SDK's way (``require_approval``): the run ends with
    ``interruptions``, and the host's policy decides before the call nevertheless.

    Args:
        tools: a ``Client`` or several, a ``Gateway``, or the path of a file that lists servers.
        name: its name in traces.
        options: ``host``, ``approval`` and ``on_progress``; see ``AgentOptions``.
    """

    framework = "openai-agents"

    def __init__(self, tools: Tools, *, name: str = "antiphon", **options: Unpack[AgentOptions]) -> None:
        AgentTools.__init__(self, tools, **options)
        MCPServer.__init__(self, require_approval=self._needs_approval if self._defers else "never")
        self._name = name

    async def _needs_approval(self, _run: object, _agent: object, tool: types.Tool) -> bool:
        """Have every call approved; the SDK says no more of it here than the name of its tool."""
        if (offered := (await self._offer()).get(tool.name)) is not None:
            await self._note_question(offered, [self._name, tool.name])
        return True

    @property
    def name(self) -> str:
        """Its name in traces."""
        return self._name

    async def connect(self) -> None:
        """Connect to the servers."""
        await self.__aenter__()

    async def cleanup(self) -> None:
        """Close what ``connect`` has opened."""
        await self.__aexit__()

    async def list_tools(self, run_context: Any = None, agent: Any = None) -> list[types.Tool]:
        """List the tools that a model may call, by names that models take.

        Args:
            run_context: the run; not used.
            agent: the agent; not used.
        """
        return [_convert(types.Tool, each.definition) for each in (await self._offer()).values()]

    async def call_tool(
        self, tool_name: str, arguments: dict[str, Any] | None, meta: Mapping[str, Any] | None = None
    ) -> types.CallToolResult:
        """Call a tool; why it was refused or has failed is an error for the model.

        Args:
            tool_name: its name, as ``list_tools`` has it.
            arguments: its arguments.
            meta: the SDK's metadata; not sent.
        """
        offered = (await self._offer()).get(tool_name)
        if offered is None:
            return _convert(types.CallToolResult, fail_tool(f"There is no tool {tool_name!r} any more"))
        approved = True if self._defers else None
        result = await self._call(offered, arguments or {}, [self._name, tool_name], approved=approved)
        return _convert(types.CallToolResult, result)

    async def list_prompts(self) -> types.ListPromptsResult:
        """List the prompts of all servers."""
        prompts = [prompt for client in self._list_prompting() async for prompt in client.prompts()]
        return _convert(types.ListPromptsResult, {"prompts": prompts})

    async def get_prompt(self, name: str, arguments: dict[str, Any] | None = None) -> types.GetPromptResult:
        """Get a prompt.

        Args:
            name: its name; of two servers with a prompt of this name, the first has it.
            arguments: its arguments.

        Raises:
            ConfigError: no server has such a prompt.
        """
        for client in self._list_prompting():
            if name in [prompt.name async for prompt in client.prompts()]:
                return _convert(types.GetPromptResult, await client.get_prompt(name, arguments or {}))
        raise ConfigError(f"no server has the prompt {name!r}")

    def _list_prompting(self) -> list[Client]:
        """Return the clients of servers that have prompts: the others refuse to list any."""
        return [client for client in self._clients if client.server_capabilities.prompts is not None]


def _convert(kind: type[_Theirs], value: object) -> _Theirs:
    """Convert a value of the protocol to the type that the official SDK has for it."""
    return kind.model_validate_json(encode_value(value))
