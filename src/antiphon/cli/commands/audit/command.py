"""``antiphon audit``: list, show, verify, anchor and export the record, and what was spent.

Owns the options and what they stand for, and the verification.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated

import click
import msgspec

from antiphon.cli.arguments import read_input
from antiphon.cli.commands.audit import list as audit_list
from antiphon.cli.config_files import names_of, origin_at
from antiphon.cli.options import CommandGroup, Json, complete_server
from antiphon.cli.output import formats
from antiphon.cli.store import StoreOptions, open_chosen_store
from antiphon.errors import ConfigError
from antiphon.host.audit import Audit, Proof, check_lines, day_of
from antiphon.host.budget import DOLLAR
from antiphon.host.review.history import sum_up_rows
from antiphon.host.store import Store
from antiphon.host.store.base import MAX_NUMBER
from antiphon.host.store.chain import Fault, Head, RecordSearch, Step, verify_entries
from antiphon.machine.files import name_errors, open_file

_HEAD = re.compile(r"(?P<seq>\d{1,18}):(?P<hash>[0-9a-f]{64})")
_LONGEST_LINE = 64 * 1024 * 1024
"""Most bytes of one exported record, with its content if that is kept."""

MAX_ANCHORS = 64 * 1024 * 1024
"""Most bytes of a file of anchors: half a million of them, one per minute for a year."""


def read_head(text: str) -> Head:
    """Read a head as ``verify_entries`` prints it."""
    match = _HEAD.fullmatch(text.strip())
    if match is None:
        raise ConfigError("--known: a head is written NUMBER:HASH, as antiphon audit verify prints it")
    return Head(seq=int(match["seq"]), hash=match["hash"])


async def verify_store(store: Store, known: Iterable[Head]) -> Proof:
    """Verify all records of a store; a record that the database cannot read is a fault like others."""
    from sqlalchemy.exc import DBAPIError

    try:
        return await Audit(store).verify(known)
    except DBAPIError:
        return await _find_unreadable(store)


def verify_file(path: Path, known: Iterable[Head]) -> Proof:
    """Verify a file of JSON Lines."""
    with name_errors(path), open_file(path) as file:
        lines = (line.decode("utf-8", "replace") if len(line) <= _LONGEST_LINE else "" for line in file)
        head, fault = check_lines(lines, known)
    return Proof(records=head.seq, head=head, fault=fault)


def format_head(head: Head) -> str:
    """Format a head as it is printed, noted and typed."""
    return f"{head.seq}:{head.hash}"


def print_proof(proof: Proof, *, as_json: bool) -> int:
    """Print the result, and return the exit code."""
    head = format_head(proof.head)
    fault = proof.fault
    if as_json:
        broken = None if fault is None else {"record": fault.seq, "problem": fault.problem}
        formats.print_json({"whole": proof.whole, "records": proof.records, "head": head, "fault": broken})
    elif fault is None:
        formats.print_text(
            f"{proof.records} records, and none was changed, left out, put in, moved or cut off.\nHead {head}"
        )
    else:
        order = f"{proof.records} records before it are in order, up to the head {head}"
        formats.print_text(f"Broken at record {fault.seq}: {fault.problem}.\n{order}")
    return 0 if proof.whole else formats.FAILED


async def _find_unreadable(store: Store) -> Proof:
    """Read the records one by one, to name the first that cannot be read; raises if none can be."""
    from sqlalchemy.exc import DBAPIError

    kept, after, head = await store.head(), 0, Head()
    while after < kept.seq:
        try:
            page = await store.entries(after, 1)
        except DBAPIError:
            break
        head, fault = verify_entries(page, head)
        if fault is not None or not page:
            return Proof(records=head.seq, head=head, fault=fault)
        after = page[0].seq
    return Proof(records=after, head=head, fault=Fault(seq=after + 1, problem="the record cannot be read"))


class Anchor(msgspec.Struct, frozen=True, kw_only=True):
    """A head with its time: one line of JSON in a file of anchors."""

    at: str
    """ISO 8601 in UTC."""
    head: str
    """As ``verify_entries`` prints it."""


def read_anchors(file: Path, *, make: bool = False) -> list[Head]:
    """Read the heads that were noted in a file; with ``make``, a missing file has none."""
    heads: list[Head] = []
    if make and not file.exists():
        return heads
    lines = read_input(file, MAX_ANCHORS).splitlines()
    if not lines and not make:
        # An emptied file would let a record pass from which the newest entries were cut off.
        raise ConfigError(f"{file}: has no anchor in it, so it proves nothing; name the file that was written to")
    for number, line in enumerate(lines, 1):
        try:
            heads.append(read_head(msgspec.json.decode(line, type=Anchor).head))
        except (msgspec.MsgspecError, RecursionError, ConfigError):
            raise ConfigError(f"{file}, line {number}: not an anchor, as antiphon audit anchor writes it") from None
    return heads


def _append_line(file: Path, line: bytes) -> None:
    try:
        fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(fd, "ab") as opened:
            opened.write(line + b"\n")
            opened.flush()
            os.fsync(fd)
    except OSError as error:
        raise formats.Failed(f"{file}: cannot be written: {error.strerror}") from None


commands = CommandGroup(
    help="See what happened to each ask, and what was spent.\n\n"
    "Without a command: list. The record holds steps, figures and hashes; what was said only if you asked for it."
)

Since = Annotated[str | None, "--since WHEN: Only what happened since: 30m, 12h or 7d ago, or a date (UTC)."]
Server = Annotated[
    str | None, "--server TARGET: Only this server: a target as for antiphon call, or an identity.", complete_server
]


@commands.command("list")
async def list_(
    *,
    since: Since = None,
    server: Server = None,
    step: Step | None = None,
    outcome: str | None = None,
    call: str | None = None,
    limit: Annotated[int, click.IntRange(0)] = 50,
    as_json: Json = False,
    where: StoreOptions,
) -> None:
    """List the latest records, the newest last; the usual command.

    Usage:
        --step: Only records of this step.
        --outcome WORD: Only records with this outcome, as the list shows it.
        --call ID: Only records of the tool call with this ID.
        --limit, -n N: How many of the latest records; 0 means all.
    """
    search = RecordSearch(
        since=formats.parse_past_time(since, time.time()),
        identities=() if server is None else origin_at(server).identities,
        step=step,
        outcome=outcome,
        call=call,
    )
    names = names_of(where.settings)
    async with open_chosen_store(where) as store:
        if limit:
            found = [placed async for placed in audit_list.find_records(store, search, limit)]
            audit_list.print_records(found[::-1], names, as_json=as_json)
            return
        every = audit_list.find_records(store, msgspec.structs.replace(search, after=0))
        if formats.is_terminal() and not as_json:
            # The columns of a table are as wide as its rows need.
            audit_list.print_records([placed async for placed in every], names, as_json=False)
            return
        async for placed in every:
            audit_list.print_records([placed], names, as_json=as_json)


@commands.command()
async def show(
    record: Annotated[int, click.IntRange(1, MAX_NUMBER)], *, as_json: Json = False, where: StoreOptions
) -> None:
    """Show every step of the ask that a record belongs to.

    Usage:
        RECORD: The record's number, as antiphon audit list shows it.
    """
    names = names_of(where.settings)
    async with open_chosen_store(where) as store:
        found = await store.entries(record - 1, 1)
        if not found or found[0].seq != record:
            raise formats.Failed(f"there is no record {record}")
        search = RecordSearch(ask=audit_list.ask_of(audit_list.decode_entry(found[0]).record), after=0)
        records = [placed async for placed in audit_list.find_records(store, search)]
        audit_list.print_records(records, names, as_json=as_json)
        if not as_json and (said := audit_list.describe_outcome(records)):
            # This line is not among the records: a program finds it in the outcome of the last record.
            formats.write_line(said, sys.stderr)


@commands.command()
async def verify(
    file: Path | None = None,
    *,
    known: str | None = None,
    anchors: Path | None = None,
    as_json: Json = False,
    where: StoreOptions,
) -> int:
    """Check that the record is whole, and print its head.

    Exit code 1 if a record was changed, left out, put in, moved or cut off; the first is named. Somebody who can write
    the whole store can compute a new record of everything, or cut off its end: have antiphon audit anchor note the head
    elsewhere, and give that as --anchors or --known later.

    Usage:
        [FILE]: Check this exported file (JSON Lines) in place of the store.
        --known HEAD: A head that you noted earlier, which the record must contain.
        --anchors FILE: A file in which antiphon audit anchor noted heads, all of which the record must contain.
    """
    heads = ([] if known is None else [read_head(known)]) + ([] if anchors is None else read_anchors(anchors))
    if file is not None:
        return print_proof(verify_file(file, heads), as_json=as_json)
    async with open_chosen_store(where) as store:
        return print_proof(await verify_store(store, heads), as_json=as_json)


@commands.command("anchor")
async def anchor_(file: Path | None = None, *, as_json: Json = False, where: StoreOptions) -> int:
    """Note the head of the record outside the store.

    The record is checked first, also against what the file has already; exit code 1 if it is broken, and nothing is
    noted. Let a timer run this: what is cut off is found back to the last head that was noted.

    Usage:
        [FILE]: Append the head to this file, for antiphon audit verify --anchors. Without it, pipe what --json prints
            into another program, such as logger.
    """
    if file is None and formats.is_terminal():
        raise ConfigError("say where: a FILE, or a program: antiphon audit anchor --json | logger")
    async with open_chosen_store(where) as store:
        proof = await verify_store(store, [] if file is None else read_anchors(file, make=True))
        if not proof.whole:
            # A broken record must not be noted as if it were intact.
            return print_proof(proof, as_json=as_json)
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        line = msgspec.json.encode(Anchor(at=now, head=format_head(proof.head)))
        if file is not None:
            _append_line(file, line)
        if as_json:
            formats.print_json(msgspec.json.decode(line))
        else:
            formats.print_text(f"Noted: {format_head(proof.head)}")
        return 0


@commands.command("export")
async def export_(
    *,
    form: Annotated[
        audit_list.Format,
        "--format: jsonl can be checked again; csv is for spreadsheets; ocsf and otel are for systems that collect "
        "events: OCSF, and logs of OpenTelemetry.",
    ] = "jsonl",
    output: Path | None = None,
    collector: str | None = None,
    follow: bool = False,
    position: Path | None = None,
    where: StoreOptions,
) -> None:
    """Write all records, for other programs.

    Usage:
        --output, -o FILE: Write to this file, which only you may read (mode 0600).
        --collector URL: With --format otel: send them to this collector (OTLP over HTTP, as JSON).
        --follow: Go on with the records that come, until you stop it. A file is then appended to.
        --position FILE: Note in this file how far it came, and go on from there the next time.
    """
    if collector is not None and (form != "otel" or output is not None):
        raise ConfigError("--collector takes --format otel, and no --output")
    passed = audit_list.ExportPosition(position)
    async with open_chosen_store(where) as store:
        if collector is not None:
            await audit_list.send_records(store, collector, passed, follow=follow)
        else:
            await audit_list.export_records(store, form, output, passed, follow=follow)
    place = (collector and "sent") or (output is not None and str(output) != "-" and f"in {output}")
    if place:
        formats.write_line(f"{passed.count} records {place}", sys.stderr)


@commands.command("spend")
async def spend_(*, by: audit_list.By = "day", since: Since = None, as_json: Json = False, where: StoreOptions) -> None:
    """Show what was spent, as a table and bars. Days are whole, in UTC.

    With --json, a line for each day, server and model, money in nano-dollars as well.

    Usage:
        --by: What each row sums up: a day, a server or a model; all: each combination of the three.
    """
    names = names_of(where.settings)
    moment = formats.parse_past_time(since, time.time())
    day = "" if moment is None else day_of(moment)
    async with open_chosen_store(where) as store:
        lines = [line for line in await Audit(store).spending() if line.day >= day]
    if as_json:
        for line in lines:
            formats.print_json({**msgspec.to_builtins(line), "dollars": f"{Decimal(line.money) / DOLLAR:f}"})
        return
    rows = audit_list.sum_up_spending(lines, by, names)
    if not formats.is_terminal():
        formats.print_list(rows, audit_list.list_columns(rows, by, bars=False), as_json=False, nothing="")
        return
    total = sum_up_rows(lines, lambda _: "total").items() if len(rows) > 1 else ()
    formats.print_list(
        [*rows, *total], audit_list.list_columns(rows, by, bars=True), as_json=False, nothing="Nothing was spent."
    )
    if rows and all(row.money == 0 for _, row in rows):
        formats.write_line("Bars are of tokens: nothing of it has a price.")
