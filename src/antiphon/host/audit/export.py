"""The audit, written for other programs: JSON Lines, which can be checked again, and CSV, which a spreadsheet opens.

Pure. Owns the two forms. No cell of a CSV is a formula, whichever separator a spreadsheet splits at, and none holds a
control character.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

import msgspec

from antiphon.host.checks.visible import inert_line
from antiphon.host.store.chain import Entry, Fault, Head, Record, missing, noted_heads, other_than, verify

__all__ = ["check_lines", "csv_lines", "json_lines"]

_COLUMNS = (
    "at",
    "ask",
    "identity",
    "method",
    "step",
    "outcome",
    "digest",
    "host",
    "call",
    "server",
    "tool",
    "model",
    "input_tokens",
    "output_tokens",
    "money",
    "grant",
    "by",
    "reason",
    "told",
)
# Spreadsheets of many countries split at ";", whatever is quoted for ",": a formula may begin after any separator, and
# also behind blanks and quotes. The wide forms are computed by some of them, too.
_FORMULA = re.compile(r"(?:^|(?<=[,;|]))(?=[\s\"']*[=+\-@\uff1d\uff0b\uff0d\uff20])")
_PLAIN = re.compile(r"[0-9A-Za-z_.:/][0-9A-Za-z_.:/ -]*")
"""What most cells are: no formula, nothing to mark."""
_CANONICAL = msgspec.json.Encoder(order="sorted")


def json_lines(entries: Iterable[Entry]) -> Iterator[str]:
    """Write one JSON object per line: the record in its place, and its hash."""
    for entry in entries:
        yield f'{{"hash":"{entry.hash}",{entry.body[1:]}\n'


def check_lines(lines: Iterable[str], known: Iterable[Head] = ()) -> tuple[Head, Fault | None]:
    """Check a file that ``json_lines`` wrote, and that it has the ends that were noted.

    Returns the end reached, and the first fault.
    """
    noted = noted_heads(known)
    head = Head()
    for number, line in enumerate(lines, 1):
        try:
            fields = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
            hashed = msgspec.json.decode(fields.pop("hash", msgspec.Raw(b"null")), type=str)
            seq = msgspec.json.decode(fields.get("seq", msgspec.Raw(b"null")), type=int)
        except msgspec.MsgspecError:
            return head, Fault(seq=number, problem="the line cannot be read")
        body = _CANONICAL.encode(fields).decode()
        # A line that is written in another way, but says the same, is another line.
        if line.rstrip("\n") != f'{{"hash":"{hashed}",{body[1:]}':
            return head, Fault(seq=number, problem="the record was changed: it is not in its canonical form")
        entry = Entry(seq=seq, body=body, hash=hashed)
        head, fault = verify([entry], head)
        fault = fault or other_than(noted, [entry])
        if fault is not None:
            return head, fault
    return head, missing(noted, head)


def csv_lines(entries: Iterable[Entry], *, heading: bool = True) -> Iterator[str]:
    """Write a table (RFC 4180), ``heading`` first. Times are ISO 8601 in UTC, money is nano-dollars.

    What cannot be seen is written as a mark, as everywhere a person reads it: the JSON Lines have it as it is.
    """
    if heading:
        yield _row(["seq", *_COLUMNS, "hash"])
    for entry in entries:
        record = entry.record
        yield _row([entry.seq, *(_cell(record, column) for column in _COLUMNS), entry.hash])


def _cell(record: Record, column: str) -> object:
    value = getattr(record, column)
    if column == "at":
        return datetime.fromtimestamp(record.at, UTC).isoformat(timespec="milliseconds")
    if isinstance(value, str) and not _PLAIN.fullmatch(value):
        # After an apostrophe it is text.
        return _FORMULA.sub("'", inert_line(value))
    return "" if value is None else value


class _Line:
    """A file that hands on what is written to it: one line at a time needs no buffer."""

    def write(self, text: str) -> str:
        return text


_WRITER = csv.writer(_Line())


def _row(cells: list[object]) -> str:
    return str(_WRITER.writerow(cells))
