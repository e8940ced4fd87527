"""Layout of a line of text: its width in cells of a terminal, its rows, and its direction.

Pure, and used by all reviewers. The widths are those of wcwidth, which follows Unicode as terminals do. Python's own
tables are as old as the interpreter, and count 64 wide hexagrams as narrow, which would break a frame.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal

__all__ = ["GUTTER", "cells", "cells_of", "direction", "gutter_of", "wrap"]

GUTTER = "│ "
"""Precedes each row of text from a server."""
_FROM_THE_RIGHT = "│←"
"""Precedes a row that is read from right to left. The arrow is not mirrored, whatever follows."""
_LOOKED_AT = 1_000
"""Characters examined for the direction of a line; a line without a letter among them has none."""


@lru_cache(maxsize=4096)
def cells(char: str) -> int:
    """Return the most cells that a character takes.

    The emoji variation selector counts as one cell, because it can widen a narrow character to two. A row filled
    character by character is thus never wider than computed.
    """
    if "\x20" <= char < "\x7f":
        return 1
    if char == "\ufe0f":
        return 1
    from wcwidth import wcwidth

    return max(0, wcwidth(char))


def cells_of(text: str) -> int:
    """Return the number of cells of a text in one line, counting an emoji of several characters as one."""
    if text.isascii():
        return len(text)
    from wcwidth import wcswidth

    width = wcswidth(text)
    return width if width >= 0 else sum(map(cells, text))


def direction(line: str) -> Literal["ltr", "rtl", ""]:
    """Return the direction of a line, by its first letter (Unicode Annex 9, P2); empty if it has none."""
    for char in line[:_LOOKED_AT]:
        kind = unicodedata.bidirectional(char)
        if kind in ("R", "AL"):
            return "rtl"
        if kind == "L":
            return "ltr"
    return ""


def gutter_of(row: str) -> str:
    """Return the prefix for a row of a server's text, which shows where reading begins.

    The row itself keeps its order. A terminal that supports both directions reorders each row, others do not, and a
    program cannot find out which it is.
    """
    return _FROM_THE_RIGHT if not row.isascii() and direction(row) == "rtl" else GUTTER


def wrap(line: str, width: int) -> Iterator[str]:
    """Break a line into rows of at most ``width`` cells, after a space if possible. Loses no character."""
    return _wrap_ascii(line, width) if line.isascii() else _wrap_cells(line, width)


def _wrap_ascii(line: str, width: int) -> Iterator[str]:
    start = 0
    while len(line) - start > width:
        cut = line.rfind(" ", start, start + width) + 1 or start + width
        yield line[start:cut]
        start = cut
    yield line[start:]


def _wrap_cells(line: str, width: int) -> Iterator[str]:
    start = used = 0
    space = -1
    for at, char in enumerate(line):
        taken = cells(char)
        if used + taken > width:
            cut = space + 1 if space >= start else at
            yield line[start:cut]
            used = sum(map(cells, line[cut:at]))
            start = cut
        used += taken
        if char == " ":
            space = at
    yield line[start:]
