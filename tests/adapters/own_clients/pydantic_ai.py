"""pydantic-ai's ``MCPToolset``, with all that it can be given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastmcp.client.elicitation import ElicitResult
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel

from tests.adapters.own_clients.client_program import start
from tests.adapters.test_pydantic_ai import calls, returned


def say(*_: Any) -> ModelResponse:
    """Answer as the model."""
    return ModelResponse(parts=[TextPart("a warm hat")])


async def accept(message: str, response_type: Any, params: Any, context: Any) -> ElicitResult[Any]:
    """Accept a form or a visit."""
    return ElicitResult(action="accept", content={"size": "L"} if response_type else None)


async def drive(url: str, name: str, arguments: Mapping[str, Any]) -> str:
    """Call one tool."""
    toolset = MCPToolset(url, sampling_model=FunctionModel(say), elicitation_handler=accept)
    result = await Agent(calls((name, dict(arguments))), toolsets=[toolset]).run("Go")
    return str([part.content for part in returned(result.all_messages())])


if __name__ == "__main__":
    start(drive)
