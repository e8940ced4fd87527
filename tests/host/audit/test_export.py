"""The audit for other programs."""

from __future__ import annotations

import csv
import io
import json

import pytest

from antiphon.host.audit.export import check_lines, csv_lines, json_lines
from antiphon.host.store.chain import Entry, Head, Record, extend


def entries(**more) -> tuple[list[Entry], Head]:
    """Make a chain of three records."""
    record = Record(at=0.5, ask="1", identity="command:x", method="sampling/createMessage", step="received", **more)
    return extend(Head(), [record] * 3)


def test_lines_are_json_and_can_be_checked():
    """One object per record; the end is the same as in the store."""
    made, head = entries()
    lines = list(json_lines(made))
    assert json.loads(lines[0])["record"]["step"] == "received"
    assert check_lines(lines) == (head, None)


@pytest.mark.parametrize("at", [0, 1, 2])
def test_any_changed_byte_of_a_line_is_found(at: int):
    """Whichever it is."""
    lines = list(json_lines(entries()[0]))
    for place in range(len(lines[at]) - 1):
        changed = f"{lines[at][:place]}{chr(ord(lines[at][place]) ^ 1)}{lines[at][place + 1 :]}"
        _, fault = check_lines([*lines[:at], changed, *lines[at + 1 :]])
        assert fault is not None, changed
        assert fault.seq == at + 1


def test_a_line_that_is_missing_is_found():
    """In the middle; a file that was cut off has another end than the store."""
    lines = list(json_lines(entries()[0]))
    assert check_lines([lines[0], lines[2]])[1] is not None
    assert check_lines(lines[:2])[0].seq == 2


def test_a_table_has_a_row_for_each_record():
    """With the time in UTC."""
    rows = list(csv.DictReader(io.StringIO("".join(csv_lines(entries(money=5)[0])))))
    assert (rows[0]["seq"], rows[0]["at"], rows[0]["money"]) == ("1", "1970-01-01T00:00:00.500+00:00", "5")
    assert len(rows) == 3


@pytest.mark.parametrize("cell", ["=1+1", "+1", "-1", "@SUM(A1)", " =1", '"=1', "\uff1d1"])
def test_no_cell_is_a_formula(cell: str):
    """A spreadsheet shows it as text."""
    [row, *_] = csv.DictReader(io.StringIO("".join(csv_lines(entries(by=cell)[0])), newline=""))
    assert row["by"] == f"'{cell}"


@pytest.mark.parametrize("separator", [";", ",", "|", "\t"])
@pytest.mark.parametrize("cell", ["a{}=1+1", "a{} @x", 'a{}"=1"', "a\n=1{}-2", "{}+1", "a\r\n{}=1"])
def test_no_cell_is_a_formula_wherever_it_is_split(cell: str, separator: str):
    """Spreadsheets of many countries split at another separator, and end rows within what was quoted for a comma."""
    text = "".join(csv_lines(entries(by=cell.format(separator))[0]))
    for split in (";", "|", "\t"):
        for line in text.splitlines():
            for part in line.split(split):
                assert not part.lstrip(" \"'").startswith(("=", "+", "-", "@")) or part.lstrip().startswith("'"), part


def test_a_table_holds_no_control_characters():
    """They are marked as everywhere a person reads them; a sheet, a terminal or a mail does not obey them."""
    [row, *_] = csv.DictReader(io.StringIO("".join(csv_lines(entries(by="a\x1b[2J\x00\n\u202eb")[0])), newline=""))
    assert row["by"] == "a⟦U+001B⟧[2J⟦U+0000⟧⟦U+000A⟧⟦U+202E⟧b"


def test_a_table_in_parts_has_one_heading():
    """As whoever writes page after page needs it."""
    made, _ = entries()
    assert list(csv_lines(made[:1])) + list(csv_lines(made[1:], heading=False)) == list(csv_lines(made))
