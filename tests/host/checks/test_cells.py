"""Lines take the room that terminals give them, and are read in their direction."""

from __future__ import annotations

import pytest

from antiphon.host.checks.cells import cells, cells_of, direction, wrap


@pytest.mark.parametrize(
    ("char", "width"),
    [
        ("a", 1),
        ("é", 1),
        ("日", 2),
        ("\u4dc0", 2),
        ("\u268a", 2),
        ("\u0301", 0),
        ("\u200b", 0),
        ("👍", 2),
        ("\u05d0", 1),
    ],
)
def test_a_character_takes_its_cells(char: str, width: int):
    """Hexagrams are wide since Unicode 16."""
    assert cells(char) == width


@pytest.mark.parametrize(
    ("text", "width"), [("abc", 3), ("日本", 4), ("👩‍💻", 2), ("❤️", 2), ("e\u0301", 1), ("\u4dc0" * 4, 8)]
)
def test_a_text_takes_its_cells(text: str, width: int):
    """An emoji of several characters is one."""
    assert cells_of(text) == width


@pytest.mark.parametrize("piece", ["\u4dc0", "❤️", "日", "👩‍💻", "e\u0301", "\u268a "])
def test_no_row_is_wider_than_the_terminal(piece: str):
    """Whatever is written in it; a wider row would push the frame of ours out of its place."""
    rows = list(wrap(piece * 100, 21))
    assert max(map(cells_of, rows)) <= 21
    assert "".join(rows) == piece * 100


@pytest.mark.parametrize(
    ("line", "read"),
    [
        ("hello", "ltr"),
        ("שלום", "rtl"),
        ("مرحبا world", "rtl"),
        ("123 שלום", "rtl"),
        ("12:30", ""),
        ("", ""),
        ("- a שלום", "ltr"),
    ],
)
def test_a_line_is_read_by_its_first_letter(line: str, read: str):
    """Figures and signs have no direction."""
    assert direction(line) == read
