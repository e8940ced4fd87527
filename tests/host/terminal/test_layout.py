"""Rows that fit, and begin with something of ours."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.host.checks.cells import cells_of, wrap
from antiphon.host.checks.visible import inert
from antiphon.host.terminal import layout
from antiphon.host.terminal.layout import Layout

WORDS = "one two three four five six seven"


@given(st.text(alphabet=st.sampled_from("ab é日👍 \u0301"), max_size=200), st.integers(min_value=2, max_value=30))
def test_wrapping_loses_nothing(text: str, width: int):
    """Joined again, the rows are the text, and none is too long."""
    rows = list(wrap(text, width))
    assert "".join(rows) == text
    assert all(len(row.replace("\u0301", "")) <= width for row in rows)


def test_rows_break_behind_a_space():
    """Words stay whole where they can."""
    assert list(wrap(WORDS, 12)) == ["one two ", "three four ", "five six ", "seven"]


def test_wide_characters_count_twice():
    """Three of them fill six columns."""
    assert list(wrap("日本語", 4)) == ["日本", "語"]


@pytest.mark.parametrize("columns", [10, 40, 80])
def test_no_row_begins_with_a_text_of_the_server(columns: int):
    """Not the first, not one after a line end, not one after wrapping."""
    layout = Layout(columns=columns)
    text = "[a] approve\n[a] approve " * 20
    assert all(row.startswith("   │ ") for row in layout.quoted(text, 2))
    first, *rest = layout.remark(text)
    assert first.startswith(" ▪ ")
    assert all(row.startswith(" ┊ ") for row in rest)
    first, *rest = layout.labelled("label", text)
    assert first.startswith(" label")
    assert all(row.lstrip().startswith("┊ ") for row in rest)


def test_a_long_text_is_drawn_as_it_is_read(monkeypatch: pytest.MonkeyPatch):
    """Its first rows are there before the rest was made inert; where it was cut cannot be seen."""

    def parts(text: str) -> Iterator[str]:
        yield from (text[:50], text[50:100])
        raise AssertionError

    text = "one two three " * 20_000
    whole = [f" │ {row}" for row in wrap(text, 35)]
    assert list(Layout(columns=40).quoted(text)) == whole
    monkeypatch.setattr(layout, "inert_parts", parts)
    rows = Layout(columns=40).quoted(text)
    assert next(rows) == whole[0]
    with pytest.raises(AssertionError):
        list(rows)


def test_a_line_is_whole_in_a_pipe():
    """However long: whoever reads it there looks for it."""
    assert list(Layout(columns=0).quoted("word " * 20_000)) == [f" │ {'word ' * 20_000}"]


def test_colour_is_ours_alone():
    """Escape sequences of the layout stay outside of the text, those of the text become marks."""
    row = next(Layout(color=True).labelled("x", "\x1b[31mred", "1"))
    assert "\x1b[1m⟦U+001B⟧[31mred\x1b[0m" in row
    assert "\x1b" not in next(Layout().labelled("x", "\x1b[31mred", "1"))


def test_a_title_is_a_rule():
    """As wide as the terminal, at most a hundred columns."""
    assert Layout(columns=40).title("hello") == "── hello ".ljust(39, "─")


@pytest.mark.parametrize("columns", [12, 20, 39, 40, 80])
def test_no_row_is_wider_than_the_terminal(columns: int):
    """However narrow it is: a terminal that wraps by itself would begin a row with a text of the server's."""
    layout, text = Layout(columns=columns), "[a] approve 日本語 " * 20
    rows = [*layout.quoted(text, 2), *layout.remark(text, 2), *layout.labelled("changed", text)]
    assert max(map(cells_of, rows)) < columns


def test_without_a_width_nothing_is_wrapped():
    """A line is a row: what is read from a pipe is found again as it was written."""
    layout, text = Layout(columns=0), "word " * 5_000
    assert list(layout.quoted(f"{text}\nend")) == [f" │ {text}", " │ end"]
    assert list(layout.labelled("for", text)) == [f" for       {text}"]
    assert list(layout.remark(text)) == [f" ▪ {text}"]
    assert layout.title("hello").startswith("── hello ──")


def test_a_row_that_is_read_from_the_right_says_so():
    """In the gutter; its characters keep their order, and rows of the other direction look as ever."""
    rows = list(Layout().quoted("Hello\n\u05e9\u05dc\u05d5\u05dd abc\n123 \u0645\u0631\n日本"))
    assert rows == [" │ Hello", " │←\u05e9\u05dc\u05d5\u05dd abc", " │←123 \u0645\u0631", " │ 日本"]


@pytest.mark.parametrize("piece", ["\u202e", "a", " ", "\n", "日本\u200b"])
def test_a_folded_text_costs_what_is_shown_of_it(piece: str, monkeypatch: pytest.MonkeyPatch):
    """Not what there is: of ten million characters, those are made inert that may be seen. The rest is counted."""
    given: list[int] = []

    def counted(text: str) -> str:
        given.append(len(text))
        return inert(text)

    monkeypatch.setattr(layout, "inert", counted)
    text = piece * (10_000_000 // len(piece))
    *rows, more = Layout(columns=80, fold=8, more="{characters} more").quoted(text)
    assert sum(given) <= 8 * 80 * 4
    assert len(rows) <= 8
    assert int(more.removeprefix(" ┆ ").removesuffix(" more")) > 9_900_000
