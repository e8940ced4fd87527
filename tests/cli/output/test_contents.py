from __future__ import annotations

from antiphon.cli.output.contents import contents_text, text_of_blocks
from antiphon.wire.content import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    ResourceContents,
    ResourceLink,
    TextContent,
    UnknownContent,
)


def test_blocks_are_written_one_below_the_other():
    """Text as it is, everything else by kind and size."""
    blocks = [
        TextContent(text="a\nb"),
        ImageContent.of(b"1234", "image/png"),
        AudioContent.of(b"1", "audio/wav"),
        ResourceLink(uri="x://y", name="why"),
        EmbeddedResource(resource=ResourceContents.of("x://z", "inside")),
        UnknownContent("hologram", {"depth": 3}),
    ]
    assert text_of_blocks(blocks).splitlines() == [
        "a",
        "b",
        "[image image/png, 4 bytes]",
        "[audio audio/wav, 1 byte]",
        "[link to x://y: why]",
        "inside",
        '{"type":"hologram","depth":3}',
    ]


def test_binary_contents_are_named():
    """With their address and size."""
    assert contents_text(ResourceContents.of("x://y", b"12345")) == "[binary data, 5 bytes, x://y]"
    assert contents_text(ResourceContents.of("x://y", "text")) == "text"
