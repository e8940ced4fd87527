"""What a server sent, written to files: one file, or one for each part in a folder.

Owns the names of these files: a server never chooses one. What is shown instead of data is ``contents``.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from antiphon.cli.failures import WRONG_USAGE, Failed
from antiphon.wire.content import AudioContent, EmbeddedResource, ImageContent, ResourceContents, TextContent

__all__ = ["Output", "Part", "data_of", "part_of", "parts_of", "save"]

Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="PATH",
        help="Write the contents to this file; or, if it is a folder, each part to a file in it.",
        show_default=False,
    ),
]


class Part(NamedTuple):
    """One thing that a file can hold."""

    data: bytes
    mime_type: str | None


def parts_of(blocks: Iterable[object]) -> list[Part]:
    """Return what of a result can be kept in files: texts, pictures, sounds and embedded resources, but no links.

    Raises:
        Failed: the data of one is no base64.
    """
    parts: list[Part] = []
    for block in blocks:
        if isinstance(block, TextContent):
            parts.append(Part(block.text.encode("utf-8", "surrogatepass"), "text/plain"))
        elif isinstance(block, ImageContent | AudioContent):
            parts.append(Part(data_of(block), block.mime_type))
        elif isinstance(block, EmbeddedResource):
            parts.append(part_of(block.resource))
    return parts


def part_of(contents: ResourceContents) -> Part:
    """Return what a resource holds.

    Raises:
        Failed: its data is no base64.
    """
    return Part(data_of(contents), contents.mime_type or (None if contents.text is None else "text/plain"))


def data_of(holder: ImageContent | AudioContent | ResourceContents) -> bytes:
    """Return the bytes that something holds.

    Raises:
        Failed: its data is no base64.
    """
    try:
        return holder.bytes
    except ValueError as error:
        place = holder.uri if isinstance(holder, ResourceContents) else holder.mime_type
        raise Failed(f"{place}: {error}") from None


def save(parts: Sequence[Part], output: Path) -> list[Path]:
    """Write the parts: to files named by their number in a folder, or the only one to a file. Returns the files.

    Raises:
        Failed: several parts do not fit one file, or there is none.
    """
    if output.is_dir():
        files = [output / f"{at}{_extension(part.mime_type)}" for at, part in enumerate(parts, 1)]
    elif len(parts) != 1:
        what = f"there are {len(parts)} parts, which do not fit one file" if parts else "there is nothing to write"
        raise Failed(f"{what}: name a folder that is there, or use --json", WRONG_USAGE)
    else:
        files = [output]
    for file, part in zip(files, parts, strict=True):
        file.write_bytes(part.data)
    return files


def _extension(mime_type: str | None) -> str:
    kind = (mime_type or "").partition(";")[0].strip().lower()
    return mimetypes.guess_extension(kind) or (".txt" if kind.startswith("text/") else ".bin")
