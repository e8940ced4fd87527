"""A sampling request as pydantic-ai's messages, settings and tools.

Nothing is dropped silently: what a vendor does not support fails as ``unsupported``. Names of tools that vendors do not
accept are replaced; ``names`` maps them back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from antiphon.host.catalogue import Model
from antiphon.host.providers.base import ProviderFailure
from antiphon.wire.content import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    SamplingContent,
    TextContent,
    ToolResultContent,
    ToolUseContent,
)
from antiphon.wire.envelope import encode
from antiphon.wire.sampling import CreateMessageRequestParams, SamplingMessage
from antiphon.wire.tools import Tool

__all__ = ["Outgoing", "outgoing"]

_TAKEN = re.compile(r"[A-Za-z0-9_-]+")
"""OpenAI's and Anthropic's rule for names of tools and ids of their uses; Gemini accepts more."""
_LONGEST_NAME = 64
_LONGEST_ID = 40
"""OpenAI's limits, in characters."""


class Outgoing(NamedTuple):
    """What is passed to pydantic-ai."""

    messages: list[ModelMessage]
    settings: ModelSettings
    parameters: ModelRequestParameters
    names: Mapping[str, str]
    """The names of tools as sent, each with the server's name for it."""


class _Plain(NamedTuple):
    """Replacements for the names of tools and the ids of their uses."""

    names: Mapping[str, str]
    ids: Mapping[str, str]


def outgoing(params: CreateMessageRequestParams, model: Model) -> Outgoing:
    """Convert a request for a model.

    Raises:
        ProviderFailure: a vendor does not support something in it.
    """
    uses = [block for message in params.messages for block in message.blocks if isinstance(block, ToolUseContent)]
    plain = _Plain(
        names=_plain([*(tool.name for tool in params.tools or ()), *(use.name for use in uses)], _LONGEST_NAME),
        ids=_plain([use.id for use in uses], _LONGEST_ID),
    )
    tools = [_tool(tool, plain.names[tool.name]) for tool in params.tools or ()]
    return Outgoing(
        _messages(params, uses, plain),
        _settings(params, model),
        ModelRequestParameters(function_tools=tools),
        {sent: name for name, sent in plain.names.items()},
    )


def _plain(originals: Iterable[str], longest: int) -> dict[str, str]:
    """Map each name to one that every vendor accepts: itself, if possible."""
    given: dict[str, str] = {name: name for name in originals if len(name) <= longest and _TAKEN.fullmatch(name)}
    used = set(given)
    for name in dict.fromkeys(originals):
        if name in given:
            continue
        base = sent = re.sub(r"[^A-Za-z0-9_-]", "_", name)[: longest - 6] or "unnamed"
        number = 1
        while sent in used:
            number += 1
            sent = f"{base}_{number}"
        used.add(sent)
        given[name] = sent
    return given


def _settings(params: CreateMessageRequestParams, model: Model) -> ModelSettings:
    # One attempt per call, because ``persistence`` retries, and knows the deadline and the reservation.
    settings = ModelSettings(max_tokens=min(params.max_tokens, model.max_output or params.max_tokens), max_retries=0)
    if params.temperature is not None:
        settings["temperature"] = params.temperature
    if params.stop_sequences:
        settings["stop_sequences"] = list(params.stop_sequences)
    if params.tools and params.tool_choice is not None and params.tool_choice.mode is not None:
        settings["tool_choice"] = params.tool_choice.mode
    return settings


def _tool(tool: Tool, name: str) -> ToolDefinition:
    # Not strict: some vendors rewrite strict schemas, and the server's tool was written for its own schema.
    schema = {"type": "object", **tool.input_schema}
    return ToolDefinition(
        name=name,
        description=tool.description or tool.title,
        parameters_json_schema=schema,
        strict=False,
    )


def _messages(params: CreateMessageRequestParams, uses: Iterable[ToolUseContent], plain: _Plain) -> list[ModelMessage]:
    names = {use.id: plain.names[use.name] for use in uses}
    translated: list[ModelMessage] = []
    first: list[ModelRequestPart] = [SystemPromptPart(params.system_prompt)] if params.system_prompt else []
    for message in params.messages:
        if message.role == "assistant":
            if first:
                translated.append(ModelRequest(parts=first))
            translated.append(ModelResponse(parts=[_said(block, plain) for block in message.blocks]))
        else:
            translated.append(ModelRequest(parts=[*first, *_asked(message, names, plain)]))
        first = []
    return translated


def _asked(message: SamplingMessage, names: Mapping[str, str], plain: _Plain) -> Iterator[ModelRequestPart]:
    """Convert a message of the user: each tool result to a part of its own, all else to one prompt."""
    prompt: list[UserContent] = []
    for block in message.blocks:
        if isinstance(block, ToolResultContent):
            yield _returned(block, names, plain)
        else:
            prompt.append(_content(block))
    if prompt:
        yield UserPromptPart(content=prompt[0] if len(prompt) == 1 and isinstance(prompt[0], str) else prompt)


def _returned(block: ToolResultContent, names: Mapping[str, str], plain: _Plain) -> ToolReturnPart:
    contents = [_content(inner) for inner in block.content]
    if not contents and block.structured_content is not None:
        contents = [encode(block.structured_content).decode()]
    texts = [content for content in contents if isinstance(content, str)]
    return ToolReturnPart(
        # Validation has made sure that every result answers a use.
        tool_name=names.get(block.tool_use_id, "unknown"),
        content="\n".join(texts) if len(texts) == len(contents) else contents,
        tool_call_id=plain.ids.get(block.tool_use_id, block.tool_use_id),
        outcome="failed" if block.is_error else "success",
    )


def _said(block: SamplingContent, plain: _Plain) -> ModelResponsePart:
    if isinstance(block, TextContent):
        return TextPart(block.text)
    if isinstance(block, ToolUseContent):
        return ToolCallPart(plain.names[block.name], dict(block.input), tool_call_id=plain.ids[block.id])
    raise ProviderFailure("unsupported", "a message of the assistant holds what vendors take from the user only")


def _content(block: object) -> str | BinaryContent:
    if isinstance(block, TextContent):
        return block.text
    if isinstance(block, ImageContent | AudioContent):
        return _media(block)
    if isinstance(block, ResourceLink):
        return f"[link to {block.uri}: {block.title or block.name}]"
    if isinstance(block, EmbeddedResource) and block.resource.text is not None:
        return f"[{block.resource.uri}]\n{block.resource.text}"
    raise ProviderFailure("unsupported", "the request holds a kind of content that cannot be sent to a model")


def _media(block: ImageContent | AudioContent) -> BinaryContent:
    kind = block.mime_type.partition(";")[0].strip().lower()
    if not kind.startswith("image/" if isinstance(block, ImageContent) else "audio/"):
        raise ProviderFailure("unsupported", "media of another type than the block that holds it")
    try:
        return BinaryContent(block.bytes, media_type=kind)
    except ValueError:
        raise ProviderFailure("unsupported", "media that is not base64") from None
