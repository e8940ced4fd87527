"""pydantic-ai's ``MCPToolset``, with all that it can be given."""

from __future__ import annotations

from typing import Any

from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from mcp_types import SamplingCapability, SamplingToolsCapability
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ToolApproved, ToolDenied
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.usage import UsageLimits

from tests.adapters.matrix import TOOLS
from tests.adapters.own_clients.client_program import DECISIONS, start, tell_asked
from tests.adapters.test_pydantic_ai import calls, returned

ANSWERS = {"approve": True, "edit": ToolApproved(override_args={"product": "cap"}), "refuse": ToolDenied("too dear")}


def say(*_: Any) -> ModelResponse:
    """Answer as the model."""
    return ModelResponse(parts=[TextPart("a warm hat")])


async def say_with_tools(messages: Any, params: Any, context: Any) -> str:
    """Answer as the model, by hand."""
    return "a warm hat"


async def accept(message: str, response_type: Any, params: Any, context: Any) -> ElicitResult[Any]:
    """Accept a form or a visit."""
    return ElicitResult(action="accept", content={"size": "L"} if response_type else None)


async def drive(url: str, case: str) -> str:
    """Call one tool; the limit is what the agent itself needs."""
    name, arguments = TOOLS[case]
    toolset: Any = MCPToolset(url, sampling_model=FunctionModel(say), elicitation_handler=accept)
    if case == "sampling with tools":
        plain = await Agent(calls((name, dict(arguments))), toolsets=[toolset]).run("Go")
        assert "a warm hat" not in str(returned(plain.all_messages())), "sampling_model= offers tools by now"
        tools = SamplingCapability(tools=SamplingToolsCapability())
        toolset = MCPToolset(Client(url, sampling_handler=say_with_tools, sampling_capabilities=tools))
    if case in DECISIONS:
        toolset = toolset.approval_required()
    agent = Agent(calls((name, dict(arguments))), toolsets=[toolset], output_type=[str, DeferredToolRequests])
    result: Any = await agent.run("Go", usage_limits=UsageLimits(request_limit=2))
    if isinstance(result.output, DeferredToolRequests):
        await tell_asked()
        decided = DeferredToolResults(approvals={result.output.approvals[0].tool_call_id: ANSWERS[case]})
        result = await agent.run(message_history=result.all_messages(), deferred_tool_results=decided)
    return str([part.content for part in returned(result.all_messages())])


if __name__ == "__main__":
    start(drive)
