"""Pieces of a page."""

from __future__ import annotations

from antiphon.cli.screen.drawn.pieces import fact, ours, quoted, table, title

EVIL = "a\x1b[31m\nb\u202e"


def test_every_piece_is_inert():
    """Ours are one line; a server's may have several, each behind its gutter."""
    marked = "a\u27e6U+001B\u27e7[31m\u27e6U+000A\u27e7b\u27e6U+202E\u27e7"
    assert title(EVIL).text == f"{marked} "
    assert ours(EVIL).text == marked
    assert fact("Label", EVIL).text == marked
    assert quoted(EVIL).text == "a\u27e6U+001B\u27e7[31m\nb\u27e6U+202E\u27e7"
    assert (quoted(EVIL).first, quoted(EVIL).rest) == (" \u2502 ", " \u2502 ")


def test_labels_line_up():
    """Also where their letters are wide, or they are too long."""
    assert fact("Server", "x").first == " Server         "
    assert fact("\u670d\u52a1\u5668", "x").first == " \u670d\u52a1\u5668         "
    assert fact("A very long label", "x").first == " A very long label   "


def test_a_table_marks_what_was_chosen():
    """By a sign, not by colour alone; cells of wide letters line up."""
    rows = list(table([["Model", "Cost", "Why"], ["\u6c49", "$1", "x\ny"], ["b", "$10", ""]], chosen=2))
    assert [row.text for row in rows] == ["Model  Cost  Why", "\u6c49     $1    x\u27e6U+000A\u27e7y", "b      $10"]
    assert [row.first for row in rows] == ["   ", "   ", " \u25b8 "]
    assert [row.style for row in rows] == ["dim", "", "strong"]
