"""Rows that fit, and begin with something of ours."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.host.terminal.layout import Layout, wrap

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
    assert first.startswith(" label ")
    assert all(row.lstrip().startswith("┊ ") for row in rest)


def test_colour_is_ours_alone():
    """Escape sequences of the layout stay outside of the text, those of the text become marks."""
    row = next(Layout(color=True).labelled("x", "\x1b[31mred", "1"))
    assert "\x1b[1m⟦U+001B⟧[31mred\x1b[0m" in row
    assert "\x1b" not in next(Layout().labelled("x", "\x1b[31mred", "1"))


def test_a_title_is_a_rule():
    """As wide as the terminal, at most a hundred columns."""
    assert Layout(columns=40).title("hello") == "── hello ".ljust(39, "─")
