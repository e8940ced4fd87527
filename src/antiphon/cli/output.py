"""How commands print data: tables on a terminal, tab-separated lines into a pipe, JSON lines when asked for.

Text from a server is made inert before it reaches a terminal. Messages to the person beside the data are ``telling``'s.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TextIO, TypeVar

from antiphon.host.visible import inert, inert_line, replace_hidden
from antiphon.wire.envelope import encode

__all__ = ["first_line", "is_terminal", "json_line", "print_json", "print_list", "print_text", "write_line"]

T = TypeVar("T")


def is_terminal() -> bool:
    """Tell whether standard output is a terminal."""
    return sys.stdout.isatty()


def json_line(value: object) -> str:
    """Encode a value as one line of JSON, in which whatever a terminal would obey is escaped."""
    return replace_hidden(encode(value).decode(), lambda char: json.dumps(char)[1:-1])


def write_line(text: str, stream: TextIO | None = None) -> None:
    """Write a line, at once; to standard output by default. A reader that has gone (``| head``) is no failure."""
    file = stream or sys.stdout
    try:
        print(text, file=file, flush=True)
    except BrokenPipeError:
        # What follows goes nowhere, even what Python itself flushes at its end.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, file.fileno())
        os.close(nowhere)


def print_json(value: object) -> None:
    """Print a value as one line of JSON, at once."""
    write_line(json_line(value))


def print_list(items: Sequence[T], columns: Mapping[str, Callable[[T], str]], *, as_json: bool, nothing: str) -> None:
    """Print a list: a table on a terminal, else lines with tabs between the cells; or each item as a line of JSON.

    ``columns``: title, and how a cell is made of an item. ``nothing``: what to say (not into pipes) of an empty list.
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
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE, header_style="bold", pad_edge=False, show_edge=False)
    for title in titles:
        table.add_column(title, overflow="fold")
    for row in rows:
        table.add_row(*(Text(inert_line(cell)) for cell in row))
    # Both: rich takes no width by itself where the terminal is a dumb one.
    width, height = shutil.get_terminal_size()
    Console(width=width, height=height).print(table)


def print_text(text: str) -> None:
    """Print text of a server: inert on a terminal, as it is into a pipe."""
    write_line(inert(text) if is_terminal() else text)


def first_line(text: str | None) -> str:
    """Return the first line of a description, for a cell."""
    return (text or "").strip().partition("\n")[0]
