"""Exports of the audit: JSON Lines, which can be verified again, and CSV for spreadsheets.

Pure. No cell of a CSV is a formula, whichever separator a spreadsheet splits at, and none contains a control character.
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
    "task",
    "model",
    "input_tokens",
    "output_tokens",
    "money",
    "grant",
    "by",
    "reason",
    "told",
)
# In many countries spreadsheets split at ";", even inside quotes made for ",": a formula may begin after any
# separator, blanks and quotes. Some also evaluate the full-width forms of these characters.
_FORMULA = re.compile(r"(?:^|(?<=[,;|]))(?=[\s\"']*[=+\-@\uff1d\uff0b\uff0d\uff20])")
_PLAIN = re.compile(r"[0-9A-Za-z_.:/][0-9A-Za-z_.:/ -]*")
"""Matches most cells: no formula, and nothing to mark."""
_CANONICAL = msgspec.json.Encoder(order="sorted")


def json_lines(entries: Iterable[Entry]) -> Iterator[str]:
    """Yield one JSON object per line: the record in its place, and its hash."""
    for entry in entries:
        yield f'{{"hash":"{entry.hash}",{entry.body[1:]}\n'


def check_lines(lines: Iterable[str], known: Iterable[Head] = ()) -> tuple[Head, Fault | None]:
    """Verify a file written by ``json_lines``, and that it contains the known ends of the chain.

    Returns the end that was reached, and the first fault.
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
        # A line with the same meaning in another spelling is not the line that was hashed.
        if line.rstrip("\n") != f'{{"hash":"{hashed}",{body[1:]}':
            return head, Fault(seq=number, problem="the record was changed: it is not in its canonical form")
        entry = Entry(seq=seq, body=body, hash=hashed)
        head, fault = verify([entry], head)
        fault = fault or other_than(noted, [entry])
        if fault is not None:
            return head, fault
    return head, missing(noted, head)


def csv_lines(entries: Iterable[Entry], *, heading: bool = True) -> Iterator[str]:
    """Yield the lines of a table (RFC 4180), ``heading`` first. Times are ISO 8601 in UTC, money is nano-dollars.

    Invisible characters are replaced by marks, as wherever a person reads them; the JSON Lines have them unchanged.
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
        # After an apostrophe a cell is text.
        return _FORMULA.sub("'", inert_line(value))
    return "" if value is None else value


class _Line:
    """A file object that returns what is written to it, so that one line at a time needs no buffer."""

    def write(self, text: str) -> str:
        return text


_WRITER = csv.writer(_Line())


def _row(cells: list[object]) -> str:
    return str(_WRITER.writerow(cells))
