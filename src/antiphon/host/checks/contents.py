"""What is in a sampling request or its answer: every block, text and piece of media, each with its place.

Pure walking, no judgement. A place is a path by wire names, such as ``messages[2].content[0].toolUseId``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from antiphon.wire.content import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    SamplingContent,
    TextContent,
    ToolResultContent,
    ToolUseContent,
)
from antiphon.wire.envelope import encode
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult, SamplingMessage

__all__ = ["Binary", "Placed", "Text", "binaries", "blocks", "message_blocks", "texts"]

AnyBlock = SamplingContent | ContentBlock


class Placed(NamedTuple):
    """A block of content and where it is."""

    place: str
    block: AnyBlock


class Text(NamedTuple):
    """A text that a model would read, and where it is. JSON values are their encoded text."""

    place: str
    text: str


class Binary(NamedTuple):
    """Base64 data, and where it is."""

    place: str
    data: str
    mime_type: str
    playable: bool
    """Whether a model would look at it or listen to it: an image or sound, not the blob of a resource."""


def message_blocks(message: SamplingMessage | CreateMessageResult, place: str) -> list[Placed]:
    """Return the blocks of one message; ``place`` is that of the message, empty for an answer."""
    path = f"{place}.content" if place else "content"
    if not isinstance(message.content, Sequence):
        return [Placed(path, message.content)]
    return [Placed(f"{path}[{at}]", block) for at, block in enumerate(message.content)]


def blocks(asked: CreateMessageRequestParams | CreateMessageResult) -> Iterator[Placed]:
    """Yield every block, those inside tool results after the result that holds them."""
    messages = [("", asked)] if isinstance(asked, CreateMessageResult) else _messages(asked)
    for place, message in messages:
        for placed in message_blocks(message, place):
            yield placed
            if isinstance(placed.block, ToolResultContent):
                for at, inner in enumerate(placed.block.content):
                    yield Placed(f"{placed.place}.content[{at}]", inner)


def texts(asked: CreateMessageRequestParams | CreateMessageResult) -> Iterator[Text]:
    """Yield every text: system prompt, messages, tools with their schemas, stop sequences, metadata."""
    if isinstance(asked, CreateMessageRequestParams):
        if asked.system_prompt is not None:
            yield Text("systemPrompt", asked.system_prompt)
        yield from _tool_texts(asked)
    for place, block in blocks(asked):
        yield from _block_texts(place, block)


def binaries(asked: CreateMessageRequestParams | CreateMessageResult) -> Iterator[Binary]:
    """Yield every piece of base64 data."""
    for place, block in blocks(asked):
        if isinstance(block, ImageContent | AudioContent):
            yield Binary(f"{place}.data", block.data, block.mime_type, True)
        elif isinstance(block, EmbeddedResource) and block.resource.blob is not None:
            mime_type = block.resource.mime_type or "application/octet-stream"
            yield Binary(f"{place}.resource.blob", block.resource.blob, mime_type, False)


def _messages(params: CreateMessageRequestParams) -> list[tuple[str, SamplingMessage]]:
    return [(f"messages[{at}]", message) for at, message in enumerate(params.messages)]


def _tool_texts(params: CreateMessageRequestParams) -> Iterator[Text]:
    for at, tool in enumerate(params.tools or ()):
        yield Text(f"tools[{at}]", _json(tool))
    for at, stop in enumerate(params.stop_sequences or ()):
        yield Text(f"stopSequences[{at}]", stop)
    if params.metadata:
        yield Text("metadata", _json(params.metadata))


def _block_texts(place: str, block: AnyBlock) -> Iterator[Text]:
    if isinstance(block, TextContent):
        yield Text(f"{place}.text", block.text)
    elif isinstance(block, ToolUseContent):
        yield Text(f"{place}.name", block.name)
        yield Text(f"{place}.input", _json(block.input))
    elif isinstance(block, ToolResultContent):
        if block.structured_content is not None:
            yield Text(f"{place}.structuredContent", _json(block.structured_content))
    elif isinstance(block, ResourceLink):
        yield Text(place, _json(block))
    elif isinstance(block, EmbeddedResource):
        yield Text(f"{place}.resource.uri", block.resource.uri)
        yield Text(f"{place}.resource.text", block.resource.text or "")


def _json(value: object) -> str:
    return encode(value).decode("utf-8", "replace")
