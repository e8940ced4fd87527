"""Rows that fit a terminal: labels, gutters, wrapping by cells, a little colour.

Pure. Every row begins with something of ours, so that no text from a server can begin a row and pass for the host.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from antiphon.host.checks.lines import cells
from antiphon.host.checks.visible import inert, inert_line

__all__ = ["Layout", "wrap"]

_LABEL = 9
"""Width of the labels at the left."""
_CONTINUED = "┊ "
"""Begins a row that goes on where the one above ended."""
_LEAST = 20
"""Columns of text even where the terminal claims to be narrower."""


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """How wide, and whether in colour."""

    columns: int = 80
    color: bool = False
    fold: int = 0
    """Rows of a text of the server's that are shown; 0 shows all. How much more there is, is said."""
    more: str = ""
    """What is said then, with a place for ``{characters}``."""

    def title(self, text: str) -> str:
        """Draw a rule with our own words in it."""
        return self.paint("1", f"── {text} ".ljust(min(self.columns, 100) - 1, "─"))

    def labelled(self, label: str, text: str, paint: str = "") -> Iterator[str]:
        """Show a fact of one line, wrapped beside its label."""
        rows = wrap(inert_line(text), max(_LEAST, self.columns - _LABEL - 5))
        for at, row in enumerate(rows):
            head = self.paint("2", f" {label if at == 0 else '':<{_LABEL}} {_CONTINUED if at else ''}")
            yield head + self.paint(paint, row)

    def quoted(self, text: str, indent: int = 0) -> Iterator[str]:
        """Show a text of the server's, whole, each row behind a gutter."""
        gutter = " " * (indent + 1) + self.paint("2", "│ ")
        width = max(_LEAST, self.columns - indent - 5)
        shown = at = 0
        made = inert(text)
        for line in made.split("\n"):
            for row in wrap(line, width):
                if self.fold and shown == self.fold:
                    yield " " * (indent + 1) + self.paint("33", "┆ " + self.more.format(characters=len(made) - at))
                    return
                yield gutter + row
                shown, at = shown + 1, at + len(row)
            at += 1

    def remark(self, text: str, indent: int = 0) -> Iterator[str]:
        """Show words of ours about a block; what they repeat of the server's is made one inert line."""
        rows = wrap(inert_line(text), max(_LEAST, self.columns - indent - 5))
        for at, row in enumerate(rows):
            yield " " * (indent + 1) + self.paint("" if at else "1", (_CONTINUED if at else "▪ ") + row)

    def paint(self, code: str, text: str) -> str:
        """Colour text of ours (SGR codes), or leave it."""
        return f"\x1b[{code}m{text}\x1b[0m" if self.color and code else text


def wrap(line: str, width: int) -> Iterator[str]:
    """Break a line into rows of at most ``width`` cells, behind a space where there is one. Loses no character."""
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
