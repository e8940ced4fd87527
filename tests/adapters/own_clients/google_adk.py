"""Google's ``McpToolset``, with all that it can be given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.adk.tools.mcp_tool import McpToolset, StreamableHTTPConnectionParams
from google.genai import types
from mcp_types import CreateMessageResult, ElicitResult, SamplingCapability, SamplingToolsCapability, TextContent

from tests.adapters.cases_google_adk import Session, responses
from tests.adapters.own_clients.client_program import start


async def say(context: Any, params: Any) -> CreateMessageResult:
    """Answer as the model."""
    return CreateMessageResult(role="assistant", model="m", content=TextContent(type="text", text="a warm hat"))


async def accept(context: Any, params: Any) -> ElicitResult:
    """Accept a form or a visit."""
    return ElicitResult(action="accept", content={"size": "L"} if getattr(params, "requested_schema", None) else None)


async def drive(url: str, name: str, arguments: Mapping[str, Any]) -> str:
    """Call one tool."""
    toolset: Any = McpToolset(
        connection_params=StreamableHTTPConnectionParams(url=url, timeout=15),
        sampling_callback=say,
        sampling_capabilities=SamplingCapability(tools=SamplingToolsCapability()),
        elicitation_callback=accept,
    )
    session = Session(toolset, (name, dict(arguments)))
    try:
        return str(responses(await session.send(types.Part.from_text(text="Go"))))
    finally:
        await session.runner.close()


if __name__ == "__main__":
    start(drive)
