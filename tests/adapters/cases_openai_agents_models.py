"""The OpenAI Agents SDK's models as the provider of a host; run in an environment of its own."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from agents import Model, ModelResponse, Usage
from openai import RateLimitError
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from antiphon.adapters.openai_agents_models import from_openai_agents
from antiphon.errors import InternalError
from antiphon.host import Host, Policy, Rule
from antiphon.types import (
    ImageContent,
    SamplingMessage,
    TextContent,
    Tool,
    ToolChoice,
    ToolResultContent,
    ToolUseContent,
)
from tests.adapters.servers import PNG


class Recording(Model):
    """A model that keeps what it is asked, and gives one answer."""

    def __init__(self, answer: Any) -> None:
        self.asked: list[Any] = []
        self._answer = answer

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        self.asked.append(args)
        if isinstance(self._answer, Exception):
            raise self._answer
        return ModelResponse(output=[self._answer], usage=Usage(input_tokens=30, output_tokens=4), response_id="r")

    def stream_response(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


def host_of(model: Model) -> Host:
    """Make a host whose models are this one."""
    return Host(from_openai_agents(model), policy=Policy(rules=(Rule(effect="allow"),)), reviewer=None)


async def test_a_server_asks_a_model_of_the_sdk():
    """Through the host's stages: messages, tools, results of tools and settings arrive as the SDK has them."""
    model = Recording(
        ResponseFunctionToolCall(name="stock", arguments='{"size": "L"}', call_id="use-2", type="function_call")
    )
    tool = Tool(name="stock", description="Count", input_schema={"type": "object", "properties": {}})
    messages = [
        SamplingMessage(role="user", content=[TextContent(text="How many?"), ImageContent.of(PNG, "image/png")]),
        SamplingMessage(role="assistant", content=ToolUseContent(id="use-1", name="stock", input={})),
        SamplingMessage(
            role="user", content=ToolResultContent(tool_use_id="use-1", content=[TextContent(text="seven")])
        ),
    ]
    answer = await host_of(model).complete(
        messages, system_prompt="Be short", tools=[tool], tool_choice=ToolChoice(mode="required"), max_tokens=20
    )
    [(system, items, settings, tools, *_)] = model.asked
    assert "Be short" in str(system) + str(items)
    assert [item["type"] for item in items if "type" in item and item["type"] != "message"] == [
        "function_call",
        "function_call_output",
    ]
    assert "seven" in str(items) and "input_image" in str(items)
    assert (settings.max_tokens, settings.tool_choice) == (20, "required")
    assert [(each.name, each.params_json_schema["type"]) for each in tools] == [("stock", "object")]
    assert isinstance(answer.blocks[0], ToolUseContent)
    assert (answer.blocks[0].id, answer.blocks[0].input) == ("use-2", {"size": "L"})


async def test_text_comes_back_as_text():
    """With a model that has no name, too."""
    text = ResponseOutputText(text="warm", type="output_text", annotations=[])
    model = Recording(
        ResponseOutputMessage(id="1", content=[text], role="assistant", status="completed", type="message")
    )
    assert (await host_of(model).complete("Describe a hat")).text == "warm"


async def test_a_failure_is_named_and_its_text_stays_here():
    """The vendor's words may quote the request."""
    response = httpx2.Response(429, request=httpx2.Request("POST", "http://x/"))
    model = Recording(RateLimitError("secret words", response=response, body=None))
    with pytest.raises(InternalError) as failed:
        await host_of(model).complete("Describe a hat")
    assert "secret" not in str(failed.value)
