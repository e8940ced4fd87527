"""An agent of LangChain with a server's tools: the graph stops for a decision before a call is made.

A script stands for the agent's model, so that no key is needed. Needs the extra ``langchain``.
"""

import asyncio
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from antiphon import Client, Server
from antiphon.adapters.langchain import AntiphonTools
from antiphon.host import Host

server = Server("shop")


@server.tool
def order(product: str) -> str:
    """Order a product."""
    return f"ordered a {product}"


class Script(GenericFakeChatModel):
    """A model that says what it is given, whatever tools there are."""

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        """Take the tools."""
        return self


async def main() -> None:
    """Run the agent, approve its call, and print the result."""
    use = {"name": "order", "args": {"product": "scarf"}, "id": "1"}
    model = Script(messages=iter([AIMessage("", tool_calls=[use]), AIMessage("done")]))
    config = {"configurable": {"thread_id": "1"}}
    async with AntiphonTools(Client(server), host=Host(reviewer=None), approval="framework") as tools:
        agent = create_agent(model, await tools.list_tools(), checkpointer=InMemorySaver())
        state = await agent.ainvoke({"messages": "Order a scarf"}, config)
        [request] = state["__interrupt__"][0].value["action_requests"]
        print("to approve:", request["name"], request["args"])
        state = await agent.ainvoke(Command(resume={"decisions": [{"type": "approve"}]}), config)
    print(state["messages"][-2].text)


asyncio.run(main())
