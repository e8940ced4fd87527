"""Texts that are edited come back as they were, and differences are found."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.host.checks.visible import count_hidden
from antiphon.host.review.diff import (
    DiffLine,
    compare_lines,
    compare_requests,
    format_json,
    make_editable,
    restore_edited_text,
    split_changed_words,
)
from antiphon.wire.content import ImageContent
from antiphon.wire.sampling import SamplingMessage
from tests.host.asks import request
from tests.web.hostile import HOSTILE


@pytest.mark.parametrize("text", HOSTILE)
def test_a_text_that_is_not_touched_comes_back(text: str):
    """Marks are written for what cannot be seen, and read as what they stand for."""
    assert restore_edited_text(make_editable(text)) == text
    assert count_hidden(make_editable(text).replace("\u27e6", "")) == {}


@given(st.text())
def test_any_text_comes_back(text: str):
    """Also through a browser, which may send line ends as two characters."""
    assert restore_edited_text(make_editable(text).replace("\n", "\r\n")) == text


def test_marks_that_stand_for_nothing_stay():
    """Half a pair and numbers beyond Unicode cannot be sent."""
    assert restore_edited_text("\u27e6U+D800\u27e7\u27e6U+110000\u27e7") == "\u27e6U+D800\u27e7\u27e6U+110000\u27e7"


def test_the_same_has_no_differences():
    """Not even an empty line."""
    assert compare_requests(request(), request()) == []


def test_a_difference_is_found_line_by_line():
    """What goes and what comes, with the lines around them."""
    found = compare_requests(request("a\nb\nc", max_tokens=10), request("a\nB\nc", max_tokens=5))
    assert {line for line in found if line.sign != " "} == {
        DiffLine("-", "maxTokens: 10"),
        DiffLine("+", "maxTokens: 5"),
        DiffLine("-", "    b"),
        DiffLine("+", "    B"),
    }


def test_another_picture_is_a_difference():
    """Pictures are compared by their digest, not shown as base64."""
    pictures = [
        request(messages=[SamplingMessage(role="user", content=ImageContent.of(data, "image/png"))])
        for data in (b"a" * 10_000, b"b" * 10_000)
    ]
    found = compare_requests(*pictures)
    assert [line.sign for line in found if line.sign != " "] == ["-", "+"]
    assert all(len(line.text) < 120 for line in found)


def test_what_is_too_long_is_not_compared():
    """It is said instead: comparing would take longer than anybody waits."""
    assert compare_requests(request("a\n" * 9_000), request("b\n" * 9_000)) is None


def test_json_is_what_would_be_sent():
    """By its wire names."""
    assert '"maxTokens": 100' in format_json(request())


@given(st.lists(st.sampled_from("abcdefgh"), max_size=60), st.lists(st.sampled_from("abcdefgh"), max_size=60))
def test_both_sides_can_be_read_off_a_comparison(old: list[str], new: list[str]):
    """With what stays, the lines that go are the one text, and those that come are the other."""
    apart = [f"line {at}" for at in range(3)]
    lines = compare_lines([*old, *apart, *new], [*new, *apart, *old])
    kept = [line.text for line in lines if line.sign != "+"]
    come = [line.text for line in lines if line.sign != "-"]
    assert is_within(kept, [*old, *apart, *new])
    assert is_within(come, [*new, *apart, *old])
    assert (lines == []) == (old == new)


def is_within(part: list[str], whole: list[str]) -> bool:
    """Tell whether these lines stand in the other ones, in this order."""
    rest = iter(whole)
    return all(line in rest for line in part)


def test_lines_that_are_all_masked_are_compared_at_once():
    """Thousands of lines of which each differs a little: the work grows with their number, not with its square."""
    old = [f"key {at % 7} = secret {at % 3}" for at in range(2_400)]
    lines = compare_lines(old, [f"key {at % 7} = [key]" for at in range(2_400)])
    assert [line.sign for line in lines] == ["-"] * 2_400 + ["+"] * 2_400


def test_a_line_that_moved_is_taken_out_and_put_in():
    """What stands once on either side holds the rest together."""
    old, new = [str(at) for at in range(100)], [*map(str, range(50)), "x", *map(str, range(50, 100))]
    assert [f"{line.sign}{line.text}" for line in compare_lines(old, new)] == [" 48", " 49", "+x", " 50", " 51"]


def test_changed_words_of_a_line_are_set_apart():
    """Words that are in both versions are not; together the pieces are the line."""
    assert split_changed_words("a red hat", "a blue hat") == [("a ", False), ("red", True), (" hat", False)]
    long = "word " * 500
    assert split_changed_words(long, "word") == [(long, False)]
