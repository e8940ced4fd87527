"""LangChain's chat models as the provider of a host; run in an environment of its own."""

from __future__ import annotations

from typing import Any

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

from antiphon.adapters.langchain_models import from_langchain
from antiphon.host import Host, Policy, Rule
from antiphon.types import SamplingMessage, TextContent, Tool, ToolResultContent, ToolUseContent


async def test_a_server_asks_a_chat_model():
    """Through the host's stages: messages, tools and results of tools arrive as LangChain has them."""
    seen: list[Any] = []

    class Recording(GenericFakeChatModel):
        def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
            return self

        def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
            seen.extend(messages)
            return super()._generate(messages, *args, **kwargs)

    use = {"name": "stock", "args": {"size": "L"}, "id": "use-2"}
    provider = from_langchain(Recording(messages=iter([AIMessage("", tool_calls=[use])])))
    host = Host(provider, policy=Policy(rules=(Rule(effect="allow"),)), reviewer=None)
    tool = Tool(name="stock", description="Count", input_schema={"type": "object"})
    messages = [
        SamplingMessage(role="user", content=TextContent(text="How many?")),
        SamplingMessage(role="assistant", content=ToolUseContent(id="use-1", name="stock", input={})),
        SamplingMessage(
            role="user", content=ToolResultContent(tool_use_id="use-1", content=[TextContent(text="seven")])
        ),
    ]
    answer = await host.complete(messages, system_prompt="Be short", tools=[tool], max_tokens=20)
    assert [message.type for message in seen] == ["system", "human", "ai", "tool"]
    assert isinstance(answer.blocks[0], ToolUseContent)
    assert answer.blocks[0].input == {"size": "L"}
