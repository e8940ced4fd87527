"""The OpenAI Agents SDK: ``Agent(mcp_servers=[AntiphonServer(client, host=host)])``.

Needs ``antiphon[openai-agents]``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from agents.mcp import MCPServer
from mcp import types
from pydantic import BaseModel

from antiphon.adapters.agent_tools import AgentTools, Approval, OnProgress, Tools
from antiphon.errors import ConfigError
from antiphon.gateway.served_requests import fail_tool
from antiphon.host.host import Host
from antiphon.wire.envelope import encode_value

__all__ = ["AntiphonServer"]

_Theirs = TypeVar("_Theirs", bound=BaseModel)


class AntiphonServer(AgentTools, MCPServer):
    """The tools of servers as one server of the OpenAI Agents SDK.

    Args:
        tools: a ``Client`` or several, a ``Gateway``, or the path of a file that lists servers.
        host: has each call confirmed; by default only what the clients themselves ask.
        approval: ``"framework"`` has each call approved in the SDK's way (``require_approval="always"``): the run ends
            with ``interruptions``, and the host's policy decides before the call nevertheless. By default the host's
            reviewer decides.
        on_progress: called with the tool's name, the progress, the total and the message of each report.
        name: its name in traces.
    """

    def __init__(
        self,
        tools: Tools,
        *,
        host: Host | None = None,
        approval: Approval = "host",
        on_progress: OnProgress | None = None,
        name: str = "antiphon",
    ) -> None:
        AgentTools.__init__(
            self, tools, host=host, approval=approval, framework="openai-agents", on_progress=on_progress
        )
        MCPServer.__init__(self, require_approval="always" if approval == "framework" else "never")
        self._name = name

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
        return _convert(types.CallToolResult, await self._call(offered, arguments or {}, approved=approved))

    async def list_prompts(self) -> types.ListPromptsResult:
        """List the prompts of all servers."""
        prompts = [prompt for client in self._clients async for prompt in client.prompts()]
        return _convert(types.ListPromptsResult, {"prompts": prompts})

    async def get_prompt(self, name: str, arguments: dict[str, Any] | None = None) -> types.GetPromptResult:
        """Get a prompt.

        Args:
            name: its name; of two servers with a prompt of this name, the first has it.
            arguments: its arguments.

        Raises:
            ConfigError: no server has such a prompt.
        """
        for client in self._clients:
            if name in [prompt.name async for prompt in client.prompts()]:
                return _convert(types.GetPromptResult, await client.get_prompt(name, arguments or {}))
        raise ConfigError(f"no server has the prompt {name!r}")


def _convert(kind: type[_Theirs], value: object) -> _Theirs:
    """Convert a value of the protocol to the type that the official SDK has for it."""
    return kind.model_validate_json(encode_value(value))
