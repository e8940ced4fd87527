from __future__ import annotations

import json

import pytest

from antiphon.cli.output.formats import (
    first_line,
    format_time,
    json_line,
    parse_future_time,
    parse_past_time,
    print_list,
    print_text,
)

COLUMNS = {"name": lambda item: item["name"], "size": lambda item: str(item["size"])}
ITEMS = [{"name": "a\x1b[31m\n", "size": 1}, {"name": "b", "size": 2}]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let standard output be a terminal."""
    monkeypatch.setattr("antiphon.cli.output.formats.is_terminal", lambda: True)


def test_json_holds_nothing_a_terminal_obeys():
    """And still the same data."""
    value = {"text": "\x1b[31m\x9b2J\u202e\u2066 é 商品 \U000e0041\n"}
    line = json_line(value)
    assert line.isprintable()
    assert "é 商品" in line
    assert json.loads(line) == value


def test_a_duration_that_no_calendar_has_is_cut():
    """A grant until then could not be listed, nor could any other."""
    for at in (parse_future_time("9999999d", 1e9), parse_past_time("9999999w", 1e9)):
        assert at is not None
        assert format_time(at) in ("9999-12-31T00:00:00Z", "1970-01-01T00:00:00Z")
    assert parse_future_time("2h", 1e9) == 1e9 + 7200


def test_into_a_pipe_a_list_is_lines_with_tabs(capsys: pytest.CaptureFixture[str]):
    """One item a line, whatever is in its text."""
    print_list(ITEMS, COLUMNS, as_json=False, nothing="none")
    print_list([], COLUMNS, as_json=False, nothing="none")
    assert capsys.readouterr().out == "a⟦U+001B⟧[31m⟦U+000A⟧\t1\nb\t2\n"


@pytest.mark.usefixtures("terminal")
def test_on_a_terminal_a_list_is_a_table(capsys: pytest.CaptureFixture[str]):
    """With titles; an empty one says so."""
    print_list(ITEMS, COLUMNS, as_json=False, nothing="none")
    printed = capsys.readouterr().out
    assert "name" in printed
    assert "⟦U+001B⟧[31m⟦U+000A⟧" in printed
    print_list([], COLUMNS, as_json=False, nothing="none")
    assert capsys.readouterr().out == "none\n"


def test_as_json_a_list_is_an_item_a_line(capsys: pytest.CaptureFixture[str]):
    """The items as they are."""
    print_list(ITEMS, COLUMNS, as_json=True, nothing="none")
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == ITEMS


def test_text_goes_into_a_pipe_as_it_is(capsys: pytest.CaptureFixture[str]):
    """It may be data."""
    print_text("a\x1b[31m")
    assert capsys.readouterr().out == "a\x1b[31m\n"


@pytest.mark.usefixtures("terminal")
def test_text_is_inert_on_a_terminal(capsys: pytest.CaptureFixture[str]):
    """A server cannot command it."""
    print_text("a\x1b[31m")
    assert capsys.readouterr().out == "a⟦U+001B⟧[31m\n"


def test_a_cell_holds_the_first_line():
    """Of a description that may be missing."""
    assert [first_line("\n one\ntwo"), first_line(None)] == ["one", ""]


@pytest.mark.usefixtures("terminal")
def test_an_empty_column_is_left_out_of_a_table(capsys: pytest.CaptureFixture[str]):
    """Into a pipe it has its place."""
    print_list(ITEMS, COLUMNS | {"nothing": lambda item: ""}, as_json=False, nothing="none")
    assert capsys.readouterr().out.splitlines()[0].split() == ["name", "size"]


@pytest.mark.usefixtures("terminal")
def test_on_a_narrow_terminal_cells_are_below_each_other(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """Rather than with their words broken; an empty cell is left out, and a long word may be broken."""
    monkeypatch.setenv("COLUMNS", "20")
    items = [{"name": "first thing", "size": 10**9}, {"name": "x" * 30, "size": ""}]
    print_list(items, COLUMNS | {"more": lambda item: "more words"}, as_json=False, nothing="none")
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines[:4] == ["name  first thing", "size  1000000000", "more  more words", ""]
    assert lines[4:6] == ["name  " + "x" * 14, "      " + "x" * 14]
    assert lines[-1] == "more  more words"


@pytest.mark.usefixtures("terminal")
def test_a_long_cell_is_wrapped_beside_the_others(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    """The widest column gives room; columns are counted in cells of the terminal, and no word is broken."""
    monkeypatch.setenv("COLUMNS", "30")
    items = [{"name": "商品", "size": "one two three four five six"}, {"name": "b", "size": "2"}]
    print_list(items, COLUMNS, as_json=False, nothing="none")
    assert capsys.readouterr().out.splitlines() == [
        "name  size",
        "─" * 30,
        "商品  one two three four five",
        "      six",
        "b     2",
    ]
