"""LangChain and LiteLLM, unmodified: address and token come from the environment alone. Prints one JSON object."""

from __future__ import annotations

import json

import litellm
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

litellm.telemetry = False


class Place(BaseModel):
    """Where it is."""

    city: str


@tool
def weather(city: str) -> str:
    """Tell the weather."""
    return "snow"


def langchain(chat) -> dict:
    """Walk through a chat model of LangChain."""
    bound = chat.bind_tools([weather])
    said = [HumanMessage("weather?")]
    asked = bound.invoke(said)
    call = asked.tool_calls[0]
    told = bound.invoke([*said, asked, ToolMessage("snow", tool_call_id=call["id"])])
    try:
        chat.invoke("forbidden")
        refused = None
    except Exception as error:
        refused = error.status_code
    return {
        "text": chat.invoke("hello").text,
        "tool": [call["name"], call["args"], told.text],
        "streamed": "".join(chunk.text for chunk in chat.stream("hello")),
        "formed": chat.with_structured_output(Place).invoke("where?").city,
        "refused": refused,
    }


def lite(model: str) -> dict:
    """Walk through LiteLLM as a client."""
    said = [{"role": "user", "content": "hello"}]
    plain = litellm.completion(model=model, messages=said, max_tokens=100)
    stream = litellm.completion(model=model, messages=said, max_tokens=100, stream=True)
    return {
        "text": plain.choices[0].message.content,
        "streamed": "".join(chunk.choices[0].delta.content or "" for chunk in stream),
        "counted": plain.usage.total_tokens > 0,
    }


print(json.dumps({
    "langchain-openai": langchain(ChatOpenAI(model="gpt-5")),
    "langchain-anthropic": langchain(ChatAnthropic(model="claude-sonnet", max_tokens=100)),
    "litellm-openai": lite("openai/gpt-5"),
    "litellm-anthropic": lite("anthropic/claude-sonnet"),
}))  # fmt: skip
