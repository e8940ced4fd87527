"""The audit, written for other programs: JSON Lines, which can be checked again, and CSV, which a spreadsheet opens.

Pure. Owns the two forms. Nothing in a CSV is ever a formula.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

import msgspec

from antiphon.host.store.chain import Entry, Fault, Head, Record, verify

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
    "model",
    "input_tokens",
    "output_tokens",
    "money",
    "grant",
    "by",
)
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_CANONICAL = msgspec.json.Encoder(order="sorted")


def json_lines(entries: Iterable[Entry]) -> Iterator[str]:
    """Write one JSON object per line: the record in its place, and its hash."""
    for entry in entries:
        yield f'{{"hash":"{entry.hash}",{entry.body[1:]}\n'


def check_lines(lines: Iterable[str]) -> tuple[Head, Fault | None]:
    """Check a file that ``json_lines`` wrote. Returns the end reached, and the first fault."""
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
        head, fault = verify([Entry(seq=seq, body=body, hash=hashed)], head)
        if fault is not None:
            return head, fault
    return head, None


def csv_lines(entries: Iterable[Entry]) -> Iterator[str]:
    """Write a table with a heading (RFC 4180). Times are ISO 8601 in UTC, money is nano-dollars."""
    yield _row(["seq", *_COLUMNS, "hash"])
    for entry in entries:
        record = entry.record
        yield _row([entry.seq, *(_cell(record, column) for column in _COLUMNS), entry.hash])


def _cell(record: Record, column: str) -> object:
    value = getattr(record, column)
    if column == "at":
        return datetime.fromtimestamp(record.at, UTC).isoformat(timespec="milliseconds")
    if isinstance(value, str) and value.startswith(_FORMULA):
        # A spreadsheet would compute it; after an apostrophe it is text.
        return f"'{value}"
    return "" if value is None else value


def _row(cells: list[object]) -> str:
    text = io.StringIO()
    csv.writer(text).writerow(cells)
    return text.getvalue()
