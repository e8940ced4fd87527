"""The OpenAI Agents SDK's ``MCPServerStreamableHttp``, which takes neither sampling nor forms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agents import Agent, Runner
from agents.mcp import MCPServerStreamableHttp

from tests.adapters.cases_openai_agents import QUIET, Calling, outputs
from tests.adapters.own_clients.client_program import start


async def drive(url: str, name: str, arguments: Mapping[str, Any]) -> str:
    """Call one tool."""
    async with MCPServerStreamableHttp(
        params={"url": url}, client_session_timeout_seconds=15, use_structured_content=name == "price"
    ) as server:
        agent = Agent(name="a", model=Calling((name, dict(arguments))), mcp_servers=[server])
        return str(outputs(await Runner.run(agent, "Go", run_config=QUIET)))


if __name__ == "__main__":
    start(drive)
