"""What a server sent, in files."""

from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.cli.output.formats import Failed
from antiphon.cli.output.output_files import OutputPart, format_blocks, format_contents, parts_of, save_parts
from antiphon.wire.content import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    ResourceContents,
    ResourceLink,
    TextContent,
    UnknownContent,
)


def test_what_holds_data_can_be_saved():
    """A link holds none."""
    blocks = [
        TextContent(text="text"),
        ImageContent.of(b"\x89PNG", "image/png"),
        AudioContent.of(b"RIFF", "audio/wav"),
        EmbeddedResource(resource=ResourceContents(uri="x://y", text="inner", mime_type="text/html")),
        ResourceLink(uri="x://z", name="z"),
    ]
    assert parts_of(blocks) == [
        OutputPart(b"text", "text/plain"),
        OutputPart(b"\x89PNG", "image/png"),
        OutputPart(b"RIFF", "audio/wav"),
        OutputPart(b"inner", "text/html"),
    ]


def test_files_in_a_folder_have_names_of_ours(tmp_path: Path):
    """A number and what the kind is called; never anything of the server's."""
    kinds = ("image/png", "text/x-../../odd", None, "../../etc/passwd", "text/plain; charset=utf-8")
    files = save_parts([OutputPart(b"x", kind) for kind in kinds], tmp_path)
    assert [file.name for file in files] == ["1.png", "2.txt", "3.bin", "4.bin", "5.txt"]
    assert all(file.parent == tmp_path for file in files)


@pytest.mark.parametrize("count", [0, 2])
def test_one_file_holds_one_part(count: int, tmp_path: Path):
    """Nothing is written otherwise."""
    with pytest.raises(Failed) as failed:
        save_parts([OutputPart(b"x", None)] * count, tmp_path / "one")
    assert failed.value.code == 2
    assert not (tmp_path / "one").exists()


def test_a_file_for_which_there_is_no_room_is_named():
    """The error of the system does not name it."""
    with pytest.raises(Failed, match=r"^/dev/full: No space left on device$"):
        save_parts([OutputPart(b"data", "text/plain")], Path("/dev/full"))


def test_data_that_is_none_is_told():
    """By its kind, or by where it is."""
    with pytest.raises(Failed, match="image/png: "):
        parts_of([ImageContent(data="?", mime_type="image/png")])


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
    assert format_blocks(blocks).splitlines() == [
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
    assert format_contents(ResourceContents.of("x://y", b"12345")) == "[binary data, 5 bytes, x://y]"
    assert format_contents(ResourceContents.of("x://y", "text")) == "text"
