"""Text wrapped to the width of a terminal, of any length: rows are cut out of its texts when they are shown.

Pure. A text of ten megabytes in lines of one letter has five million rows, so only the position of each is kept.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from rich.cells import cell_len, chop_cells

from antiphon.cli.screen.drawn.pieces import Piece, Style
from antiphon.host.checks.cells import GUTTER, gutter_of
from antiphon.host.checks.redact import find_secrets
from antiphon.host.terminal.layout import wrap

__all__ = ["Document", "Drawn"]

_MARK = re.compile("\u27e6")
"""Begins the mark of an invisible character; no text of a server contains this bracket itself."""
_SEARCHED = 200_000
"""Characters of a text that are searched for secrets while somebody waits for a key."""
_LEAST = 16
"""Least cells of text even if the terminal is narrower."""


class Drawn(NamedTuple):
    """One row."""

    lead: str
    text: str
    style: Style


class _Wrapped:
    """One part, wrapped."""

    def __init__(self, piece: Piece, width: int) -> None:
        self.piece = piece
        self._width = width
        starts = array("Q", [0])
        at = 0
        room = max(_LEAST, width - cell_len(piece.rest))
        for line in piece.text.split("\n"):
            # No character is wider than two cells, so a short line is a row as it is.
            for row in (line,) if 2 * len(line) <= room else _rows(line, room):
                at += len(row)
                starts.append(at)
            at += 1
            starts[-1] = at
        self._starts = starts

    def __len__(self) -> int:
        return len(self._starts) - 1

    def remarkable(self) -> list[int]:
        text = self.piece.text
        at = {found.start() for found in _MARK.finditer(text)}
        if len(text) <= _SEARCHED:
            at.update(finding.start for finding in find_secrets(text))
        return sorted({bisect_right(self._starts, place) - 1 for place in at})

    def row(self, at: int) -> Drawn:
        piece = self.piece
        text = piece.text[self._starts[at] : self._starts[at + 1]].removesuffix("\n")
        lead = piece.rest if at else piece.first
        if lead.endswith(GUTTER):
            lead = lead.removesuffix(GUTTER) + gutter_of(text)
        if piece.rule:
            text += "─" * (self._width - cell_len(lead + text) - 1)
        return Drawn(lead, text, piece.style)


class Document:
    """Parts one below the other, in rows of at most ``width`` cells."""

    def __init__(self, pieces: Iterable[Piece], width: int) -> None:
        self.width = width
        self._pieces = [_Wrapped(piece, width) for piece in pieces]
        self._ends: list[int] = []
        total = 0
        for piece in self._pieces:
            total += len(piece)
            self._ends.append(total)

    def __len__(self) -> int:
        """Return the number of rows."""
        return self._ends[-1] if self._ends else 0

    def row(self, at: int) -> Drawn:
        """Return one row, by its index."""
        which = bisect_right(self._ends, at)
        return self._pieces[which].row(at - (self._ends[which - 1] if which else 0))

    def start(self, piece: int) -> int:
        """Return the row with which a piece begins, by its number from 0."""
        return self._ends[piece - 1] if piece else 0

    def find(self, title: str) -> int:
        """Return the row of a title; 0 if there is none."""
        for at, wrapped in enumerate(self._pieces):
            if wrapped.piece.rule and wrapped.piece.text.strip() == title:
                return self._ends[at - 1] if at else 0
        return 0

    def end(self) -> int:
        """Return the row after the last part that must be seen completely; 0 if there is none."""
        kept = [end for end, wrapped in zip(self._ends, self._pieces, strict=True) if wrapped.piece.kept]
        return kept[-1] if kept else 0

    def places(self) -> list[int]:
        """Return the rows that need a closer look: with marks of invisible characters, or with secrets."""
        found: list[int] = []
        for at, wrapped in enumerate(self._pieces):
            start = self._ends[at - 1] if at else 0
            if GUTTER in wrapped.piece.first or wrapped.piece.theirs:
                found += [start + row for row in wrapped.remarkable()]
        return found


def _rows(line: str, width: int) -> Iterator[str]:
    """Break a line as the rest of the library does, and once more where this terminal library counts wider."""
    for row in wrap(line, width):
        if row.isascii() or cell_len(row) <= width:
            yield row
        else:
            yield from chop_cells(row, width)
