"""Records as lines or as a file, all records of one ask, and spending as a table with bars: by day, server or model.

Owns the columns, the sums and the drawing. The records, and the usage of a request, are the host's ``audit``.
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
from antiphon.cli.output.formats import Failed, format_time, is_terminal, print_json, print_list, write_line
from antiphon.errors import ConfigError
from antiphon.host.audit import csv_lines, json_lines, make_log_request, ocsf_lines, otel_lines
from antiphon.host.budget import format_dollars
from antiphon.host.checks.visible import inert_line
from antiphon.host.review.history import count_tokens, sum_up_rows
from antiphon.host.review.question import Outcome
from antiphon.host.review.summary import load_texts, outcome_text
from antiphon.host.store import Store
from antiphon.host.store import ask_rows as gathering
from antiphon.host.store.ask_rows import SpentRow
from antiphon.host.store.base import MAX_NUMBER
from antiphon.host.store.chain import Entry, Record, RecordSearch
from antiphon.machine.files import open_replacement, replace_file

_PAGE = 400
"""Records read at once."""
_SET_BACK = 86_400.0
"""Seconds by which a clock may have been set back between two records, so that later ones seem to be older."""
_FAR = 20_000
"""Most records between one that is listed and the first one of its ask, which are all read to find it."""
_WIDEST = 30
"""Characters of a server in a table. The end of a command line or URL says more than its beginning."""
_DIGITS = 8
"""Hexadecimal digits of an identity in a table: enough to distinguish a user's servers."""

By = Literal["day", "server", "model", "all"]
_BAR = 30
"""Cells of the longest bar."""
_EIGHTHS = " ▏▎▍▌▋▊▉"
NamedSum = tuple[str, SpentRow]
"""A name, and what was spent under it."""


class NamedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record and its number, with the names that the first record of its ask has."""

    seq: int
    record: Record
    server: str | None = None
    tool: str | None = None


async def find_records(store: Store, search: RecordSearch, limit: int | None = None) -> AsyncIterator[NamedRecord]:
    """Yield records in the order of the search, with the server and tool that the first record of their ask names."""
    servers: dict[str, str] = {}
    tools: dict[tuple[str, str, str], str | None] = {}
    left = limit
    while (left is None or left > 0) and (page := await store.find_records(search, min(left or _PAGE, _PAGE))):
        read = [decode_entry(entry) for entry in page]
        found = [placed for placed in read if placed.record in search]
        for placed in found:
            record, ask = placed.record, ask_of(placed.record)
            if ask in tools:
                continue
            first = record if record.server is not None else await _first_of(store, ask, placed.seq)
            tools[ask] = first and first.tool
            if first is not None and first.server is not None:
                servers[record.identity] = first.server
        for placed in found:
            ask = ask_of(placed.record)
            yield msgspec.structs.replace(placed, server=servers.get(ask[2]), tool=tools[ask])
        left = None if left is None else left - len(found)
        if search.after is None and all(placed.record.at < (search.since or 0.0) - _SET_BACK for placed in read):
            # Records are in the order of time but for a clock that was set, so that those before are older as well.
            return
        end = page[-1].seq
        search = msgspec.structs.replace(search, **({"before": end} if search.after is None else {"after": end}))


async def _first_of(store: Store, ask: tuple[str, str, str], seq: int) -> Record | None:
    """Return the record before ``seq`` that names the server of an ask; another process may number its asks alike.

    An ask whose first record is far away is shown without its server.
    """
    search = RecordSearch(ask=ask, step="received", before=seq, after=max(0, seq - _FAR))
    page = [decode_entry(entry).record for entry in await store.find_records(search, 20)]
    return next((record for record in reversed(page) if record in search and record.server is not None), None)


def ask_of(record: Record) -> tuple[str, str, str]:
    """Return the key that only the records of one ask share."""
    return record.host, record.ask, record.identity


def describe_outcome(records: list[NamedRecord]) -> str:
    """Say what became of the answer; empty if there was none, or it is not known."""
    asks: dict[gathering.AskKey, gathering.AskRow] = {}
    gathering.gather_rows(asks, (gathering.NumberedRecord(placed.seq, placed.record) for placed in records))
    arrival = next((row.arrival for row in asks.values()), None)
    return "" if arrival is None else outcome_text(Outcome(became=arrival.became, why=arrival.why), load_texts("en"))


def decode_entry(entry: Entry) -> NamedRecord:
    """Read a stored record; raise ``Failed`` if that cannot be done."""
    try:
        return NamedRecord(seq=entry.seq, record=entry.record)
    except msgspec.DecodeError:
        raise Failed(f"record {entry.seq} cannot be read: antiphon audit verify") from None


def print_records(records: list[NamedRecord], names: Mapping[str, str], *, as_json: bool) -> None:
    """Print records as a table or lines. ``names``: those of servers, by identity."""
    if as_json:
        for placed in records:
            print_json({"seq": placed.seq, **msgspec.to_builtins(placed.record), "time": format_time(placed.record.at)})
        return
    columns = dict(_COLUMNS)
    if is_terminal():
        # The call's ID is too long for a table; it is in the lines for programs.
        del columns["call"]
        columns["at"] = lambda each: format_time(each.record.at).replace("T", " ").rstrip("Z")
    columns["server"] = lambda each: _name_server(each, names)
    print_list(records, columns, as_json=False, nothing="There are no such records.")


def _name_server(placed: NamedRecord, names: Mapping[str, str]) -> str:
    """Name a server: as it is configured, else by its command line or URL, else by its identity."""
    identity = placed.record.identity
    named = names.get(identity) or placed.server
    if not is_terminal():
        return named or identity
    if named is None:
        return shorten_identity(identity)
    return named if len(named) <= _WIDEST else f"\u2026{named[1 - _WIDEST :]}"


_COLUMNS: dict[str, Callable[[NamedRecord], str]] = {
    "record": lambda each: str(each.seq),
    "at": lambda each: format_time(each.record.at),
    "server": lambda each: each.record.identity,
    "tool": lambda each: each.tool or "",
    "ask": lambda each: each.record.ask,
    "call": lambda each: each.record.call or "",
    "step": lambda each: each.record.step,
    "outcome": lambda each: each.record.outcome,
    "model": lambda each: each.record.model or "",
    "spent": lambda each: "" if each.record.money is None else format_dollars(each.record.money),
    "by": lambda each: each.record.by or each.record.grant or "",
}


def shorten_identity(identity: str) -> str:
    """Shorten an identity for a table."""
    kind, colon, digits = identity.partition(":")
    return f"{kind}{colon}{digits[:_DIGITS]}"


def sum_up_spending(lines: Iterable[SpentRow], by: By, names: Mapping[str, str]) -> list[NamedSum]:
    """Sum up by name; days in order, everything else with the highest first."""
    rows = list(sum_up_rows(lines, lambda line: _name_line(line, by, names)).items())
    if by in ("day", "all"):
        return rows
    return sorted(rows, key=lambda row: (-row[1].money, -count_tokens(row[1]), row[0]))


def _name_line(line: SpentRow, by: By, names: Mapping[str, str]) -> str:
    server = names.get(line.identity) or (shorten_identity(line.identity) if is_terminal() else line.identity)
    named = {"day": line.day, "server": server, "model": line.model or "(none)"}
    return named[by] if by != "all" else " ".join(named.values())


def list_columns(rows: Sequence[NamedSum], by: By, *, bars: bool) -> dict[str, Callable[[NamedSum], str]]:
    """Return the columns of the table of spending, with functions for the cells."""
    columns: dict[str, Callable[[NamedSum], str]] = {
        by: lambda row: row[0],
        "requests": lambda row: str(row[1].requests),
        "tokens in": lambda row: str(row[1].input_tokens),
        "out": lambda row: str(row[1].output_tokens),
        "spent": lambda row: format_dollars(row[1].money),
    }
    if bars:
        has_price = any(row.money for _, row in rows)
        values = {id(row): row.money if has_price else count_tokens(row) for _, row in rows}
        most = max(values.values(), default=0)
        # The total has no bar, which would be far longer than the others.
        columns[""] = lambda row: _draw_bar(values.get(id(row[1]), 0), most)
    return columns


def _draw_bar(value: int, most: int) -> str:
    """Draw a value as a bar, in eighths of a cell; any value above 0 gets at least one."""
    eighths = max(1, value * _BAR * 8 // most) if value and most else 0
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


Format = Literal["jsonl", "csv", "ocsf", "otel"]
_BATCH = 1_000
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
        text = "0" if file is None or not file.exists() else read_input(file, 100).decode(errors="replace").strip()
        if not text.isdecimal() or int(text) > MAX_NUMBER:
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
    with _open_output(output, append=follow or position.seq > 0) as write:
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

    Raises ``Failed``: the collector does not take them; with ``follow`` it is asked again instead.
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
    # Imported here, because only this command needs it.
    import aiohttp

    headers = {"Content-Type": "application/json"}
    try:
        async with (
            asyncio.timeout(_TIMEOUT),
            aiohttp.ClientSession(headers=headers, cookie_jar=aiohttp.DummyCookieJar()) as session,
            session.post(address, data=make_log_request(page), allow_redirects=False) as response,
        ):
            problem = f"status {response.status}" if response.status >= 300 else ""
    except Exception as error:
        # The address may contain a secret, and so may an error that quotes it.
        problem = type(error).__name__
    if problem:
        write_line(f"the collector did not take {len(page)} records: {problem}", sys.stderr)
    return not problem


async def _read_pages(store: Store, position: ExportPosition, *, follow: bool) -> AsyncIterator[Sequence[Entry]]:
    with store.news.listening() as news:
        while True:
            while page := await store.entries(position.seq, _BATCH):
                yield page
            if not follow:
                return
            await news.wait(_LOOK)


@contextmanager
def _open_output(output: Path | None, *, append: bool) -> Generator[Callable[[str], object]]:
    if output is None or str(output) == "-":
        yield _print_line
        return
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    opened = os.fdopen(os.open(output, flags, 0o600), "ab", buffering=0) if append else open_replacement(output)
    with opened as file:
        yield lambda line: file.write(line.encode())


def _print_line(line: str) -> None:
    """Print a line unchanged into a pipe; on a terminal, control characters are marked."""
    text = line.rstrip("\r\n")
    write_line(inert_line(text) if is_terminal() else text)
