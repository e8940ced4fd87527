"""An agent of pydantic-ai with a server's tools: a host's rules decide about each call, and its record has them all.

A script stands for the agent's model, so that no key is needed. Needs the extra ``pydantic-ai``.
"""

import asyncio

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from antiphon import Client, Server
from antiphon.adapters.pydantic_ai import AntiphonToolset
from antiphon.host import Host, MemoryStore, Policy, Rule

server = Server("shop")


@server.tool
def price(product: str) -> str:
    """Say what a product costs."""
    return f"a {product} costs 20 EUR"


@server.tool
def order(product: str) -> str:
    """Order a product."""
    return f"ordered a {product}"


def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Ask for the price, then order; then end."""
    turn = len(messages) // 2
    if turn < 2:
        return ModelResponse(parts=[ToolCallPart(["price", "order"][turn], {"product": "scarf"})])
    return ModelResponse(parts=[TextPart("done")])


async def main() -> None:
    """Run the agent, and print the results of its calls and the decisions about them."""
    store = MemoryStore()
    rules = (Rule(effect="allow", kind="tool", name="price"), Rule(effect="deny", kind="tool", name="order"))
    host = Host(policy=Policy(rules=rules), reviewer=None, store=store)
    agent = Agent(FunctionModel(script), toolsets=[AntiphonToolset(Client(server), host=host)])
    result = await agent.run("Order a scarf")
    for message in result.all_messages():
        for part in message.parts:
            if part.part_kind == "tool-return":
                print(f"{part.tool_name}: {part.content}")
    print(result.output)
    for entry in await store.entries():
        if entry.record.step == "policy":
            print("policy", entry.record.outcome)


asyncio.run(main())
