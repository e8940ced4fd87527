"""pydantic-ai: ``Agent(model, toolsets=[AntiphonToolset(client, host=host)])``, and its models as a host's provider.

Needs ``antiphon[pydantic-ai]``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Unpack

from pydantic_ai import AbstractToolset, ApprovalRequired, RunContext, ToolDefinition, ToolsetTool
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.models import Model
from pydantic_core import SchemaValidator, core_schema

from antiphon.adapters.agent_tools import AgentOptions, AgentTools, Tools, Undecided
from antiphon.host.agent_run.offered_tools import OfferedTool
from antiphon.host.model_catalogue import Model as CatalogueModel
from antiphon.host.providers.base import Completion, Provider, ProviderFailure
from antiphon.host.providers.vendor.adapter import Vendor
from antiphon.host.providers.vendor.translation import translate_block
from antiphon.wire.content import TextContent
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult
from antiphon.wire.tools import CallToolResult

__all__ = ["AgentOptions", "AntiphonToolset", "from_pydantic_ai"]

_OBJECT = SchemaValidator(core_schema.dict_schema(core_schema.str_schema(), core_schema.any_schema()))
"""Arguments are checked by the server, against the tool's own schema."""


class AntiphonToolset(AgentTools, AbstractToolset[Any]):
    """The tools of servers as a toolset of pydantic-ai.

    With ``approval="framework"`` the agent's run ends with ``DeferredToolRequests`` for what the policy leaves open.

    Args:
        tools: a ``Client`` or several, a ``Gateway``, or the path of a file that lists servers.
        id: the toolset's id, for durable execution; none by default.
        options: ``host``, ``approval`` and ``on_progress``; see ``AgentOptions``.
    """

    framework = "pydantic-ai"

    def __init__(self, tools: Tools, *, id: str | None = None, **options: Unpack[AgentOptions]) -> None:
        super().__init__(tools, **options)
        self._id = id

    @property
    def id(self) -> str | None:
        """The toolset's id."""
        return self._id

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """List the tools.

        Args:
            ctx: the run.
        """
        offered = await self._offer()
        return {name: _OfferedToolsetTool.of(each, self, ctx.max_retries) for name, each in offered.items()}

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        """Call a tool.

        Args:
            name: its name.
            tool_args: its arguments.
            ctx: the run; whether its user has approved this call.
            tool: the tool, as ``get_tools`` returned it.

        Raises:
            ApprovalRequired: the user of the agent has to be asked.
            ToolFailed: the call was refused or has failed; the model reads why.
        """
        offered = tool.offered if isinstance(tool, _OfferedToolsetTool) else (await self._offer())[name]
        try:
            approved = True if ctx.tool_call_approved else None
            result = await self._call(offered, tool_args, [ctx.tool_call_id], approved=approved)
        except Undecided:
            raise ApprovalRequired from None
        if result.is_error:
            raise ToolFailed(result.text or "The tool has failed")
        try:
            return _convert_result(result)
        except ProviderFailure as failure:
            raise ToolFailed(str(failure)) from None


@dataclass(kw_only=True)
class _OfferedToolsetTool(ToolsetTool[Any]):
    offered: OfferedTool

    @classmethod
    def of(cls, offered: OfferedTool, toolset: AntiphonToolset, retries: int) -> _OfferedToolsetTool:
        tool = offered.tool
        definition = ToolDefinition(
            name=offered.name,
            description=tool.description or tool.title,
            parameters_json_schema=tool.input_schema,
            return_schema=tool.output_schema,
            metadata={"meta": tool.meta},
        )
        return cls(toolset=toolset, tool_def=definition, max_retries=retries, args_validator=_OBJECT, offered=offered)


def _convert_result(result: CallToolResult) -> Any:
    """Return what the model gets: data if the texts only repeat it, else the blocks."""
    if result.structured_content is not None and all(isinstance(block, TextContent) for block in result.content):
        return result.structured_content
    blocks = [translate_block(block) for block in result.content]
    return blocks[0] if len(blocks) == 1 else blocks


class _ModelProvider:
    """A ``Provider`` that asks a model of pydantic-ai."""

    tools = True
    personal = False

    def __init__(self, model: Model) -> None:
        self.name = model.model_name
        known = CatalogueModel(name=self.name, provider=model.system, model=self.name)
        self._vendor = Vendor(known, None, ready=model)

    async def complete(self, params: CreateMessageRequestParams, *, model: str | None = None) -> CreateMessageResult:
        return (await self.generate(params)).result

    async def generate(
        self, params: CreateMessageRequestParams, *, model: str | None = None, fallbacks: tuple[str, ...] = ()
    ) -> Completion:
        return await self._vendor.generate(params)


def from_pydantic_ai(model: Model) -> Provider:
    """Make a provider of a host from a model of pydantic-ai: ``Host(from_pydantic_ai(model))``.

    Args:
        model: the model.
    """
    return _ModelProvider(model)
