"""Output of data: tables on a terminal, tab-separated lines into a pipe, or JSON lines.

Text of a server is made inert before it reaches a terminal. ``progress`` writes everything other than data.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TextIO, TypeVar

from antiphon.host.checks.visible import inert, inert_line, replace_hidden
from antiphon.wire.envelope import encode

__all__ = [
    "first_line",
    "is_interactive",
    "is_terminal",
    "json_line",
    "print_json",
    "print_list",
    "print_text",
    "write_line",
]

if TYPE_CHECKING:
    from rich.table import Table

T = TypeVar("T")

_GAP = 2
"""Spaces between two columns."""
_LONG_WORD = 24
"""Characters from which a word may be broken: an address, or an identity."""


def is_interactive() -> bool:
    """Return whether a person can be asked: standard input and output are a terminal."""
    return sys.stdin.isatty() and is_terminal()


def is_terminal() -> bool:
    """Tell whether standard output is a terminal."""
    return sys.stdout.isatty()


def json_line(value: object) -> str:
    """Encode a value as one line of JSON, with control characters of terminals escaped."""
    return replace_hidden(encode(value).decode(), lambda char: json.dumps(char)[1:-1])


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


def _print_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console

    # Both are given, because rich ignores a width alone if the terminal is a dumb one.
    width, height = shutil.get_terminal_size()
    # Empty columns would take room from the others.
    kept = [at for at in range(len(titles)) if any(row[at] for row in rows)]
    titles = [titles[at] for at in kept]
    inert_rows = [[inert_line(row[at]) for at in kept] for row in rows]
    widths = _needed(titles, inert_rows)
    fits = sum(widths) + _GAP * (len(widths) - 1) <= width
    table = _side_by_side(titles, inert_rows, widths) if fits else _one_below_the_other(titles, inert_rows)
    Console(width=width, height=height).print(table)


def _needed(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    """Return the width of each column, so that only very long words are broken."""
    from rich.cells import cell_len

    columns = zip(titles, *rows, strict=True)
    longest = [max(cell_len(word) for cell in column for word in (cell.split() or [""])) for column in columns]
    return [min(each, _LONG_WORD) for each in longest]


def _side_by_side(titles: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[int]) -> Table:
    from rich.box import SIMPLE
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE, header_style="bold", pad_edge=False, show_edge=False, padding=(0, _GAP - 1, 0, 0))
    for title, width in zip(titles, widths, strict=True):
        table.add_column(title, overflow="fold", min_width=width)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def _one_below_the_other(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Make a table for a narrow terminal: each cell on a line of its own, and an empty line between rows."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, _GAP, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for at, row in enumerate(rows):
        if at:
            table.add_row("", "")
        for title, cell in zip(titles, row, strict=True):
            if cell:
                table.add_row(title, Text(cell))
    return table


def print_text(text: str) -> None:
    """Print a server's text: inert on a terminal, unchanged into a pipe."""
    write_line(inert(text) if is_terminal() else text)


def first_line(text: str | None) -> str:
    """Return the first line of a description, for a cell."""
    return (text or "").strip().partition("\n")[0]
