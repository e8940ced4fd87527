"""A vendor's answer as the result of a sampling request, with its usage.

The answer is untrusted: sizes are limited, and text that should not be there is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec
from pydantic_ai.messages import FilePart, ModelResponse, TextPart, ToolCallPart

from antiphon.host.catalogue import Model
from antiphon.host.providers.base import Completion, ProviderFailure, Usage
from antiphon.wire.content import AudioContent, ImageContent, SamplingContent, TextContent, ToolUseContent
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult

__all__ = ["completion"]

_MOST_CHARACTERS_PER_TOKEN = 32
"""More than any real text has on average; for services that report no usage and ignore ``max_tokens``."""
_LONGEST_NAME = 200
"""Most characters of a model's name."""


class _Bound(NamedTuple):
    """How much text may be passed on."""

    characters: int
    is_cut: bool


def completion(
    response: ModelResponse, params: CreateMessageRequestParams, model: Model, names: Mapping[str, str]
) -> Completion:
    """Convert an answer. ``names``: the names of tools as they were sent, each with the server's own.

    Raises:
        ProviderFailure: the model refused, or the answer cannot be used.
    """
    blocks = [block for part in response.parts if (block := _block(part, names)) is not None]
    if response.finish_reason == "content_filter" and not blocks:
        raise ProviderFailure("refused", f"{model.provider}: the model, or a filter around it, refused")
    if response.finish_reason == "error" and not blocks:
        raise ProviderFailure("invalid", f"{model.provider}: the model gave up")
    bound = _bound(response, blocks, params)
    kept = _within(blocks, bound.characters)
    return Completion(
        result=CreateMessageResult(
            role="assistant",
            content=kept[0] if len(kept) == 1 else kept,
            model=(response.model_name or model.model)[:_LONGEST_NAME],
            stop_reason="maxTokens" if bound.is_cut else _stop_reason(response, kept),
        ),
        usage=_usage(response),
        by=model.name,
    )


def _block(part: object, names: Mapping[str, str]) -> SamplingContent | None:
    """Convert a part. Hidden reasoning is left out, because it is not part of the answer."""
    if isinstance(part, TextPart):
        return TextContent(text=part.content) if part.content else None
    if isinstance(part, ToolCallPart):
        try:
            arguments = part.args_as_dict(raise_if_invalid=True)
        except (ValueError, AssertionError):
            raise ProviderFailure("invalid", "the arguments of a tool use are not a JSON object") from None
        return ToolUseContent(id=part.tool_call_id, name=names.get(part.tool_name, part.tool_name), input=arguments)
    if isinstance(part, FilePart):
        kind = part.content.media_type
        if part.content.is_image:
            return ImageContent.of(part.content.data, kind)
        return AudioContent.of(part.content.data, kind) if part.content.is_audio else None
    return None


def _bound(response: ModelResponse, blocks: list[SamplingContent], params: CreateMessageRequestParams) -> _Bound:
    """Return how much text ``max_tokens`` allows, if a service did not obey it."""
    length = sum(len(block.text) for block in blocks if isinstance(block, TextContent))
    visible = response.usage.output_tokens - int(response.usage.details.get("reasoning_tokens", 0))
    allowed = params.max_tokens * _MOST_CHARACTERS_PER_TOKEN
    if visible > params.max_tokens:
        allowed = min(allowed, length * params.max_tokens // visible)
    return _Bound(allowed, length > allowed)


def _within(blocks: list[SamplingContent], characters: int) -> list[SamplingContent]:
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


def _stop_reason(response: ModelResponse, blocks: list[SamplingContent]) -> str:
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


def _usage(response: ModelResponse) -> Usage | None:
    counted = Usage(
        input_tokens=max(response.usage.input_tokens, 0), output_tokens=max(response.usage.output_tokens, 0)
    )
    return counted if counted.input_tokens or counted.output_tokens else None
