"""pydantic-ai: ``Agent(model, toolsets=[AntiphonToolset(client, host=host)])``, and its models as a host's provider.

Needs ``antiphon[pydantic-ai]``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from pydantic_ai import AbstractToolset, ApprovalRequired, BinaryContent, RunContext, ToolDefinition, ToolsetTool
from pydantic_ai.direct import model_request
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.models import Model
from pydantic_core import SchemaValidator, core_schema

from antiphon.adapters.agent_tools import AgentTools, Approval, Tools, Undecided
from antiphon.host.agent_run.offered_tools import OfferedTool
from antiphon.host.catalogue import Model as CatalogueModel
from antiphon.host.host import Host
from antiphon.host.providers.base import Completion, ProviderFailure
from antiphon.host.providers.vendor.adapter import failure
from antiphon.host.providers.vendor.translation import completion, outgoing
from antiphon.wire.content import AudioContent, ContentBlock, EmbeddedResource, ImageContent, ResourceLink, TextContent
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult
from antiphon.wire.tools import CallToolResult

__all__ = ["AntiphonToolset", "PydanticAIModel", "from_pydantic_ai"]

_OBJECT = SchemaValidator(core_schema.dict_schema(core_schema.str_schema(), core_schema.any_schema()))
"""Arguments are checked by the server, against the tool's own schema."""


class AntiphonToolset(AbstractToolset[Any]):
    """The tools of servers as a toolset of pydantic-ai.

    Args:
        tools: a ``Client`` or several, a ``Gateway``, or the path of a file that lists servers.
        host: has each call confirmed; by default only what the clients themselves ask.
        approval: ``"framework"`` defers what the policy leaves open, so that the agent's run ends with
            ``DeferredToolRequests``; by default the host's reviewer decides.
        on_progress: called with the tool's name, the progress, the total and the message of each report.
        id: the toolset's id, for durable execution; none by default.
    """

    def __init__(
        self,
        tools: Tools,
        *,
        host: Host | None = None,
        approval: Approval = "host",
        on_progress: Callable[[str, float, float | None, str | None], object] | None = None,
        id: str | None = None,
    ) -> None:
        self._agent_tools = AgentTools(tools, host=host, approval=approval, framework="pydantic-ai")
        self._on_progress, self._id = on_progress, id

    @property
    def id(self) -> str | None:
        """The toolset's id."""
        return self._id

    async def __aenter__(self) -> Self:
        """Connect; may be entered several times."""
        await self._agent_tools.__aenter__()
        return self

    async def __aexit__(self, *args: object) -> None:
        """Close what the first entry has opened."""
        await self._agent_tools.__aexit__(*args)

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """List the tools.

        Args:
            ctx: the run.
        """
        offered = await self._agent_tools.offered()
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
        offered = tool.offered if isinstance(tool, _OfferedToolsetTool) else (await self._agent_tools.offered())[name]
        on_progress = self._on_progress

        def tell(progress: float, total: float | None, message: str | None) -> object:
            return on_progress and on_progress(name, progress, total, message)

        try:
            result = await self._agent_tools.call(
                offered, tool_args, approved=True if ctx.tool_call_approved else None, progress=tell
            )
        except Undecided:
            raise ApprovalRequired from None
        if result.is_error:
            raise ToolFailed(result.text or "The tool has failed")
        return _returned(result)


@dataclass(kw_only=True)
class _OfferedToolsetTool(ToolsetTool[Any]):
    offered: OfferedTool

    @classmethod
    def of(cls, offered: OfferedTool, toolset: AntiphonToolset, max_retries: int) -> _OfferedToolsetTool:
        tool = offered.tool
        definition = ToolDefinition(
            name=offered.name,
            description=tool.description or tool.title,
            parameters_json_schema=tool.input_schema,
            return_schema=tool.output_schema,
            metadata={"meta": tool.meta},
        )
        return cls(
            toolset=toolset, tool_def=definition, max_retries=max_retries, args_validator=_OBJECT, offered=offered
        )


def _returned(result: CallToolResult) -> Any:
    """Return what the model gets: data if the texts only repeat it, else the blocks."""
    if result.structured_content is not None and all(isinstance(block, TextContent) for block in result.content):
        return result.structured_content
    blocks = [_block(block) for block in result.content]
    return blocks[0] if len(blocks) == 1 else blocks


def _block(block: ContentBlock) -> str | BinaryContent:
    if isinstance(block, ImageContent | AudioContent):
        return BinaryContent(block.bytes, media_type=block.mime_type)
    if isinstance(block, EmbeddedResource):
        return block.resource.text or ""
    return block.uri if isinstance(block, ResourceLink) else getattr(block, "text", "")


class PydanticAIModel:
    """A ``Provider`` that asks a model of pydantic-ai.

    Args:
        model: the model.
    """

    tools = True
    personal = False

    def __init__(self, model: Model) -> None:
        self._model, self.name = model, model.model_name
        self._known = CatalogueModel(name=model.model_name, provider=model.system, model=model.model_name)

    async def complete(self, params: CreateMessageRequestParams, *, model: str | None = None) -> CreateMessageResult:
        """Answer a request.

        Args:
            params: the request.
            model: not used, since there is one model.
        """
        return (await self.generate(params)).result

    async def generate(
        self, params: CreateMessageRequestParams, *, model: str | None = None, fallbacks: tuple[str, ...] = ()
    ) -> Completion:
        """Answer a request, with its usage.

        Args:
            params: the request.
            model: not used, since there is one model.
            fallbacks: not used.

        Raises:
            ProviderFailure: of any kind; its text contains nothing that was received.
        """
        messages, settings, parameters, names = outgoing(params, self._known)
        try:
            response = await model_request(
                self._model, messages, model_settings=settings, model_request_parameters=parameters, instrument=False
            )
            return completion(response, params, self._known, names)
        except ProviderFailure:
            raise
        except Exception as error:
            # A boundary to code of others, whose errors quote what came over the wire.
            raise failure(error, self._known) from None


def from_pydantic_ai(model: Model) -> PydanticAIModel:
    """Make a provider of a host from a model of pydantic-ai: ``Host(from_pydantic_ai(model))``.

    Args:
        model: the model.
    """
    return PydanticAIModel(model)
