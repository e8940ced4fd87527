"""The OpenAI Agents SDK's ``MCPServerStreamableHttp``, which takes neither sampling nor forms."""

from __future__ import annotations

from typing import Any

from agents import Agent, Runner
from agents.mcp import MCPServerStreamableHttp

from tests.adapters.cases_openai_agents import QUIET, Calling, outputs
from tests.adapters.matrix import TOOLS
from tests.adapters.own_clients.client_program import DECISIONS, start, tell_asked


async def drive(url: str, case: str) -> str:
    """Call one tool; the limit is what the agent itself needs."""
    name, arguments = TOOLS[case]
    async with MCPServerStreamableHttp(
        params={"url": url},
        client_session_timeout_seconds=15,
        use_structured_content=name == "price",
        require_approval="always" if case in DECISIONS else "never",
    ) as server:
        agent = Agent(name="a", model=Calling((name, dict(arguments))), mcp_servers=[server])
        result = await Runner.run(agent, "Go", run_config=QUIET, max_turns=2)
        if result.interruptions:
            await tell_asked()
            [asked], state = result.interruptions, result.to_state()
            if case == "refuse":
                state.reject(asked, rejection_message="too dear")
            else:
                if case == "edit":
                    # ``approve`` takes no arguments; the item that is approved has some.
                    item: Any = asked.raw_item
                    item.arguments = '{"product": "cap"}'
                state.approve(asked)
            result = await Runner.run(agent, state, run_config=QUIET)
        return str(outputs(result))


if __name__ == "__main__":
    start(drive)
