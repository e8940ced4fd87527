"""LangChain's ``langchain-mcp-adapters``, with all that it can be given."""

from __future__ import annotations

from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, ModelCallLimitMiddleware
from langchain_mcp_adapters.callbacks import Callbacks
from langchain_mcp_adapters.client import MultiServerMCPClient
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from mcp.types import CreateMessageResult, ElicitResult, SamplingCapability, SamplingToolsCapability, TextContent

from tests.adapters.cases_langchain import calls, results
from tests.adapters.matrix import TOOLS
from tests.adapters.own_clients.client_program import DECISIONS, start, tell_asked

ANSWERS: dict[str, Any] = {
    "approve": {"type": "approve"},
    "edit": {"type": "edit", "edited_action": {"name": "buy", "args": {"product": "cap"}}},
    "refuse": {"type": "reject", "message": "too dear"},
}


async def say(context: Any, params: Any) -> CreateMessageResult:
    """Answer as the model."""
    return CreateMessageResult(role="assistant", model="m", content=TextContent(type="text", text="a warm hat"))


async def accept(context: Any, params: Any, *_: Any) -> ElicitResult:
    """Accept a form or a visit."""
    return ElicitResult(action="accept", content={"size": "L"} if getattr(params, "requestedSchema", None) else None)


async def drive(url: str, case: str) -> str:
    """Call one tool; the limit is what the agent itself needs."""
    name, arguments = TOOLS[case]
    sampling = {"sampling_callback": say, "sampling_capabilities": SamplingCapability(tools=SamplingToolsCapability())}
    client = MultiServerMCPClient(
        {"s": {"transport": "streamable_http", "url": url, "session_kwargs": sampling}},
        callbacks=Callbacks(on_elicitation=accept),
    )
    middleware: list[Any] = [ModelCallLimitMiddleware(run_limit=2, exit_behavior="error")]
    if case in DECISIONS:
        middleware.append(HumanInTheLoopMiddleware(interrupt_on={name: True}))
    agent = create_agent(
        calls((name, dict(arguments))), await client.get_tools(), middleware=middleware, checkpointer=InMemorySaver()
    )
    config: Any = {"configurable": {"thread_id": "1"}}
    state = await agent.ainvoke({"messages": "Go"}, config)
    if "__interrupt__" in state:
        await tell_asked()
        state = await agent.ainvoke(Command(resume={"decisions": [ANSWERS[case]]}), config)
    return str([(message.content, message.artifact) for message in results(state)])


if __name__ == "__main__":
    start(drive)
