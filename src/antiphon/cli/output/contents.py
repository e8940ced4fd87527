"""Content and resources as text for a terminal; binary data is described by kind and size."""

from __future__ import annotations

from collections.abc import Iterable

from antiphon.cli.output.formats import json_line
from antiphon.wire.content import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    ResourceContents,
    ResourceLink,
    TextContent,
)

__all__ = ["contents_text", "text_of_block", "text_of_blocks"]


def text_of_blocks(blocks: Iterable[object]) -> str:
    """Write blocks of content one below the other."""
    return "\n".join(text_of_block(block) for block in blocks)


def text_of_block(block: object) -> str:
    """Write one block of content."""
    if isinstance(block, TextContent):
        return block.text
    if isinstance(block, ImageContent | AudioContent):
        kind = "image" if isinstance(block, ImageContent) else "audio"
        return f"[{kind} {block.mime_type}, {_size(block.data)}]"
    if isinstance(block, ResourceLink):
        return f"[link to {block.uri}: {block.title or block.name}]"
    if isinstance(block, EmbeddedResource):
        return contents_text(block.resource)
    return json_line(block)


def contents_text(contents: ResourceContents) -> str:
    """Write the contents of a resource."""
    if contents.text is not None:
        return contents.text
    return f"[{contents.mime_type or 'binary data'}, {_size(contents.blob or '')}, {contents.uri}]"


def _size(base64: str) -> str:
    count = len(base64) * 3 // 4 - base64[-2:].count("=")
    return f"{count} byte{'' if count == 1 else 's'}"
