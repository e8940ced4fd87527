"""Google's ``McpToolset``, with all that it can be given."""

from __future__ import annotations

from typing import Any

from google.adk.agents.run_config import RunConfig
from google.adk.tools.mcp_tool import McpToolset, StreamableHTTPConnectionParams
from google.genai import types
from mcp_types import CreateMessageResult, ElicitResult, SamplingCapability, SamplingToolsCapability, TextContent

from tests.adapters.cases_google_adk import CONFIRMATION, Session, responses
from tests.adapters.matrix import TOOLS
from tests.adapters.own_clients.client_program import DECISIONS, start, tell_asked

ANSWERS: dict[str, dict[str, Any]] = {
    "approve": {"confirmed": True},
    "edit": {"confirmed": True, "payload": {"product": "cap"}},
    "refuse": {"confirmed": False, "payload": {"reason": "too dear"}},
}


async def say(context: Any, params: Any) -> CreateMessageResult:
    """Answer as the model."""
    return CreateMessageResult(role="assistant", model="m", content=TextContent(type="text", text="a warm hat"))


async def accept(context: Any, params: Any) -> ElicitResult:
    """Accept a form or a visit."""
    return ElicitResult(action="accept", content={"size": "L"} if getattr(params, "requested_schema", None) else None)


def heed(tool: Any, args: dict[str, Any], tool_context: Any) -> dict[str, Any] | None:
    """Use what the user's confirmation carries besides yes or no, which the toolset leaves to the agent."""
    decision = tool_context.tool_confirmation
    if decision is None or not decision.payload:
        return None
    if not decision.confirmed:
        return {"error": decision.payload["reason"]}
    args.update(decision.payload)
    return None


async def drive(url: str, case: str) -> str:
    """Call one tool; the limit is what the agent itself needs."""
    name, arguments = TOOLS[case]
    toolset: Any = McpToolset(
        connection_params=StreamableHTTPConnectionParams(url=url, timeout=15),
        sampling_callback=say,
        sampling_capabilities=SamplingCapability(tools=SamplingToolsCapability()),
        elicitation_callback=accept,
        require_confirmation=case in DECISIONS,
    )
    session = Session(toolset, (name, dict(arguments)), before_tool_callback=heed)
    limited = RunConfig(max_llm_calls=2)
    try:
        parts = await session.send(types.Part.from_text(text="Go"), run_config=limited)
        asked = [part.function_call for part in parts if part.function_call and part.function_call.name == CONFIRMATION]
        if asked:
            await tell_asked()
            answer = types.FunctionResponse(id=asked[0].id, name=CONFIRMATION, response=ANSWERS[case])
            parts = await session.send(types.Part(function_response=answer), run_config=limited)
        return str(responses(parts))
    finally:
        await session.runner.close()


if __name__ == "__main__":
    start(drive)
