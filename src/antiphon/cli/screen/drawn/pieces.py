"""Pieces of a page for a terminal: titles, facts, quoted texts, tables. Each is inert, and begins with our own text.

Pure. Owns how a piece looks before it is wrapped; ``document`` wraps, ``views`` colours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from rich.cells import cell_len, set_cell_size

from antiphon.host.checks.cells import GUTTER
from antiphon.host.checks.visible import inert_line, inert_parts
from antiphon.host.review.keymap import key_for, printed
from antiphon.host.review.texts import Texts

__all__ = ["GUTTER", "Piece", "Style", "blank", "fact", "folded", "kept", "ours", "quoted", "table", "theirs", "title"]

Style = Literal["", "title", "strong", "dim", "warning", "added", "removed", "chosen", "state"]
"""The kind of a piece; ``views`` knows how it looks."""
_CONTINUED = "┊ "
"""Begins a row that continues the one above."""
_CELLS = 76
"""Cells of a row of a usual terminal, without the prefix."""
_LABEL = 14
"""Cells of the labels at the left."""


class Piece(NamedTuple):
    """A text, and the prefixes of its rows."""

    text: str
    """Inert, with line ends."""
    style: Style = ""
    first: str = ""
    """Prefix of the first row."""
    rest: str = ""
    """Prefix of every other row; as wide as ``first``."""
    rule: bool = False
    """Whether its row is extended to the edge."""
    kept: bool = False
    """Whether it is never folded, because whoever decides must have seen all of it."""
    theirs: bool = False
    """Whether it contains text of the server without a gutter, such as a name, or a fact beside its label."""
    rows: int = 8
    """Number of rows of a usual terminal that are shown of it when it is folded."""


def title(text: str) -> Piece:
    """Draw a rule with a text of ours in it."""
    return Piece(f"{inert_line(text)} ", "title", "── ", "── ", rule=True)


def ours(text: str, style: Style = "", lead: str = " ") -> Piece:
    """Show a text of ours; quotations of the server's text become one inert line."""
    return Piece(inert_line(text), style, lead, " " * cell_len(lead))


def fact(label: str, text: str, style: Style = "") -> Piece:
    """Show a one-line fact beside its label."""
    head = set_cell_size(f" {label}", _LABEL) if cell_len(label) < _LABEL - 1 else f" {label} "
    return Piece(inert_line(text), style, f"{head}  ", f"{' ' * _LABEL}{_CONTINUED}")


def quoted(text: str, style: Style = "", indent: int = 0) -> Piece:
    """Show a server's text completely, each row behind a gutter."""
    lead = f"{' ' * (indent + 1)}{GUTTER}"
    return Piece("".join(inert_parts(text)), style, lead, lead)


def kept(piece: Piece) -> Piece:
    """Mark a piece as never folded."""
    return piece._replace(kept=True)


def folded(piece: Piece, words: Texts) -> Iterator[Piece]:
    """Shorten a long text of a server to its beginning, with its length; leave all others unchanged."""
    text = piece.text
    longest = piece.rows * _CELLS
    if piece.kept or GUTTER not in piece.first or (len(text) <= longest and text.count("\n") < piece.rows):
        yield piece
        return
    head = "\n".join(text[:longest].split("\n", piece.rows)[: piece.rows])
    opened = head.rfind("\u27e6")
    if opened > head.rfind("\u27e7"):
        # A mark is one sign, and must not be cut in two.
        head = head[:opened]
    yield piece._replace(text=head)
    more, lines = len(text) - len(head), text.count("\n") - head.count("\n")
    indent = " " * (cell_len(piece.first) - cell_len(GUTTER))
    key = printed(key_for("fold", "screen").keys[0])
    yield Piece(words("fold.more", press=key, characters=more, lines=lines), "warning", f"{indent}┆ ", f"{indent}┆ ")


def theirs(piece: Piece) -> Piece:
    """Mark a piece as text of the server, so that invisible characters in it are pointed out."""
    return piece._replace(theirs=True)


def blank() -> Piece:
    """Leave a row empty."""
    return Piece("")


def table(rows: Sequence[Sequence[str]], chosen: int | None = None) -> Iterator[Piece]:
    """Show rows of cells; the first has the titles. ``chosen`` is marked; long texts are in the last cell."""
    lines = [[inert_line(cell) for cell in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(*(line[:-1] for line in lines), strict=True)]
    for at, line in enumerate(lines):
        cells = [set_cell_size(cell, width) for cell, width in zip(line, widths, strict=False)]
        mark = "▸" if at == chosen else " "
        style: Style = "dim" if at == 0 else "strong" if at == chosen else ""
        yield Piece("  ".join([*cells, line[-1]]).rstrip(), style, f" {mark} ", f"   {_CONTINUED}")
