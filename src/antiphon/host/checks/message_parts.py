"""The parts of a sampling request or its answer: every block, text and piece of media, with its place.

Pure. A place is a path of wire names, such as ``messages[2].content[0].toolUseId``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from antiphon.wire import content
from antiphon.wire.envelope import encode_value
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult, SamplingMessage
from antiphon.wire.tools import CallToolResult

AnyBlock = content.SamplingContent | content.ContentBlock


class PlacedBlock(NamedTuple):
    """A block of content, and its place."""

    place: str
    block: AnyBlock


class Text(NamedTuple):
    """A text that a model would read, and its place. JSON values are given as encoded text."""

    place: str
    text: str


class Binary(NamedTuple):
    """Base64 data, and its place."""

    place: str
    data: str
    mime_type: str
    playable: bool
    """Whether a model would see or hear it: an image or audio, not the blob of a resource."""


_DRAWN: dict[type, tuple[str, ...]] = {
    content.TextContent: ("text",),
    content.ImageContent: ("data", "mimeType"),
    content.AudioContent: ("data", "mimeType"),
    content.ToolUseContent: ("id", "name", "input"),
    content.ToolResultContent: ("toolUseId", "content", "structuredContent", "isError"),
    content.EmbeddedResource: ("uri", "mimeType", "text", "blob"),
    SamplingMessage: ("role", "content"),
    CreateMessageResult: ("role", "content", "model", "stopReason"),
}
"""The members of a block or message that every reviewer displays in a form of its own; for a resource, by its block."""


def more_of(value: AnyBlock | SamplingMessage | CreateMessageResult) -> dict[str, Any]:
    """Return the members of a block or a message that are not displayed in a form of their own, as plain JSON.

    They are sent as well, so they must be shown as well: annotations, titles, icons, ``_meta``.
    """
    drawn = _DRAWN.get(type(value))
    if drawn is None:
        return {}
    found: dict[str, Any] = msgspec.json.decode(encode_value(value))
    resource: dict[str, Any] = found.pop("resource", {}) if isinstance(value, content.EmbeddedResource) else {}
    inner = {name: member for name, member in resource.items() if name not in drawn}
    outer = {name: member for name, member in found.items() if name not in (*drawn, "type", "resultType")}
    return {**outer, "resource": inner} if inner else outer


class Leaf(NamedTuple):
    """A decoded text anywhere in a message, and its place."""

    place: str
    text: str
    name: str = ""
    """Name of the member whose value it is; empty in a list."""
    is_name: bool = False
    """Whether the text is itself the name of a member."""


def list_leaves(value: msgspec.Struct | msgspec.Raw) -> Iterator[Leaf]:
    """Yield every text of a message after decoding, including names of members, without the base64 data of blocks.

    Texts are examined one by one and never as encoded JSON, in which a line end is two characters, one of them a
    letter.
    """
    return _list_leaves("", "", msgspec.json.decode(encode_value(value)), _data_of(value))


def rewrite_texts(value: msgspec.Struct | msgspec.Raw, change: Callable[[Leaf], str]) -> Any:
    """Return a message as plain JSON, with every text that ``list_leaves`` yields replaced by the function's result."""
    return _rewrite_value("", "", msgspec.json.decode(encode_value(value)), _data_of(value), change)


def _data_of(value: msgspec.Struct | msgspec.Raw) -> frozenset[str]:
    """Return the places of base64 data. Found by the type of the block, since any member may be called ``data``."""
    if isinstance(value, CreateMessageRequestParams | CreateMessageResult | CallToolResult):
        return frozenset(binary.place for binary in list_binaries(value))
    return frozenset()


def _list_leaves(place: str, name: str, value: Any, data: frozenset[str]) -> Iterator[Leaf]:
    if isinstance(value, str):
        if place not in data:
            yield Leaf(place, value, name)
    elif isinstance(value, dict):
        for member, inner in cast("dict[str, Any]", value).items():
            where = f"{place}.{member}" if place else member
            yield Leaf(where, member, is_name=True)
            yield from _list_leaves(where, member, inner, data)
    elif isinstance(value, list):
        for at, inner in enumerate(cast("list[Any]", value)):
            yield from _list_leaves(f"{place}[{at}]", "", inner, data)


def _rewrite_value(place: str, name: str, value: Any, data: frozenset[str], change: Callable[[Leaf], str]) -> Any:
    if isinstance(value, str):
        return value if place in data else change(Leaf(place, value, name))
    if isinstance(value, list):
        items = enumerate(cast("list[Any]", value))
        return [_rewrite_value(f"{place}[{at}]", "", item, data, change) for at, item in items]
    if not isinstance(value, dict):
        return value
    made: dict[str, Any] = {}
    for member, inner in cast("dict[str, Any]", value).items():
        where = f"{place}.{member}" if place else member
        called = change(Leaf(where, member, is_name=True))
        # Two names may become equal; both members must be kept.
        called = called if called not in made else f"{called} {len(made)}"
        made[called] = _rewrite_value(where, member, inner, data, change)
    return made


def message_blocks(message: SamplingMessage | CreateMessageResult, place: str) -> list[PlacedBlock]:
    """Return the blocks of one message; ``place`` is that of the message, empty for an answer."""
    path = f"{place}.content" if place else "content"
    if not isinstance(message.content, Sequence):
        return [PlacedBlock(path, message.content)]
    return [PlacedBlock(f"{path}[{at}]", block) for at, block in enumerate(message.content)]


def list_blocks(asked: CreateMessageRequestParams | CreateMessageResult | CallToolResult) -> Iterator[PlacedBlock]:
    """Yield every block; those inside a tool result follow after the result."""
    if isinstance(asked, CallToolResult):
        yield from (PlacedBlock(f"content[{at}]", block) for at, block in enumerate(asked.content))
        return
    placed_messages = (
        [("", asked)]
        if isinstance(asked, CreateMessageResult)
        else [(f"messages[{at}]", message) for at, message in enumerate(asked.messages)]
    )
    for place, message in placed_messages:
        for placed in message_blocks(message, place):
            yield placed
            if isinstance(placed.block, content.ToolResultContent):
                for at, inner in enumerate(placed.block.content):
                    yield PlacedBlock(f"{placed.place}.content[{at}]", inner)


def list_texts(asked: CreateMessageRequestParams | CreateMessageResult) -> Iterator[Text]:
    """Yield every text: system prompt, messages, tools with their schemas, stop sequences, metadata."""
    if isinstance(asked, CreateMessageRequestParams):
        if asked.system_prompt is not None:
            yield Text("systemPrompt", asked.system_prompt)
        for at, tool in enumerate(asked.tools or ()):
            yield Text(f"tools[{at}]", _encode_json(tool))
        for at, stop in enumerate(asked.stop_sequences or ()):
            yield Text(f"stopSequences[{at}]", stop)
        if asked.metadata:
            yield Text("metadata", _encode_json(asked.metadata))
    for place, block in list_blocks(asked):
        yield from _block_texts(place, block)


def list_binaries(asked: CreateMessageRequestParams | CreateMessageResult | CallToolResult) -> Iterator[Binary]:
    """Yield every piece of base64 data."""
    for place, block in list_blocks(asked):
        if isinstance(block, content.ImageContent | content.AudioContent):
            yield Binary(f"{place}.data", block.data, block.mime_type, True)
        elif isinstance(block, content.EmbeddedResource) and block.resource.blob is not None:
            mime_type = block.resource.mime_type or "application/octet-stream"
            yield Binary(f"{place}.resource.blob", block.resource.blob, mime_type, False)


def _block_texts(place: str, block: AnyBlock) -> Iterator[Text]:
    if isinstance(block, content.TextContent):
        yield Text(f"{place}.text", block.text)
    elif isinstance(block, content.ToolUseContent):
        yield Text(f"{place}.name", block.name)
        yield Text(f"{place}.input", _encode_json(block.input))
    elif isinstance(block, content.ToolResultContent):
        if block.structured_content is not None:
            yield Text(f"{place}.structuredContent", _encode_json(block.structured_content))
    elif isinstance(block, content.ResourceLink):
        yield Text(place, _encode_json(block))
    elif isinstance(block, content.EmbeddedResource):
        yield Text(f"{place}.resource.uri", block.resource.uri)
        yield Text(f"{place}.resource.text", block.resource.text or "")


def _encode_json(value: object) -> str:
    return encode_value(value).decode("utf-8", "replace")
