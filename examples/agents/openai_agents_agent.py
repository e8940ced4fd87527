"""An agent of the OpenAI Agents SDK with a server's tools: a host's rules decide about each call.

A script stands for the agent's model, so that no key is needed. Needs the extra ``openai-agents``.
"""

import asyncio
import json
from typing import Any

from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from antiphon import Client, Server
from antiphon.adapters.openai_agents import AntiphonServer
from antiphon.host import Host, Policy, Rule

server = Server("shop")


@server.tool
def order(product: str) -> str:
    """Order a product."""
    return f"ordered a {product}"


class Script(Model):
    """A model that orders two things, and is then done."""

    turn = 0

    async def get_response(self, *args: Any, **options: Any) -> ModelResponse:
        """Call the tool, or end."""
        self.turn += 1
        if self.turn <= 2:
            arguments = json.dumps({"product": ["scarf", "car"][self.turn - 1]})
            said = ResponseFunctionToolCall(
                name="order", arguments=arguments, call_id=str(self.turn), type="function_call"
            )
        else:
            text = ResponseOutputText(text="done", type="output_text", annotations=[])
            said = ResponseOutputMessage(id="1", content=[text], role="assistant", status="completed", type="message")
        return ModelResponse(output=[said], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **options: Any) -> Any:
        """Not used here."""
        raise NotImplementedError


async def main() -> None:
    """Run the agent, and print the results of its calls."""
    rules = (Rule(effect="allow", kind="tool", when='args.product == "scarf"'),)
    host = Host(policy=Policy(rules=rules, default="deny"), reviewer=None)
    async with AntiphonServer(Client(server), host=host) as tools:
        agent = Agent(name="buyer", model=Script(), mcp_servers=[tools])
        result = await Runner.run(agent, "Order a scarf and a car", run_config=RunConfig(tracing_disabled=True))
    for item in result.to_input_list():
        if item.get("type") == "function_call_output":
            print(item["output"])
    print(result.final_output)


asyncio.run(main())
