"""Blocks of content."""

from __future__ import annotations

import msgspec
import pytest

from antiphon.wire.content import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceContents,
    ResourceLink,
    SamplingContent,
    TextContent,
    ToolResultContent,
    ToolUseContent,
    UnknownContent,
    text_of,
)
from antiphon.wire.envelope import decode_wire, encode_value

BLOCKS = [
    TextContent.of("hi"),
    ImageContent.of(b"\x00\xff", "image/png"),
    AudioContent.of(b"la", "audio/wav"),
    ResourceLink(uri="a:b", name="b", size=3),
    EmbeddedResource(resource=ResourceContents.of("a:b", "text", "text/plain")),
]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: type(block).__name__)
def test_blocks_are_told_apart_by_their_type(block):
    """Each comes back as what it was."""
    assert decode_wire(encode_value(block), ContentBlock) == block


@pytest.mark.parametrize(
    "block", [ToolUseContent(id="1", name="t", input={"a": 1}), ToolResultContent(tool_use_id="1", content=BLOCKS)]
)
def test_tool_blocks_belong_to_sampling(block):
    """They come back there, and are no content of a tool's result."""
    assert decode_wire(encode_value(block), SamplingContent) == block
    assert isinstance(decode_wire(encode_value(block), ContentBlock), UnknownContent)


@pytest.mark.parametrize("kind", [ImageContent, AudioContent])
def test_binary_data_is_base64(kind):
    """``of`` encodes, ``bytes`` decodes."""
    block = kind.of(bytes(range(256)), "x/y")
    assert block.data.isascii()
    assert block.bytes == bytes(range(256))


@pytest.mark.parametrize("bad", ["a", "a b=", "é===", "YQ", "Y\nQ=="])
def test_what_is_not_base64_is_found_when_it_is_read(bad):
    """The message decodes; only its data does not."""
    block = decode_wire(encode_value(ImageContent(data=bad, mime_type="image/png")), ContentBlock)
    with pytest.raises(ValueError, match="base64"):
        assert block.bytes


def test_resource_contents_are_text_or_blob():
    """Both are read as bytes."""
    assert encode_value(ResourceContents.of("a:b", "é")) == '{"uri":"a:b","text":"é"}'.encode()
    assert encode_value(ResourceContents.of("a:b", b"hi", "x/y")) == b'{"uri":"a:b","mimeType":"x/y","blob":"aGk="}'
    assert ResourceContents.of("a:b", "é").bytes == "é".encode()
    assert ResourceContents.of("a:b", b"hi").bytes == b"hi"


def test_empty_text_and_empty_blob_are_contents():
    """Empty is not absent."""
    assert encode_value(ResourceContents.of("a:b", "")) == b'{"uri":"a:b","text":""}'
    assert decode_wire(b'{"uri":"a:b","blob":""}', ResourceContents).bytes == b""


@pytest.mark.parametrize("data", [b'{"uri":"a:b"}', b'{"uri":"a:b","text":"x","blob":"eA=="}'])
def test_resource_contents_are_exactly_one(data):
    """Neither, or both, is an error that says so."""
    with pytest.raises(msgspec.ValidationError, match="either text or blob"):
        decode_wire(data, ResourceContents)


def test_text_of_blocks():
    """Text is joined by newlines, the rest is passed over."""
    assert text_of([TextContent.of("a"), *BLOCKS[1:], TextContent.of("b")]) == "a\nb"
    assert text_of([]) == ""
    assert ToolResultContent(tool_use_id="1", content=[TextContent.of("a")]).text == "a"


def test_a_block_needs_what_it_needs():
    """Known content that does not fit is an error, not unknown content."""
    with pytest.raises(msgspec.ValidationError, match="text"):
        decode_wire(b'{"type":"text"}', ContentBlock)


def test_unknown_content_has_value_and_shape():
    """It can be compared and read."""
    one = UnknownContent("x", {"a": 1})
    assert one == UnknownContent("x", {"a": 1})
    assert one != UnknownContent("x", {"a": 2})
    assert one != "x"
    assert hash(one) == hash(UnknownContent("x", {}))
    assert "type='x'" in repr(one)
