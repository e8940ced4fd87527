"""Wrapping a page of any length."""

from __future__ import annotations

import time

from rich.cells import cell_len

from antiphon.cli.screen.drawn.document import Document
from antiphon.cli.screen.drawn.pieces import blank, fact, ours, quoted, theirs, title


def rows(document: Document) -> list[str]:
    """Read a document."""
    return [row.lead + row.text for row in map(document.row, range(len(document)))]


def test_pieces_stand_one_below_the_other():
    """Each begins with something of ours."""
    document = Document([title("Who"), fact("Server", "x"), blank(), quoted("a\nb"), ours("c")], 20)
    assert rows(document) == ["── Who ────────────", " Server         x", "", " │ a", " │ b", " c"]


def test_a_long_line_is_broken_behind_a_space():
    """Into rows that are no wider than the pane, in Chinese as well."""
    document = Document([quoted("one two three four"), quoted("\u6c49\u5b57" * 20), fact("Label", "word " * 20)], 24)
    assert rows(document)[:2] == [" │ one two three four", f" │ {chr(0x6C49)}{chr(0x5B57)}" + "\u6c49\u5b57" * 4]
    assert all(cell_len(row) <= 32 for row in rows(document))
    assert all(cell_len(row) <= 24 for row in rows(document) if row.startswith(" │"))


def test_a_title_is_found():
    """By its words, and only as a title of ours; otherwise the beginning."""
    document = Document([quoted("── Model ──"), title("Model"), ours("x")], 40)
    assert document.find("Model") == 1
    assert document.find("Nothing") == 0


def test_what_needs_a_closer_look_is_found_in_facts_too():
    """Words of the server's stand beside labels of ours as well: stop sequences, metadata, names."""
    secret = "AKIAIOSFODNN7EXAMPLE"
    document = Document([quoted("a"), fact("Ours", secret), theirs(fact("Stop", secret)), theirs(ours("b\u200b"))], 80)
    assert document.places() == [2, 3]


def test_no_document_has_no_rows():
    """As where nothing waits."""
    assert len(Document((), 80)) == 0


def test_ten_megabytes_are_wrapped():
    """In lines of one letter, or in one line: only the places of rows are kept, and any row is there at once."""
    begun = time.perf_counter()
    for text in ("a\n" * 200_000, "w" * 2_000_000):
        document = Document([quoted(text)], 80)
        assert document.row(len(document) - 1).lead == " │ "
        assert len(document) > 20_000
    assert time.perf_counter() - begun < 4


def test_a_row_that_is_read_from_the_right_says_so():
    """In the gutter, as inline."""
    document = Document([quoted("Hello\n\u05e9\u05dc\u05d5\u05dd abc")], 40)
    assert [document.row(at).lead for at in range(2)] == [" │ ", " │←"]
    assert document.row(1).text == "\u05e9\u05dc\u05d5\u05dd abc"
