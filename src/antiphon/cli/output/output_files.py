"""Content that a server sent: as text for a terminal, and written to one file, or to one per part in a folder.

Owns the names of these files, which a server never chooses. On a terminal, binary data is described by kind and size.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

from antiphon.cli.output.formats import WRONG_USAGE, Failed, json_line
from antiphon.wire import content

Output = Annotated[
    Path | None, "--output, -o PATH: Write the contents to this file; or, if it is a folder, each part to a file in it."
]


class OutputPart(NamedTuple):
    """One part that can be written to a file."""

    data: bytes
    mime_type: str | None


def parts_of(blocks: Iterable[object]) -> list[OutputPart]:
    """Return the parts of a result that can be written to files: texts, images, audio and embedded resources."""
    parts: list[OutputPart] = []
    for block in blocks:
        if isinstance(block, content.TextContent):
            parts.append(OutputPart(block.text.encode("utf-8", "surrogatepass"), "text/plain"))
        elif isinstance(block, content.ImageContent | content.AudioContent):
            parts.append(OutputPart(data_of(block), block.mime_type))
        elif isinstance(block, content.EmbeddedResource):
            parts.append(part_of(block.resource))
    return parts


def part_of(contents: content.ResourceContents) -> OutputPart:
    """Return the contents of a resource as a part."""
    return OutputPart(data_of(contents), contents.mime_type or (None if contents.text is None else "text/plain"))


def data_of(holder: content.ImageContent | content.AudioContent | content.ResourceContents) -> bytes:
    """Return the bytes of a block or resource. Raises ``Failed``: its data is not base64."""
    try:
        return holder.bytes
    except ValueError as error:
        place = holder.uri if isinstance(holder, content.ResourceContents) else holder.mime_type
        raise Failed(f"{place}: {error}") from None


def save_parts(parts: Sequence[OutputPart], output: Path) -> list[Path]:
    """Write the parts: the only one to a file, or each to a numbered file in a folder. Returns the files."""
    if output.is_dir():
        files = [output / f"{at}{_guess_extension(part.mime_type)}" for at, part in enumerate(parts, 1)]
    elif len(parts) != 1:
        what = f"there are {len(parts)} parts, which do not fit one file" if parts else "there is nothing to write"
        raise Failed(f"{what}: name a folder that is there, or use --json", WRONG_USAGE)
    else:
        files = [output]
    for file, part in zip(files, parts, strict=True):
        try:
            file.write_bytes(part.data)
        except OSError as error:
            # The error of a full disk does not name the file.
            raise Failed(f"{file}: {error.strerror}") from None
    return files


def _guess_extension(mime_type: str | None) -> str:
    kind = (mime_type or "").partition(";")[0].strip().lower()
    return mimetypes.guess_extension(kind) or (".txt" if kind.startswith("text/") else ".bin")


def format_blocks(blocks: Iterable[object]) -> str:
    """Write blocks of content one below the other."""
    return "\n".join(format_block(block) for block in blocks)


def format_block(block: object) -> str:
    """Write one block of content."""
    if isinstance(block, content.TextContent):
        return block.text
    if isinstance(block, content.ImageContent | content.AudioContent):
        kind = "image" if isinstance(block, content.ImageContent) else "audio"
        return f"[{kind} {block.mime_type}, {_compute_size(block.data)}]"
    if isinstance(block, content.ResourceLink):
        return f"[link to {block.uri}: {block.title or block.name}]"
    if isinstance(block, content.EmbeddedResource):
        return format_contents(block.resource)
    return json_line(block)


def format_contents(contents: content.ResourceContents) -> str:
    """Write the contents of a resource."""
    if contents.text is not None:
        return contents.text
    return f"[{contents.mime_type or 'binary data'}, {_compute_size(contents.blob or '')}, {contents.uri}]"


def _compute_size(base64: str) -> str:
    count = len(base64) * 3 // 4 - base64[-2:].count("=")
    return f"{count} byte{'' if count == 1 else 's'}"
