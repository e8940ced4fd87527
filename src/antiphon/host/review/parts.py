"""The messages of a request or an answer, part by part in reading order; nothing that is sent is left out.

Pure. A ``label`` is a key of the catalogues; the surface makes texts inert.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import msgspec

from antiphon.host.checks.contents import Placed, message_blocks, more_of
from antiphon.host.checks.risk import Risk, holds_secret, secret_spots
from antiphon.host.review.diff import pretty
from antiphon.wire.content import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    ToolResultContent,
    ToolUseContent,
)
from antiphon.wire.envelope import encode
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult, SamplingMessage

__all__ = ["Part", "Turn", "facts_of", "turn_of"]

PartKind = Literal["text", "json", "image", "audio", "note"]


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a message."""

    kind: PartKind
    text: str = ""
    label: str = ""
    name: str = ""
    media: int = 0
    """Index of its media in the request."""
    nested: bool = False
    place: str = ""
    """Its place in the request, in wire names; empty if it has no place of its own."""
    spots: tuple[tuple[int, int], ...] = ()
    """The ranges of its text that look like secrets: first character, and the one after the last."""
    remarkable: bool = False
    """Whether it contains a secret that cannot be highlighted, because its values are displayed in another form."""


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One message."""

    role: str
    parts: tuple[Part, ...]


def turn_of(
    message: SamplingMessage | CreateMessageResult, numbers: Iterator[int], place: str, risks: Sequence[Risk]
) -> Turn:
    """Convert one message. ``numbers`` counts its media; ``place`` is its place; ``risks`` refer to places in it."""
    parts = [*_parts(message_blocks(message, place), numbers), *_more(message)]
    return Turn(role=message.role, parts=tuple(_pointed(part, risks) for part in parts))


def _pointed(part: Part, risks: Sequence[Risk]) -> Part:
    if not part.place:
        return part
    if part.kind == "text":
        return msgspec.structs.replace(part, spots=secret_spots(risks, part.place))
    return msgspec.structs.replace(part, remarkable=holds_secret(risks, part.place))


def _more(value: Any, *, nested: bool = False) -> Iterator[Part]:
    """Yield the members that are sent and have no display of their own."""
    more = more_of(value)
    if more:
        yield Part(kind="json", label="part.more", text=pretty(more), nested=nested)


def _parts(blocks: Iterable[Placed], numbers: Iterator[int], *, nested: bool = False) -> Iterator[Part]:
    for place, block in blocks:
        if isinstance(block, TextContent):
            yield Part(kind="text", text=block.text, nested=nested, place=f"{place}.text")
        elif isinstance(block, ImageContent | AudioContent):
            kind = "image" if isinstance(block, ImageContent) else "audio"
            yield Part(kind=kind, name=block.mime_type, media=next(numbers), nested=nested)
        elif isinstance(block, ToolUseContent):
            name, text = f"{block.name} ({block.id})", pretty(block.input)
            yield Part(kind="json", label="part.use", name=name, text=text, nested=nested, place=f"{place}.input")
        elif isinstance(block, ToolResultContent):
            yield from _result_parts(place, block, numbers)
        else:
            yield from _resource_parts(place, block, numbers, nested=nested)
        yield from _more(block, nested=nested)


def _result_parts(place: str, block: ToolResultContent, numbers: Iterator[int]) -> Iterator[Part]:
    label = "part.failure" if block.is_error else "part.result"
    yield Part(kind="note", label=label, name=block.tool_use_id)
    inner = (Placed(f"{place}.content[{at}]", each) for at, each in enumerate(block.content))
    yield from _parts(inner, numbers, nested=True)
    if block.structured_content is not None:
        text, place = pretty(block.structured_content), f"{place}.structuredContent"
        yield Part(kind="json", label="part.structured", text=text, nested=True, place=place)


def _resource_parts(place: str, block: object, numbers: Iterator[int], *, nested: bool) -> Iterator[Part]:
    if isinstance(block, ResourceLink):
        yield Part(kind="json", label="part.link", name=block.uri, text=pretty(block), nested=nested, place=place)
    elif isinstance(block, EmbeddedResource):
        resource = block.resource
        name = f"{resource.uri} ({resource.mime_type})" if resource.mime_type else resource.uri
        if resource.text is not None:
            place = f"{place}.resource.text"
            yield Part(kind="text", label="part.resource", name=name, text=resource.text, nested=nested, place=place)
        else:
            next(numbers)
            size = f"{len(resource.blob or '') * 3 // 4:,} B"
            yield Part(kind="note", label="part.blob", name=f"{name}, {size}", nested=nested)
    else:
        yield Part(kind="json", label="part.unknown", text=pretty(block), nested=nested, place=place)


def facts_of(params: CreateMessageRequestParams) -> Iterator[tuple[str, str]]:
    """Yield the remaining members of a request, each with its label."""
    yield "fact.max_tokens", str(params.max_tokens)
    if params.temperature is not None:
        yield "fact.temperature", str(params.temperature)
    if params.stop_sequences:
        yield "fact.stop", _compact(params.stop_sequences)
    if params.tool_choice and params.tool_choice.mode:
        yield "fact.tool_choice", params.tool_choice.mode
    wishes = params.model_preferences
    if wishes and wishes.hints:
        yield "fact.hints", _compact([hint.name for hint in wishes.hints])
    if wishes:
        weights = {"cost": wishes.cost_priority, "speed": wishes.speed_priority, "mind": wishes.intelligence_priority}
        for name, weight in weights.items():
            if weight is not None:
                yield f"fact.{name}", str(weight)
    if params.metadata:
        yield "fact.metadata", _compact(params.metadata)
    if params.meta is not None:
        yield "fact.meta", _compact(params.meta)


def _compact(value: object) -> str:
    return encode(value).decode("utf-8", "replace")
