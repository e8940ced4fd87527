"""How a line of text is laid out: how many cells of a terminal it takes, and in which direction it is read.

Pure. Owns both for every way of reviewing. The widths are wcwidth's, which follows Unicode as terminals do: Python's
own tables are as old as the interpreter, and 64 hexagrams that it takes for narrow push a frame out of its place.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import Literal

__all__ = ["GUTTER", "cells", "cells_of", "direction", "gutter_of"]

GUTTER = "│ "
"""Stands before each row of whatever a server wrote."""
_FROM_THE_RIGHT = "│←"
"""Stands there before a row that is read from right to left. The arrow is not mirrored, whatever comes after it."""
_LOOKED_AT = 1_000
"""Characters in which a line shows its direction; one that has no letter so far has none."""


@lru_cache(maxsize=4096)
def cells(char: str) -> int:
    """Return how many cells a character takes at most.

    The selector that makes a sign an emoji counts for one: with it, a narrow sign takes two cells. So a row that is
    filled character by character is never wider than it seems, only narrower.
    """
    if "\x20" <= char < "\x7f":
        return 1
    if char == "\ufe0f":
        return 1
    from wcwidth import wcwidth

    return max(0, wcwidth(char))


def cells_of(text: str) -> int:
    """Return how many cells a text in one line takes, with emoji of several characters taken as one."""
    if text.isascii():
        return len(text)
    from wcwidth import wcswidth

    width = wcswidth(text)
    return width if width >= 0 else sum(map(cells, text))


def direction(line: str) -> Literal["ltr", "rtl", ""]:
    """Return in which direction a line is read, by its first letter (Unicode Annex 9, P2); nothing if it has none."""
    for char in line[:_LOOKED_AT]:
        kind = unicodedata.bidirectional(char)
        if kind in ("R", "AL"):
            return "rtl"
        if kind == "L":
            return "ltr"
    return ""


def gutter_of(row: str) -> str:
    """Return what stands before a row of a server's text: it tells where the reading begins.

    The row itself keeps its order. A terminal that lays out both directions turns each row by itself, one that does
    not leaves it as it is, and neither says which it is.
    """
    return _FROM_THE_RIGHT if not row.isascii() and direction(row) == "rtl" else GUTTER
