"""A sampling request as pydantic-ai's messages, settings and tools, and a vendor's answer as its result.

Nothing is dropped silently: what a vendor does not support fails as ``unsupported``. Names of tools that vendors do not
accept are replaced; ``names`` maps them back. The answer is untrusted: sizes are limited, and text that should not be
there is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec
from pydantic_ai import messages as vendor
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from antiphon.host.model_catalogue import Model
from antiphon.host.providers.base import LONGEST_NAME, Completion, ProviderFailure, Usage, plain_names
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
from antiphon.wire.envelope import encode_value
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult, SamplingMessage
from antiphon.wire.tools import Tool, fit_schemas

_LONGEST_ID = 40
"""Most characters of the id of a use of a tool: OpenAI's limit."""

_MOST_CHARACTERS_PER_TOKEN = 32
"""More than any real text has on average; for services that report no usage and ignore ``max_tokens``."""
_LONGEST_MODEL_NAME = 200
"""Most characters of a model's name."""


class VendorRequest(NamedTuple):
    """What is passed to pydantic-ai."""

    messages: list[vendor.ModelMessage]
    settings: ModelSettings
    parameters: ModelRequestParameters
    names: Mapping[str, str]
    """The names of tools as sent, each with the server's name for it."""


class _Plain(NamedTuple):
    """Replacements for the names of tools and the ids of their uses."""

    names: Mapping[str, str]
    ids: Mapping[str, str]


def convert_request(params: CreateMessageRequestParams, model: Model) -> VendorRequest:
    """Convert a request for a model; raise ``ProviderFailure`` if vendors do not support something in it."""
    uses = [block for message in params.messages for block in message.blocks if isinstance(block, ToolUseContent)]
    plain = _Plain(
        names=_map_plain_names(
            [*(tool.name for tool in params.tools or ()), *(use.name for use in uses)], LONGEST_NAME
        ),
        ids=_map_plain_names([use.id for use in uses], _LONGEST_ID),
    )
    tools = [_convert_tool(tool, plain.names[tool.name]) for tool in params.tools or ()]
    return VendorRequest(
        _convert_messages(params, uses, plain),
        _make_settings(params, model),
        ModelRequestParameters(function_tools=tools),
        {sent: name for name, sent in plain.names.items()},
    )


def _map_plain_names(originals: Iterable[str], longest: int) -> dict[str, str]:
    """Map each name to one that every vendor accepts: itself, if possible."""
    names = list(dict.fromkeys(originals))
    return dict(zip(names, plain_names(names, longest), strict=True))


def _make_settings(params: CreateMessageRequestParams, model: Model) -> ModelSettings:
    # One attempt per call, because ``host.models`` retries, and knows the deadline and the reservation.
    settings = ModelSettings(max_tokens=min(params.max_tokens, model.max_output or params.max_tokens), max_retries=0)
    if params.temperature is not None:
        settings["temperature"] = params.temperature
    if params.stop_sequences:
        settings["stop_sequences"] = list(params.stop_sequences)
    if params.tools and params.tool_choice is not None and params.tool_choice.mode is not None:
        settings["tool_choice"] = params.tool_choice.mode
    return settings


def _convert_tool(tool: Tool, name: str) -> ToolDefinition:
    # Not strict: some vendors rewrite strict schemas, and the server's tool was written for its own schema.
    described, schema = tool.description or tool.title, fit_schemas(tool).input_schema
    return ToolDefinition(name=name, description=described, parameters_json_schema=schema, strict=False)


def _convert_messages(
    params: CreateMessageRequestParams, uses: Iterable[ToolUseContent], plain: _Plain
) -> list[vendor.ModelMessage]:
    names = {use.id: plain.names[use.name] for use in uses}
    translated: list[vendor.ModelMessage] = []
    first: list[vendor.ModelRequestPart] = (
        [vendor.SystemPromptPart(params.system_prompt)] if params.system_prompt else []
    )
    for message in params.messages:
        if message.role == "assistant":
            if first:
                translated.append(vendor.ModelRequest(parts=first))
            translated.append(vendor.ModelResponse(parts=[_convert_answer(block, plain) for block in message.blocks]))
        else:
            translated.append(vendor.ModelRequest(parts=[*first, *_convert_user_message(message, names, plain)]))
        first = []
    return translated


def _convert_user_message(
    message: SamplingMessage, names: Mapping[str, str], plain: _Plain
) -> Iterator[vendor.ModelRequestPart]:
    """Convert a message of the user: each tool result to a part of its own, all else to one prompt."""
    prompt: list[vendor.UserContent] = []
    for block in message.blocks:
        if isinstance(block, ToolResultContent):
            yield _convert_tool_result(block, names, plain)
        else:
            prompt.append(translate_block(block))
    if prompt:
        yield vendor.UserPromptPart(content=prompt[0] if len(prompt) == 1 and isinstance(prompt[0], str) else prompt)


def _convert_tool_result(block: ToolResultContent, names: Mapping[str, str], plain: _Plain) -> vendor.ToolReturnPart:
    contents = [translate_block(inner) for inner in block.content]
    if not contents and block.structured_content is not None:
        contents = [encode_value(block.structured_content).decode()]
    texts = [content for content in contents if isinstance(content, str)]
    return vendor.ToolReturnPart(
        # Validation has made sure that every result answers a use.
        tool_name=names.get(block.tool_use_id, "unknown"),
        content="\n".join(texts) if len(texts) == len(contents) else contents,
        tool_call_id=plain.ids.get(block.tool_use_id, block.tool_use_id),
        outcome="failed" if block.is_error else "success",
    )


def _convert_answer(block: SamplingContent, plain: _Plain) -> vendor.ModelResponsePart:
    if isinstance(block, TextContent):
        return vendor.TextPart(block.text)
    if isinstance(block, ToolUseContent):
        return vendor.ToolCallPart(plain.names[block.name], dict(block.input), tool_call_id=plain.ids[block.id])
    raise ProviderFailure("unsupported", "a message of the assistant holds what vendors take from the user only")


def translate_block(block: object) -> str | vendor.BinaryContent:
    """Convert a block of text, media or a resource; raise ``ProviderFailure`` if no model can be sent it."""
    if isinstance(block, TextContent):
        return block.text
    if isinstance(block, ImageContent | AudioContent):
        return _convert_media(block)
    if isinstance(block, ResourceLink):
        return f"[link to {block.uri}: {block.title or block.name}]"
    if isinstance(block, EmbeddedResource) and block.resource.text is not None:
        return f"[{block.resource.uri}]\n{block.resource.text}"
    raise ProviderFailure("unsupported", "the request holds a kind of content that cannot be sent to a model")


def _convert_media(block: ImageContent | AudioContent) -> vendor.BinaryContent:
    kind = block.mime_type.partition(";")[0].strip().lower()
    if not kind.startswith("image/" if isinstance(block, ImageContent) else "audio/"):
        raise ProviderFailure("unsupported", "media of another type than the block that holds it")
    try:
        return vendor.BinaryContent(block.bytes, media_type=kind)
    except ValueError:
        raise ProviderFailure("unsupported", "media that is not base64") from None


def convert_completion(
    response: vendor.ModelResponse, params: CreateMessageRequestParams, model: Model, names: Mapping[str, str]
) -> Completion:
    """Convert an answer. ``names``: the names of tools as they were sent, each with the server's own.

    Raises ``ProviderFailure`` if the model refused, or the answer cannot be used.
    """
    blocks = [block for part in response.parts if (block := _convert_block(part, names)) is not None]
    if response.finish_reason == "content_filter" and not blocks:
        raise ProviderFailure("refused", f"{model.provider}: the model, or a filter around it, refused")
    if response.finish_reason == "error" and not blocks:
        raise ProviderFailure("invalid", f"{model.provider}: the model gave up")
    length = sum(len(block.text) for block in blocks if isinstance(block, TextContent))
    allowed = _find_bound(response, length, params)
    kept = _cut_blocks(blocks, allowed)
    read, written = response.usage.input_tokens, response.usage.output_tokens
    return Completion(
        result=CreateMessageResult(
            role="assistant",
            content=kept[0] if len(kept) == 1 else kept,
            model=(response.model_name or model.model)[:_LONGEST_MODEL_NAME],
            stop_reason="maxTokens" if length > allowed else _stop_reason(response, kept),
        ),
        usage=Usage(input_tokens=read, output_tokens=written) if read or written else None,
        by=model.name,
    )


def _convert_block(part: object, names: Mapping[str, str]) -> SamplingContent | None:
    """Convert a part. Hidden reasoning is left out, because it is not part of the answer."""
    if isinstance(part, vendor.TextPart):
        return TextContent(text=part.content) if part.content else None
    if isinstance(part, vendor.ToolCallPart):
        try:
            arguments = part.args_as_dict(raise_if_invalid=True)
        except (ValueError, AssertionError):
            raise ProviderFailure("invalid", "the arguments of a tool use are not a JSON object") from None
        return ToolUseContent(id=part.tool_call_id, name=names.get(part.tool_name, part.tool_name), input=arguments)
    if isinstance(part, vendor.FilePart):
        kind = part.content.media_type
        if part.content.is_image:
            return ImageContent.of(part.content.data, kind)
        return AudioContent.of(part.content.data, kind) if part.content.is_audio else None
    return None


def _find_bound(response: vendor.ModelResponse, length: int, params: CreateMessageRequestParams) -> int:
    """Return how many of ``length`` characters ``max_tokens`` allows, if a service did not obey it."""
    visible = response.usage.output_tokens - int(response.usage.details.get("reasoning_tokens", 0))
    allowed = params.max_tokens * _MOST_CHARACTERS_PER_TOKEN
    if visible > params.max_tokens:
        allowed = min(allowed, length * params.max_tokens // visible)
    return allowed


def _cut_blocks(blocks: list[SamplingContent], characters: int) -> list[SamplingContent]:
    """Cut the text; tool uses stay complete."""
    kept: list[SamplingContent] = []
    for block in blocks:
        if isinstance(block, TextContent):
            text = block.text[: max(characters, 0)]
            characters -= len(text)
            if text:
                kept.append(msgspec.structs.replace(block, text=text))
        else:
            kept.append(block)
    return kept or [TextContent(text="")]


def _stop_reason(response: vendor.ModelResponse, blocks: list[SamplingContent]) -> str:
    """Return the stop reason in the protocol's terms, from the vendor's reason and the content."""
    raw = (response.provider_details or {}).get("finish_reason")
    if any(isinstance(block, ToolUseContent) for block in blocks):
        return "toolUse"
    if response.finish_reason == "length":
        return "maxTokens"
    if response.finish_reason == "content_filter":
        return "contentFilter"
    # Only Anthropic distinguishes the two.
    return "stopSequence" if raw == "stop_sequence" else "endTurn"
