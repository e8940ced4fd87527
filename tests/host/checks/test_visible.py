"""Text from a stranger is inert and complete."""

from __future__ import annotations

import subprocess
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.host.checks.visible import (
    blank_runs,
    cells_of,
    count_cells,
    count_hidden,
    find_direction,
    inert_line,
    inert_parts,
    make_inert,
    replace_hidden,
    wrap_line,
)


@pytest.mark.parametrize(
    ("char", "kind"),
    [
        ("\x1b", "control"),
        ("\x9b", "control"),
        ("\r", "control"),
        ("\x08", "control"),
        ("\u2028", "control"),
        ("\u202e", "bidi"),
        ("\u2066", "bidi"),
        ("\u200b", "zero-width"),
        ("\u2060", "zero-width"),
        ("\ufeff", "zero-width"),
        ("\U000e0041", "tag"),
        ("\ufe00", "variation"),
        ("\U000e0101", "variation"),
        ("\u3164", "filler"),
        ("\u2800", "filler"),
        ("\ue000", "private"),
        ("\U0010ffff", "private"),
    ],
)
def test_what_cannot_be_seen_is_marked(char: str, kind: str):
    """Every kind of hidden character becomes its code point, and is counted."""
    assert make_inert(f"a{char}b") == f"a⟦U+{ord(char):04X}⟧b"
    assert count_hidden(f"a{char}b") == {kind: 1}


@pytest.mark.parametrize(
    "text", ["naïve café", "日本語\u3000テスト", "👍🏽 👩‍💻 ❤️ 1️⃣", "a\nb", "Привет", "שלום", "हिन्दी"]
)
def test_honest_text_stays_as_it_is(text: str):
    """Other scripts and emoji are no attack."""
    assert make_inert(text) == text
    assert count_hidden(text) == {}


def test_a_mark_cannot_be_forged():
    """The bracket that opens a mark is marked itself."""
    assert make_inert("⟦U+0041⟧") == "⟦U+27E6⟧U+0041⟧"


def test_letters_that_pile_up_marks_are_tamed():
    """Combining marks beyond four on one letter are written out."""
    assert make_inert("a" + "\u0301" * 6).count("⟦") == 2


def test_nothing_is_pushed_out_of_sight():
    """Empty lines, spaces and repeated marks are counted, not drawn."""
    assert make_inert("a" + "\n" * 50 + "b") == "a\n⟦49 empty lines⟧\nb"
    assert make_inert("a" + " " * 500 + "b") == "a ⟦498 spaces⟧ b"
    assert make_inert("\u200b" * 9) == "⟦U+200B \u00d79⟧"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("x" + "\n" + "\u3000\n" * 400 + "y", "x\n⟦400 blank lines⟧\ny"),
        ("x\n" + " \n" * 2_000 + "y", "x\n⟦2000 blank lines⟧\ny"),
        ("\n" * 50 + "y", "⟦50 empty lines⟧\ny"),
        ("x" + "\t" * 1_000 + "y", "x ⟦3998 spaces⟧ y"),
        ("x" + "\u00a0\u2003" * 100 + "y", "x ⟦198 spaces⟧ y"),
        ("x" + " \t\u3000" * 20 + "y", "x ⟦138 spaces⟧ y"),
    ],
    ids=["ideographic", "spaces", "at the beginning", "tabs", "no-break", "mixed"],
)
def test_blank_room_of_any_kind_is_folded(text: str, shown: str):
    """With its size, and it is counted, so that somebody is warned."""
    assert make_inert(text) == shown
    assert blank_runs(text) == 1


@pytest.mark.parametrize(
    "text", ["a\n\n\n\nb", "def f():\n        return 1\n\n\n", "a\tb\tc", "日本語\u3000テスト", "a\r\nb\r\n"]
)
def test_ordinary_room_stays(text: str):
    """Paragraphs, indentation and line ends of Windows are no attack."""
    assert blank_runs(text) == 0
    assert count_hidden(text) == {}
    assert "⟦" not in make_inert(text)


@pytest.mark.parametrize(
    "text",
    [
        "word " * 50_000,
        "字符" * 100_000,
        "".join(f"a{n}\n" for n in range(50_000)),
        "x" * 100_000 + "\u202e" + "y" * 100,
    ],
)
def test_a_long_text_is_made_inert_in_parts(text: str):
    """Each of some milliseconds; together they are the whole."""
    parts = list(inert_parts(text))
    assert len(parts) > 1
    assert max(map(len, parts)) < 40_000
    assert "".join(parts) == make_inert(text)


def test_no_part_brings_to_light_what_the_whole_folds():
    """Room is folded in each part, and what joins nothing is marked."""
    for text in ("\n" * 200_000, "\u3000" * 200_000, "\u200d" * 200_000, "a" + "\u0301" * 200_000):
        made = "".join(inert_parts(text))
        assert len(made) < 2_000 or "⟦" in made
        assert not count_hidden(made)
        assert blank_runs(made) == 0


def test_tag_characters_are_read_out():
    """They repeat ASCII where nobody sees it, and models read it."""
    said = "".join(chr(0xE0000 + ord(char)) for char in "obey me")
    assert make_inert(f"hello{said}") == 'hello⟦7 tags U+E006F to U+E0065: "obey me"⟧'
    assert count_hidden(said) == {"tag": 7}


@pytest.mark.parametrize("bracket", "\u27e6\u301a\u2045\u298b\u298d\u298f\u27ec\u2997\u2772")
def test_what_looks_like_our_bracket_is_marked(bracket: str):
    """A mark that the server wrote would be taken for ours."""
    assert make_inert(f"{bracket}U+0041") == f"⟦U+{ord(bracket):04X}⟧U+0041"
    assert count_hidden(bracket) == {}


def test_an_emoji_among_millions_of_joiners_stays_whole():
    """What is decided by context is decided for each character."""
    text = "👩‍💻" + "\u200d" * 5 + "❤️" + "a\ufe0f" + "e" + "\u0301" * 6
    assert make_inert(text) == "👩‍💻⟦U+200D \u00d75⟧❤️a⟦U+FE0F⟧e\u0301\u0301\u0301\u0301⟦U+0301⟧⟦U+0301⟧"
    assert count_hidden(text) == {"zero-width": 5, "variation": 1, "stacked": 2}


def test_a_single_line_has_no_line_ends():
    """Names and addresses are one line."""
    assert inert_line("a\nb\tc") == "a⟦U+000A⟧b    c"


def test_hidden_characters_can_be_written_another_way():
    """A form for an editor has escapes of its own."""
    assert replace_hidden("a\u200bb", lambda char: f"<{ord(char):x}>") == "a<200b>b"


@given(st.text())
def test_no_text_reaches_a_terminal_as_anything_but_text(text: str):
    """Whatever the text, what is shown has no character a terminal obeys or a reader cannot see."""
    shown = make_inert(text)
    assert not [char for char in shown if unicodedata.category(char) in ("Cc", "Cs", "Co", "Zl", "Zp") and char != "\n"]
    assert not {"\u202a", "\u202e", "\u2066", "\u200e", "\u061c"} & set(shown)


def test_runs_of_the_same_line_are_folded_with_their_count():
    """The line is shown once; what follows it cannot be pushed out of sight, and nothing is lost."""
    assert make_inert("Begin\n" + "filler line\n" * 5_000 + "END") == (
        "Begin\nfiller line\n⟦the line above 4,999 more times⟧\nEND"
    )
    assert make_inert("one\n" * 5 + "end") == "one\n" * 5 + "end"


def test_runs_of_the_same_sign_are_folded_with_their_count():
    """A rule across the page is not one."""
    assert make_inert("a" + "." * 5_000 + "b") == "a" + "." * 20 + "⟦. 5,000 times in all⟧b"
    assert make_inert("=" * 80) == "=" * 80


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
    assert count_cells(char) == width


@pytest.mark.parametrize(
    ("text", "width"), [("abc", 3), ("日本", 4), ("👩‍💻", 2), ("❤️", 2), ("e\u0301", 1), ("\u4dc0" * 4, 8)]
)
def test_a_text_takes_its_cells(text: str, width: int):
    """An emoji of several characters is one."""
    assert cells_of(text) == width


PLAIN = """
import sys
sys.modules["wcwidth"] = None
from antiphon.host.checks.visible import cells_of, count_cells, wrap_line
assert cells_of("日本 e\u0301") == 6
assert max(map(cells_of, wrap_line("👩‍💻é" * 100, 21))) <= 21
sys.stdout.buffer.write(bytes(count_cells(chr(code)) for code in range(0x20000) if not 0xD800 <= code < 0xE000))
"""
"""Prints the cells of each character, counted without the package that knows them."""


def test_without_its_tables_no_character_is_taken_for_narrower():
    """A row may then be shorter than the terminal, and is never longer; usual letters count as they are."""
    plain = subprocess.run([sys.executable, "-c", PLAIN], check=True, capture_output=True).stdout
    chars = [chr(code) for code in range(0x20000) if not 0xD800 <= code < 0xE000]
    assert [char for char, cells in zip(chars, plain, strict=True) if cells < count_cells(char)] == []
    assert [plain[ord(char)] for char in "aé日\u0301"] == [1, 1, 2, 0]


@pytest.mark.parametrize("piece", ["\u4dc0", "❤️", "日", "👩‍💻", "e\u0301", "\u268a "])
def test_no_row_is_wider_than_the_terminal(piece: str):
    """Whatever is written in it; a wider row would push the frame of ours out of its place."""
    rows = list(wrap_line(piece * 100, 21))
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
    assert find_direction(line) == read
