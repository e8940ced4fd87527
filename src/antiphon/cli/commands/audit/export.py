"""Records for other programs: written to a file, or sent to a collector, once or as they come.

A file of mode 0600 is written completely or not at all; one that is followed grows by whole lines. Owns the position up
to which records were passed on: a record is passed on again rather than lost.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec

from antiphon.cli.arguments import read_input
from antiphon.cli.error_messages import Failed
from antiphon.cli.output.formats import is_terminal, write_line
from antiphon.errors import ConfigError
from antiphon.host.audit import csv_lines, json_lines
from antiphon.host.audit_events import make_log_request, ocsf_lines, otel_lines
from antiphon.host.checks.visible import inert_line
from antiphon.host.review.notify import post_json
from antiphon.host.store import Store
from antiphon.host.store.chain import Entry
from antiphon.machine.files import open_replacement, replace_file

Format = Literal["jsonl", "csv", "ocsf", "otel"]
_PAGE = 1_000
_LOOK = 2.0
"""Seconds between two looks at a store that another process may write to."""
_TIMEOUT, _LONGEST_PAUSE = 10.0, 60.0
"""Seconds that a collector has to take records, and the most that are waited before it is asked again."""
_LINES: Mapping[str, Callable[[Iterable[Entry]], Iterator[str]]] = {
    "jsonl": json_lines,
    "ocsf": ocsf_lines,
    "otel": otel_lines,
}


class ExportPosition:
    """The number of the last record that was passed on, kept in a file if one is given."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        text = "0" if file is None or not file.exists() else read_input(file, 100).decode().strip()
        if not text.isdecimal():
            raise ConfigError(f"{file}: holds no number of a record")
        self.seq = int(text)
        self.count = 0

    def advance(self, page: Sequence[Entry]) -> None:
        """Note that these records were passed on."""
        self.seq, self.count = page[-1].seq, self.count + len(page)
        if self._file is not None:
            replace_file(self._file, f"{self.seq}\n".encode())


async def export_records(
    store: Store, form: Format, output: Path | None, position: ExportPosition, *, follow: bool
) -> None:
    """Write the records behind a position, and with ``follow`` those that come."""
    with _append_lines(output) if follow or position.seq else _open_output(output) as write:
        async for page in _read_pages(store, position, follow=follow):
            try:
                lines = list(csv_lines(page, heading=position.seq == 0) if form == "csv" else _LINES[form](page))
            except msgspec.DecodeError:
                raise Failed("a record cannot be read: antiphon audit verify") from None
            for line in lines:
                write(line)
            position.advance(page)


async def send_records(store: Store, collector: str, position: ExportPosition, *, follow: bool) -> None:
    """Send the records behind a position to a collector of OpenTelemetry, and with ``follow`` those that come.

    Raises:
        Failed: the collector does not take them; with ``follow`` it is asked again instead.
    """
    if not collector.startswith(("https://", "http://")):
        raise ConfigError("--collector is a URL: http://127.0.0.1:4318")
    address = collector if collector.endswith("/v1/logs") else f"{collector.rstrip('/')}/v1/logs"
    async for page in _read_pages(store, position, follow=follow):
        pause = 1.0
        while not await _post_page(address, page):
            if not follow:
                raise Failed(f"the collector took the records up to {position.seq}, and no more")
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        position.advance(page)


async def _post_page(address: str, page: Sequence[Entry]) -> bool:
    try:
        async with asyncio.timeout(_TIMEOUT):
            await post_json(address, make_log_request(page))
    except Exception as error:
        # The address may contain a secret, and so may an error that quotes it.
        write_line(f"the collector did not take {len(page)} records: {type(error).__name__}", sys.stderr)
        return False
    return True


async def _read_pages(store: Store, position: ExportPosition, *, follow: bool) -> AsyncIterator[Sequence[Entry]]:
    with store.news.listening() as news:
        while True:
            while page := await store.entries(position.seq, _PAGE):
                yield page
            if not follow:
                return
            await news.wait(_LOOK)


@contextmanager
def _append_lines(output: Path | None) -> Generator[Callable[[str], object]]:
    if output is None or str(output) == "-":
        yield _print_line
        return
    with os.fdopen(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab", buffering=0) as file:
        yield lambda line: file.write(line.encode())


@contextmanager
def _open_output(output: Path | None) -> Generator[Callable[[str], object]]:
    if output is None or str(output) == "-":
        yield _print_line
        return
    with open_replacement(output) as file:
        yield lambda line: file.write(line.encode())


def _print_line(line: str) -> None:
    """Print a line unchanged into a pipe; on a terminal, control characters are marked."""
    text = line.rstrip("\r\n")
    if not is_terminal():
        write_line(text)
    else:
        write_line(inert_line(text))
