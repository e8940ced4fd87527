"""LangChain's chat models as a host's provider: ``Host(from_langchain(model))``.

Needs ``antiphon[langchain]``.
"""

from __future__ import annotations

from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from pydantic_ai import BinaryContent
from pydantic_ai.messages import (
    FinishReason,
    ModelMessage,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

from antiphon.adapters.pydantic_ai import from_pydantic_ai
from antiphon.host.providers.base import Provider

__all__ = ["convert_content", "from_langchain"]

_FINISHED: dict[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
}


def from_langchain(model: BaseChatModel) -> Provider:
    """Make a provider of a host from a chat model of LangChain: ``Host(from_langchain(model))``.

    Args:
        model: the model.
    """

    async def complete(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        settings = info.model_settings or {}
        said = {"max_tokens": settings.get("max_tokens"), "temperature": settings.get("temperature")}
        chosen: Any = model
        choice: Any = settings.get("tool_choice")
        if info.function_tools:
            tools = [
                {"name": tool.name, "description": tool.description or "", "parameters": tool.parameters_json_schema}
                for tool in info.function_tools
            ]
            chosen = model.bind_tools([{"type": "function", "function": tool} for tool in tools], tool_choice=choice)
        answer: AIMessage = await chosen.ainvoke(
            [each for message in messages for each in _convert_message(message)],
            stop=settings.get("stop_sequences"),
            **{name: value for name, value in said.items() if value is not None},
        )
        return _convert_answer(answer, info)

    name = str(getattr(model, "model_name", None) or getattr(model, "model", None) or type(model).__name__)
    return from_pydantic_ai(FunctionModel(complete, model_name=name))


def _convert_message(message: ModelMessage) -> list[AnyMessage]:
    if isinstance(message, ModelResponse):
        text = "".join(part.content for part in message.parts if isinstance(part, TextPart))
        uses = [part for part in message.parts if isinstance(part, ToolCallPart)]
        calls: Any = [{"name": use.tool_name, "args": use.args_as_dict(), "id": use.tool_call_id} for use in uses]
        return [AIMessage(text, tool_calls=calls)]
    return [_convert_part(part) for part in message.parts]


def _convert_part(part: object) -> AnyMessage:
    content: Any = getattr(part, "content", "")
    blocks: Any = content if isinstance(content, str) else [convert_content(each) for each in content]
    if isinstance(part, SystemPromptPart):
        return SystemMessage(blocks)
    if isinstance(part, ToolReturnPart):
        status: Any = "error" if part.outcome == "failed" else "success"
        return ToolMessage(blocks, tool_call_id=part.tool_call_id, status=status)
    return HumanMessage(blocks)


def _convert_answer(answer: AIMessage, info: AgentInfo) -> ModelResponse:
    parts: list[TextPart | ToolCallPart] = [TextPart(answer.text)] if answer.text else []
    parts += [ToolCallPart(use["name"], use["args"], tool_call_id=use["id"] or "") for use in answer.tool_calls]
    usage = answer.usage_metadata
    return ModelResponse(
        parts=parts,
        usage=RequestUsage(input_tokens=usage["input_tokens"], output_tokens=usage["output_tokens"])
        if usage
        else RequestUsage(),
        finish_reason=_FINISHED.get(str(answer.response_metadata.get("finish_reason"))),
    )


def convert_content(content: object) -> dict[str, Any]:
    """Convert a text or media to a block of LangChain."""
    if isinstance(content, BinaryContent):
        kind = "image" if content.is_image else "audio"
        return {"type": kind, "base64": content.base64, "mime_type": content.media_type}
    return {"type": "text", "text": str(content)}
