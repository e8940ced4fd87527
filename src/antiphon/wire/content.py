"""Blocks of content: text, images, audio, resources, and the tool uses and results of sampling.

Binary data stays base64 text, as on the wire; ``of`` encodes and ``.bytes`` decodes it. ``envelope.decode`` puts blocks
of unknown types into decoded messages.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from msgspec import field

from antiphon.wire.common import Annotations, Icon, Meta, Wire


class Block(Wire, frozen=True, kw_only=True, tag_field="type"):
    """Base of all blocks of content; the ``type`` member tells them apart."""


class TextContent(Block, frozen=True, kw_only=True, tag="text"):
    """Text, from or for a model."""

    text: str
    annotations: Annotations | None = None
    meta: Meta | None = field(name="_meta", default=None)

    @classmethod
    def of(cls, text: str) -> Self:
        """Make a block of plain text.

        Args:
            text: the text.
        """
        return cls(text=text)


class _Binary(Block, frozen=True, kw_only=True):
    data: str
    """Base64 (RFC 4648, section 4)."""
    mime_type: str
    annotations: Annotations | None = None
    meta: Meta | None = field(name="_meta", default=None)

    @classmethod
    def of(cls, data: bytes, mime_type: str) -> Self:
        """Make a block of binary data.

        Args:
            data: the data, before any encoding.
            mime_type: media type, such as ``"image/png"``.
        """
        return cls(data=_to_base64(data), mime_type=mime_type)

    @property
    def bytes(self) -> bytes:
        """The decoded data. Raises ``ValueError`` if it is not base64."""
        return _from_base64(self.data)


class ImageContent(_Binary, frozen=True, kw_only=True, tag="image"):
    """An image."""


class AudioContent(_Binary, frozen=True, kw_only=True, tag="audio"):
    """Audio (from 2025-03-26)."""


class ResourceDescription(Wire, frozen=True, kw_only=True):
    """What a server says of a resource that can be read, in its list and in links."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    """Size in bytes, before any encoding."""
    annotations: Annotations | None = None
    icons: Sequence[Icon] | None = None
    meta: Meta | None = field(name="_meta", default=None)


class ResourceLink(Block, ResourceDescription, frozen=True, kw_only=True, tag="resource_link"):
    """A resource that the client may read; it need not be in the server's list (from 2025-06-18)."""


class ResourceContents(Wire, frozen=True, kw_only=True):
    """The contents of a resource: either ``text`` or ``blob``.

    This is ``TextResourceContents`` and ``BlobResourceContents`` of the schema in one type, since only their members
    tell them apart.
    """

    uri: str
    mime_type: str | None = None
    text: str | None = None
    blob: str | None = None
    """Base64 (RFC 4648, section 4)."""
    meta: Meta | None = field(name="_meta", default=None)

    def __post_init__(self) -> None:
        if (self.text is None) == (self.blob is None):
            raise ValueError("Resource contents need either text or blob")

    @classmethod
    def of(cls, uri: str, data: str | bytes, mime_type: str | None = None) -> Self:
        """Make the contents of a resource from text or binary data.

        Args:
            uri: URI of the resource.
            data: text, or bytes before any encoding.
            mime_type: media type; none by default.
        """
        if isinstance(data, str):
            return cls(uri=uri, text=data, mime_type=mime_type)
        return cls(uri=uri, blob=_to_base64(data), mime_type=mime_type)

    @property
    def bytes(self) -> bytes:
        """The contents as bytes (text as UTF-8). Raises ``ValueError`` if a blob is not base64."""
        return self.text.encode() if self.text is not None else _from_base64(self.blob or "")


class UnknownContent:
    """A block of content of an unknown type, written back as received.

    It is not a ``Wire`` type: ``envelope.decode`` makes it, and ``envelope.encode`` writes its ``__wire__``.

    Args:
        type: the block's ``type``.
        fields: all other members, as plain JSON.
    """

    __slots__ = ("fields", "type")

    def __init__(self, type: str, fields: dict[str, Any]) -> None:
        self.type = type
        self.fields = fields
        """All members except ``type``, as plain JSON."""

    @property
    def __wire__(self) -> dict[str, Any]:
        return {"type": self.type, **self.fields}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnknownContent) and self.__wire__ == other.__wire__

    def __hash__(self) -> int:
        return hash(self.type)

    def __repr__(self) -> str:
        return f"UnknownContent(type={self.type!r}, fields={self.fields!r})"


class EmbeddedResource(Block, frozen=True, kw_only=True, tag="resource"):
    """A resource together with its contents."""

    resource: ResourceContents
    annotations: Annotations | None = None
    meta: Meta | None = field(name="_meta", default=None)


if TYPE_CHECKING:
    ContentBlock = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource | UnknownContent
else:
    # A decoder accepts only types that it can tell apart; ``envelope.decode`` puts unknown blocks in.
    ContentBlock = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource


class ToolUseContent(Block, frozen=True, kw_only=True, tag="tool_use"):
    """The model wants to call a tool (sampling from 2025-11-25; only in messages of the assistant)."""

    id: str
    name: str
    input: Mapping[str, Any]
    meta: Meta | None = field(name="_meta", default=None)


class ToolResultContent(Block, frozen=True, kw_only=True, tag="tool_result"):
    """What a tool returned (sampling from 2025-11-25; only in messages of the user, which then hold nothing else)."""

    tool_use_id: str
    content: Sequence[ContentBlock]
    structured_content: Any = None
    is_error: bool = False
    meta: Meta | None = field(name="_meta", default=None)

    @property
    def text(self) -> str:
        """All blocks of text, joined by newlines."""
        return text_of(self.content)


if TYPE_CHECKING:
    SamplingContent = TextContent | ImageContent | AudioContent | ToolUseContent | ToolResultContent | UnknownContent
else:
    SamplingContent = TextContent | ImageContent | AudioContent | ToolUseContent | ToolResultContent


def text_of(blocks: Iterable[object]) -> str:
    """Join the text of all text blocks by newlines."""
    return "\n".join([block.text for block in blocks if isinstance(block, TextContent)])


def _to_base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _from_base64(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except ValueError as error:
        raise ValueError(f"Not base64: {error}") from None
