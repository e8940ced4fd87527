"""What commands print: tables on a terminal, tab-separated lines into a pipe, or JSON lines; and errors as messages.

Text of a server is made inert before it reaches a terminal. ``progress`` writes everything other than data.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from itertools import zip_longest
from typing import TextIO, TypeVar

import click

from antiphon.errors import AntiphonError, ConfigError, Rejected
from antiphon.host.budget import convert_to_nano, format_dollars
from antiphon.host.checks.visible import cells_of, inert_line, make_inert, replace_hidden, wrap_line
from antiphon.host.models.selection import Candidate, Selection
from antiphon.wire.envelope import encode_value

FAILED = 1
WRONG_USAGE = 2


class Failed(Exception):
    """A command has failed. The message names the place; ``code`` is the exit code."""

    def __init__(self, message: str, code: int = FAILED) -> None:
        super().__init__(message)
        self.code = code


@contextmanager
def prefix_errors(place: str) -> Generator[None]:
    """Prefix the message of any error of this library raised inside with the name of a place."""
    try:
        yield
    except (AntiphonError, Failed) as error:
        told = explain_error(error)
        # An error on the way to an address names the address already.
        said = told if "://" in place and place in told else f"{place}: {told}"
        raise Failed(said, exit_code(error)) from error


def exit_code(error: Exception) -> int:
    """Return the exit code for an error: 2 if input or configuration is wrong, else 1."""
    if isinstance(error, Failed):
        return error.code
    return WRONG_USAGE if isinstance(error, ConfigError) else FAILED


def explain_error(error: BaseException) -> str:
    """Return the text of an error, with its notes."""
    if isinstance(error, Failed | AntiphonError):
        text = str(error)
    elif isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    else:
        text = f"unexpected {type(error).__name__}: {error} (ANTIPHON_DEBUG=1 shows where)"
    # A person's reason for a refusal belongs to the line of the refusal.
    return ("; " if isinstance(error, Rejected) else "\n").join([text, *getattr(error, "__notes__", ())])


def report_error(error: Exception) -> int:
    """Write an error to standard error, lines that it may quote from a server set in, and return the exit code."""
    write_line(f"antiphon: {make_inert(explain_error(error))}".replace("\n", "\n  "), sys.stderr)
    return exit_code(error)


def find_json_mistake(data: bytes) -> str | None:
    """Say where a text is not JSON, by line and column; ``None`` if it is JSON."""
    try:
        json.loads(data)
    except json.JSONDecodeError as error:
        return f"line {error.lineno}, column {error.colno}: {error.msg}"
    except UnicodeDecodeError as error:
        return f"byte {error.start}: not UTF-8"
    except (RecursionError, ValueError) as error:
        return "too deep" if isinstance(error, RecursionError) else "a number is too long"
    return None


T = TypeVar("T")

_GAP = 2
"""Spaces between two columns."""
_LONG_WORD = 24
"""Characters from which a word may be broken: an address, or an identity."""


def is_interactive() -> bool:
    """Return whether a person can be asked: standard input and output are a terminal."""
    return sys.stdin.isatty() and is_terminal()


def is_terminal() -> bool:
    """Return whether standard output is a terminal."""
    return sys.stdout.isatty()


def json_line(value: object) -> str:
    """Encode a value as one line of JSON, with control characters of terminals escaped."""
    return replace_hidden(encode_value(value).decode(), lambda char: json.dumps(char)[1:-1])


def write_line(text: str, stream: TextIO | None = None) -> None:
    """Write a line and flush; to standard output by default. Errors are as for ``discard_output``."""
    file = stream or sys.stdout
    try:
        print(text, file=file, flush=True)
    except OSError as error:
        discard_output(file, error)


def discard_output(stream: TextIO, error: OSError) -> None:
    """Discard all further output of a stream that cannot be written, including what Python flushes at exit.

    A reader that has gone (``| head``) is no error, and nobody reads why standard error cannot be written. Raises
    ``Failed``: what is lost is data.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
    if stream is sys.stdout and not isinstance(error, BrokenPipeError):
        raise Failed(f"standard output: {error.strerror}") from None


def print_json(value: object) -> None:
    """Print a value as one line of JSON, and flush."""
    write_line(json_line(value))


def print_list(
    items: Sequence[T],
    columns: Mapping[str, Callable[[T], str]],
    *,
    as_json: bool,
    nothing: str,
    encode: Callable[[T], object] = lambda item: item,
) -> None:
    """Print a list: a table on a terminal, else tab-separated lines; or each item as a line of JSON.

    ``columns``: titles, with functions from an item to a cell. ``nothing``: the text (not into pipes) for an empty
    list. ``encode``: returns what is printed of an item as JSON, by default all of it.
    """
    if as_json:
        for item in items:
            print_json(encode(item))
    elif not is_terminal():
        for item in items:
            write_line("\t".join(inert_line(cell(item)) for cell in columns.values()))
    elif not items:
        print(nothing)
    else:
        _print_table(list(columns), [[cell(item) for cell in columns.values()] for item in items])


def paint_text(text: str, style: str) -> str:
    """Give a text a style, such as ``bold red``, unless the environment wants none. ``click.echo`` prints it."""
    words = style.split()
    if not words or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    colors = [word for word in words if word not in ("bold", "dim")]
    return click.style(text, fg=colors[0] if colors else None, bold="bold" in words or None, dim="dim" in words or None)


def _print_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    width = shutil.get_terminal_size().columns
    # Empty columns would take room from the others.
    kept = [at for at in range(len(titles)) if any(row[at] for row in rows)]
    titles = [titles[at] for at in kept]
    inert_rows = [[inert_line(row[at]) for at in kept] for row in rows]
    columns = zip(titles, *inert_rows, strict=True)
    # Only very long words are broken.
    longest = [max(cells_of(word) for cell in column for word in (cell.split() or [""])) for column in columns]
    widths = [min(each, _LONG_WORD) for each in longest]
    fits = sum(widths) + _GAP * (len(widths) - 1) <= width
    lines = _side_by_side(titles, inert_rows, widths, width) if fits else _stack_cells(titles, inert_rows, width)
    for line in lines:
        click.echo(line)


def _side_by_side(
    titles: Sequence[str], rows: Sequence[Sequence[str]], least: Sequence[int], width: int
) -> Iterator[str]:
    """Lay out a table: each column as wide as its cells, or narrower, the widest first, but not below ``least``."""
    widths = [min(width, max(map(cells_of, column))) for column in zip(titles, *rows, strict=True)]
    while sum(widths) + _GAP * (len(widths) - 1) > width:
        at = max(range(len(widths)), key=lambda one: (widths[one] > least[one], widths[one]))
        widths[at] -= 1
    yield paint_text(_in_columns(titles, widths).rstrip(), "bold")
    yield "─" * (sum(widths) + _GAP * (len(widths) - 1))
    for row in rows:
        wrapped = [wrap_line(cell, size) for cell, size in zip(row, widths, strict=True)]
        yield from (_in_columns(parts, widths).rstrip() for parts in zip_longest(*wrapped, fillvalue=""))


def _in_columns(parts: Sequence[str], widths: Sequence[int]) -> str:
    padded = (part + " " * (size - cells_of(part) + _GAP) for part, size in zip(parts, widths, strict=True))
    return "".join(padded)


def _stack_cells(titles: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Lay out a table for a narrow terminal: each cell on a line of its own, and an empty line between rows."""
    label = max(map(cells_of, titles))
    for at, row in enumerate(rows):
        if at:
            yield ""
        for title, cell in zip(titles, row, strict=True):
            for number, part in enumerate(wrap_line(cell, max(2, width - label - _GAP)) if cell else ()):
                beside = _in_columns([title if number == 0 else ""], [label])
                yield paint_text(beside, "bold") + part


def print_text(text: str) -> None:
    """Print a server's text: inert on a terminal, unchanged into a pipe."""
    write_line(make_inert(text) if is_terminal() else text)


def first_line(text: str | None) -> str:
    """Return the first line of a description, for a cell."""
    return (text or "").strip().partition("\n")[0]


_LENGTH = re.compile(r"(?P<number>\d{1,9}) *(?P<unit>[smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_END = 253_402_214_400.0
"""The last day that can be shown as a date: 9999-12-31."""
_MOST_DOLLARS = 1_000_000_000


def parse_past_time(text: str | None, now: float) -> float | None:
    """Read a time in the past: a duration ago (``7d``), or a date."""
    return None if text is None else parse_moment("--since", text, now, -1)


def parse_future_time(text: str | None, now: float) -> float | None:
    """Read a time in the future: a duration from now (``2h``), or a date."""
    if text is None:
        return None
    end = parse_moment("--until", text, now, 1)
    if end <= now:
        raise ConfigError(f"--until: {text} is over")
    return end


def parse_moment(option: str, text: str, now: float, direction: int) -> float:
    """Read a duration from now in this direction, or an ISO 8601 date or time (UTC unless it says otherwise)."""
    length = _LENGTH.fullmatch(text.strip())
    if length:
        moment = now + direction * int(length["number"]) * _SECONDS[length["unit"]]
    else:
        try:
            read = datetime.fromisoformat(text)
        except ValueError:
            raise ConfigError(
                f"{option}: {text!r} is not a time: write 30m, 12h, 7d, 2026-12-01 or 2026-12-01T18:00"
            ) from None
        moment = (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()
    return min(max(0.0, moment), _END)


def parse_money(option: str, text: str | None) -> int | None:
    """Read an amount of US dollars as nano-dollars."""
    if text is None:
        return None
    try:
        amount = Decimal(text.removeprefix("$"))
    except InvalidOperation:
        amount = Decimal(-1)
    if not (amount.is_finite() and 0 < amount <= _MOST_DOLLARS):
        raise ConfigError(f"{option}: not a sum in dollars: {text!r}")
    return convert_to_nano(amount)


def format_time(at: float | None) -> str:
    """Format a time for people and programs: ISO 8601 in UTC, to the second."""
    return "" if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def make_score_columns(selection: Selection) -> Mapping[str, Callable[[Candidate], str]]:
    """Return the columns of the score table, with functions for the cells."""
    return {
        "model": lambda each: each.name,
        "eligible": lambda each: "; ".join(one.detail for one in each.obstacles) or "yes",
        "hints": lambda each: _describe_hint(each, selection),
        "at worst": lambda each: "unknown" if each.cost is None else format_dollars(convert_to_nano(each.cost)),
        "cost": lambda each: _format_score(each.scores.cost if each.scores else None),
        "speed": lambda each: _format_score(each.scores.speed if each.scores else None),
        "intelligence": lambda each: _format_score(each.scores.intelligence if each.scores else None),
        "score": lambda each: _format_score(each.scores.total if each.scores else None),
    }


def describe_verdict(selection: Selection) -> str:
    """Say which model was chosen, and by which rule."""
    if selection.winner is None:
        return "none of them can answer"
    rules = {
        "score": "the best score by " + ", ".join(f"{name} {value:g}" for name, value in selection.priorities.items()),
        "default": "your default",
        "order": "the first of your order",
    }
    hint = f", among those that the hint {selection.hint!r} leaves" if selection.hint is not None else ""
    return f"{selection.winner}: {rules.get(selection.rule, selection.rule)}{hint}"


def _describe_hint(candidate: Candidate, selection: Selection) -> str:
    if selection.hint is None:
        return "none followed" if candidate.eligible else "-"
    return f"{selection.match}: {selection.hint}" if candidate.left_by_hints else "-"


def _format_score(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
