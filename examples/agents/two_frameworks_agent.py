"""Agents of pydantic-ai and LangChain at one gateway: one queue has the questions of both, one budget their spending.

Scripts stand for the models, so that no key is needed. Needs the extras ``pydantic-ai`` and ``langchain``.
"""

import asyncio
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from antiphon import Context, Server
from antiphon.adapters.langchain import AntiphonTools
from antiphon.adapters.pydantic_ai import AntiphonToolset
from antiphon.gateway import Gateway
from antiphon.host import Approve, Budget, Cap, Host, MemoryStore, Policy, Queue, Rule, Scripted, digest

server = Server("shop")


@server.tool
async def order(product: str, ctx: Context) -> str:
    """Order a product, with a line about it by the host's model."""
    return f"ordered a {product}: {(await ctx.sample(f'One line about a {product}', max_tokens=50)).text}"


class Script(GenericFakeChatModel):
    """A model of LangChain that says what it is given, whatever tools there are."""

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        """Take the tools."""
        return self


def script(messages: list[Any], info: Any) -> ModelResponse:
    """Be a model of pydantic-ai: order a hat, and say what came of it."""
    if len(messages) == 1:
        return ModelResponse(parts=[ToolCallPart("order", {"product": "hat"}, tool_call_id="1")])
    return ModelResponse(parts=[TextPart(str(messages[-1].parts[0].content))])


async def decide(queue: Queue) -> None:
    """Be the person: approve the calls of both agents, once both wait."""
    async for _ in queue.changes():
        questions = await queue.pending()
        if len(questions) == 2:
            break
    for question in sorted(questions, key=lambda each: bytes(each.item.params.arguments)):
        print("to approve:", question.item.params.name, bytes(question.item.params.arguments).decode())
        await queue.decide(question.id, Approve(digest=digest(question.item.params)), hash=question.hash, by="ada")


async def main() -> None:
    """Run both agents, decide about their calls, and print what became of them."""
    store = MemoryStore()
    policy = Policy(rules=(Rule(effect="allow", kind="sampling"),))
    budget = Budget(total=Cap(tokens=100))
    host = Host(Scripted(["warm", "soft"]), policy=policy, reviewer=Queue(store), store=store, budget=budget)
    gateway = Gateway({"shop": server}, host, names="none")
    first = Agent(FunctionModel(script), toolsets=[AntiphonToolset(gateway, host=host)])
    use = {"name": "order", "args": {"product": "scarf"}, "id": "1"}
    async with AntiphonTools(gateway, host=host) as tools:
        model = Script(messages=iter([AIMessage("", tool_calls=[use]), AIMessage("done")]))
        second = create_agent(model, await tools.list_tools())
        runs = asyncio.gather(first.run("Order a hat"), second.ainvoke({"messages": "Order a scarf"}))
        await decide(Queue(store))
        hat, scarf = await runs
    print(sorted("ordered" in text for text in (hat.output, scarf["messages"][-2].text)))
    [total] = await store.balances("total")
    print("spent:", total.spent.tokens, "tokens; held:", total.held.tokens)


asyncio.run(main())
