"""Export of the whole record, to standard output or to a file of mode 0600 that is written completely or not at all."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec

from antiphon.cli.failures import Failed
from antiphon.cli.output.formats import is_terminal, write_line
from antiphon.host.audit.export import csv_lines, json_lines
from antiphon.host.checks.visible import inert_line
from antiphon.host.store import Store
from antiphon.host.store.chain import Entry
from antiphon.machine.files import replaced_file

__all__ = ["Format", "export"]

Format = Literal["jsonl", "csv"]
_PAGE = 1_000


async def export(store: Store, form: Format, output: Path | None) -> int:
    """Write all records, and return how many there were.

    Raises:
        Failed: a record cannot be read.
    """
    count = 0
    with _opened(output) as write:
        async for page in _pages(store):
            try:
                lines = list(json_lines(page) if form == "jsonl" else csv_lines(page, heading=count == 0))
            except msgspec.DecodeError:
                raise Failed("a record cannot be read: antiphon audit verify") from None
            for line in lines:
                write(line)
            count += len(page)
    return count


async def _pages(store: Store) -> AsyncIterator[list[Entry]]:
    after = 0
    while page := await store.entries(after, _PAGE):
        yield page
        after = page[-1].seq


@contextmanager
def _opened(output: Path | None) -> Generator[Callable[[str], object]]:
    if output is None or str(output) == "-":
        yield _printed
        return
    with replaced_file(output) as file:
        yield lambda line: file.write(line.encode())


def _printed(line: str) -> None:
    """Print a line unchanged into a pipe; on a terminal, control characters are marked."""
    text = line.rstrip("\r\n")
    if not is_terminal():
        write_line(text)
    else:
        write_line(inert_line(text))
