"""Texts a person edits, and what differs between two requests.

Pure. Owns the form of a text in which nothing is invisible and nothing is lost, and the lines that are compared.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Iterator

import msgspec

from antiphon.host.checks.visible import replace_hidden
from antiphon.wire.content import AudioContent, ImageContent, TextContent
from antiphon.wire.envelope import encode
from antiphon.wire.sampling import CreateMessageRequestParams

__all__ = ["Line", "differences", "editable", "edited_text", "pretty"]

_MARK = re.compile("\u27e6U\\+([0-9A-F]{4,6})\u27e7")
_MOST_LINES = 5_000
"""Lines that are compared; beyond, comparing takes longer than a person waits."""


class Line(msgspec.Struct, frozen=True):
    """One line of a comparison: ``sign`` is ``"+"``, ``"-"``, or ``" "`` for what stays."""

    sign: str
    text: str


def editable(text: str) -> str:
    """Write a text for a field that is edited: each character that cannot be seen as its mark, ``⟦U+202E⟧``."""
    return replace_hidden(text, _mark)


def edited_text(typed: str) -> str:
    """Read a field that was edited: marks are characters again, lines end as ``editable`` wrote them."""
    return _MARK.sub(_character, typed.replace("\r\n", "\n"))


def differences(before: CreateMessageRequestParams, after: CreateMessageRequestParams) -> list[Line] | None:
    """Compare two requests line by line. Returns nothing where they are the same, ``None`` where they are too long."""
    if encode(before) == encode(after):
        return []
    old, new = list(_lines(before)), list(_lines(after))
    if len(old) + len(new) > _MOST_LINES:
        return None
    compared = difflib.unified_diff(old, new, n=2, lineterm="")
    return [Line(line[0], line[1:]) for line in compared if not line.startswith(("---", "+++", "@@"))]


def pretty(value: object) -> str:
    """Write a value as the JSON that would be sent, indented."""
    return msgspec.json.format(encode(value), indent=2).decode("utf-8", "replace")


def _mark(char: str) -> str:
    return f"\u27e6U+{ord(char):04X}\u27e7"


def _character(mark: re.Match[str]) -> str:
    code = int(mark[1], 16)
    # Half a surrogate pair cannot be sent: it stays the mark it was typed as.
    return chr(code) if code < 0xD800 or 0xDFFF < code < 0x110000 else mark[0]


def _lines(params: CreateMessageRequestParams) -> Iterator[str]:
    for field in msgspec.structs.fields(params):
        value = getattr(params, field.name)
        if value is None or field.name == "messages":
            continue
        text = value if isinstance(value, str) else pretty(value)
        yield from _labelled(field.encode_name, text)
    for at, message in enumerate(params.messages):
        for block in message.blocks:
            yield from _labelled(f"messages[{at}] {message.role}", _text(block))


def _labelled(name: str, text: str) -> Iterator[str]:
    lines = text.split("\n")
    yield f"{name}: {lines[0]}"
    yield from (f"    {line}" for line in lines[1:])


def _text(block: object) -> str:
    if isinstance(block, TextContent):
        return block.text
    if isinstance(block, ImageContent | AudioContent):
        return f"{block.mime_type} SHA-256 {hashlib.sha256(block.data.encode()).hexdigest()}"
    return pretty(block)
