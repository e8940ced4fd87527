"""Output of data: tables on a terminal, tab-separated lines into a pipe, or JSON lines.

Text of a server is made inert before it reaches a terminal. ``progress`` writes everything other than data.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import TextIO, TypeVar

import click

from antiphon.host.checks.visible import cells_of, inert_line, make_inert, replace_hidden, wrap_line
from antiphon.wire.envelope import encode_value

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
    """Write a line and flush; to standard output by default. A reader that has gone (``| head``) is no error."""
    file = stream or sys.stdout
    try:
        print(text, file=file, flush=True)
    except BrokenPipeError:
        # Discard all further output, including what Python flushes at exit.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, file.fileno())
        os.close(nowhere)


def print_json(value: object) -> None:
    """Print a value as one line of JSON, and flush."""
    write_line(json_line(value))


def print_list(items: Sequence[T], columns: Mapping[str, Callable[[T], str]], *, as_json: bool, nothing: str) -> None:
    """Print a list: a table on a terminal, else tab-separated lines; or each item as a line of JSON.

    ``columns``: titles, with functions from an item to a cell. ``nothing``: the text (not into pipes) for an empty
    list.
    """
    if as_json:
        for item in items:
            print_json(item)
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
    widths = _measure_columns(titles, inert_rows)
    fits = sum(widths) + _GAP * (len(widths) - 1) <= width
    lines = _side_by_side(titles, inert_rows, widths, width) if fits else _stack_cells(titles, inert_rows, width)
    for line in lines:
        click.echo(line)


def _measure_columns(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    """Return the width of each column, so that only very long words are broken."""
    columns = zip(titles, *rows, strict=True)
    longest = [max(cells_of(word) for cell in column for word in (cell.split() or [""])) for column in columns]
    return [min(each, _LONG_WORD) for each in longest]


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
