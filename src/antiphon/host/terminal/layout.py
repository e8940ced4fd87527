"""Rows that fit a terminal: labels, gutters, wrapping by cells, some colour.

Pure. Every row begins with something of ours, so that no text of a server can begin a row and imitate the host.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from antiphon.host.checks.cells import cells_of, gutter_of, wrap
from antiphon.host.checks.visible import inert, inert_line, inert_parts

__all__ = ["Layout"]

_LABEL = 9
"""Width of the labels at the left."""
_CONTINUED = "┊ "
"""Begins a row that continues the one above."""
_LEAST = 2
"""Least columns of text even if the terminal claims to be narrower: one wide character."""
_NARROW = 40
"""Columns below which a label stands above its text, since beside it there would be no room for a word."""
_PER_CELL = 4
"""Characters examined for each cell of a folded text, so that the work is limited however long the text is."""
_RULE = 100
"""Most columns of a rule."""


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """The width, and whether to use colour."""

    columns: int = 80
    """0 wraps nothing: each line of a text is one row, for a pipe or a file."""
    color: bool = False
    fold: int = 0
    """Most rows shown of a server's text; 0 shows all. The rest is announced by ``more``."""
    more: str = ""
    """Text for what was folded, with a place for ``{characters}``."""

    def title(self, text: str) -> str:
        """Draw a rule with a text of ours in it."""
        return self.paint("1", f"── {text} ".ljust(min(self.columns or _RULE, _RULE) - 1, "─"))

    def labelled(self, label: str, text: str, paint: str = "") -> Iterator[str]:
        """Show a one-line fact, wrapped beside its label."""
        narrow = 0 < self.columns < _NARROW
        if narrow and label:
            yield self.paint("2", f" {label}")
            label = ""
        width = 0 if narrow else _LABEL
        rows = self.wrapped(inert_line(text), width + 5)
        for at, row in enumerate(rows):
            beside = label if at == 0 else ""
            room = " " * (width - cells_of(beside))
            head = self.paint("2", f" {beside}{room} {_CONTINUED if at or narrow else ''}")
            yield head + self.paint(paint, row)

    def quoted(self, text: str, indent: int = 0) -> Iterator[str]:
        """Show a server's text completely, each row behind a gutter."""
        if not self.fold:
            yield from (self._behind(row, indent) for row in self._rows(text, indent + 5))
            return
        shown = at = 0
        most = self.fold * (self.columns or _RULE) * _PER_CELL
        made = inert(text[:most])
        unseen = max(0, len(text) - most)
        for line in made.split("\n"):
            for row in self.wrapped(line, indent + 5):
                if shown == self.fold:
                    yield self._folded(len(made) - at + unseen, indent)
                    return
                yield self._behind(row, indent)
                shown, at = shown + 1, at + len(row)
            at += 1
        if unseen:
            yield self._folded(unseen, indent)

    def _behind(self, row: str, indent: int) -> str:
        return " " * (indent + 1) + self.paint("2", gutter_of(row)) + row

    def _rows(self, text: str, taken: int) -> Iterator[str]:
        """Make a text inert and wrap it, a part at a time as its rows are drawn."""
        # A line is not wrapped for a pipe, so it cannot be cut into parts.
        parts = inert_parts(text) if self.columns else iter((inert(text),))
        open_line = next(parts)
        for part in parts:
            *lines, last = open_line.split("\n")
            for line in lines:
                yield from self.wrapped(line, taken)
            *rows, rest = self.wrapped(last, taken)
            yield from rows
            # The row in which the text was cut goes on.
            open_line = rest + part
        for line in open_line.split("\n"):
            yield from self.wrapped(line, taken)

    def _folded(self, characters: int, indent: int) -> str:
        return " " * (indent + 1) + self.paint("33", "┆ " + self.more.format(characters=characters))

    def remark(self, text: str, indent: int = 0) -> Iterator[str]:
        """Show a remark of ours about a block; quotations of the server's text become one inert line."""
        rows = self.wrapped(inert_line(text), indent + 5)
        for at, row in enumerate(rows):
            yield " " * (indent + 1) + self.paint("" if at else "1", (_CONTINUED if at else "▪ ") + row)

    def wrapped(self, line: str, taken: int) -> Iterator[str]:
        """Break a line into rows that leave ``taken`` columns free for a prefix."""
        return wrap(line, max(_LEAST, self.columns - taken)) if self.columns else iter((line,))

    def paint(self, code: str, text: str) -> str:
        """Colour a text of ours (SGR codes), if colour is used."""
        return f"\x1b[{code}m{text}\x1b[0m" if self.color and code else text
