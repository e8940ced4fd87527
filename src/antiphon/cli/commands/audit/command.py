"""``antiphon audit``: list, show, verify, anchor and export the record, and what was spent.

Owns the options and what they stand for.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable
from pathlib import Path
from typing import Annotated

import click

from antiphon.cli.commands.audit.export import ExportPosition, Format, export_records, send_records
from antiphon.cli.commands.audit.list import By, list_records, show_records, show_spending
from antiphon.cli.commands.audit.verify import (
    anchor_record,
    print_proof,
    read_anchors,
    read_head,
    verify_file,
    verify_store,
)
from antiphon.cli.groups import CommandGroup
from antiphon.cli.options import Json, complete_server
from antiphon.cli.output.formats import write_line
from antiphon.cli.quantities import parse_past_time
from antiphon.cli.store import StoreOptions, open_chosen_store, run_on_store
from antiphon.cli.target_text import identities_of, names_of
from antiphon.errors import ConfigError
from antiphon.host.store.chain import RecordSearch, Step

commands = CommandGroup(
    help="See what happened to each ask, and what was spent.\n\n"
    "Without a command: list. The record holds steps, figures and hashes; what was said only if you asked for it."
)

Since = Annotated[str | None, "--since WHEN: Only what happened since: 30m, 12h or 7d ago, or a date (UTC)."]
Server = Annotated[
    str | None, "--server TARGET: Only this server: a target as for antiphon call, or an identity.", complete_server
]


@commands.command("list")
def list_(
    *,
    since: Since = None,
    server: Server = None,
    step: Step | None = None,
    outcome: str | None = None,
    call: str | None = None,
    limit: Annotated[int, click.IntRange(0)] = 50,
    as_json: Json = False,
    where: StoreOptions,
) -> Awaitable[int | None]:
    """List the latest records, the newest last; the usual command.

    Usage:
        --step: Only records of this step.
        --outcome WORD: Only records with this outcome, as the list shows it.
        --call ID: Only records of the tool call with this ID.
        --limit, -n N: How many of the latest records; 0 means all.
    """
    search = RecordSearch(
        since=parse_past_time(since, time.time()),
        identities=() if server is None else identities_of(server),
        step=step,
        outcome=outcome,
        call=call,
    )
    names = names_of(where.settings)
    return run_on_store(where, lambda store: list_records(store, search, limit, names, as_json=as_json))


@commands.command()
def show(
    record: Annotated[int, click.IntRange(1)], *, as_json: Json = False, where: StoreOptions
) -> Awaitable[int | None]:
    """Show every step of the ask that a record belongs to.

    Usage:
        RECORD: The record's number, as antiphon audit list shows it.
    """
    names = names_of(where.settings)
    return run_on_store(where, lambda store: show_records(store, record, names, as_json=as_json))


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
    head = read_head(known)
    heads = ([] if head is None else [head]) + ([] if anchors is None else read_anchors(anchors))
    if file is not None:
        return print_proof(verify_file(file, heads), as_json=as_json)
    async with open_chosen_store(where) as store:
        return print_proof(await verify_store(store, heads), as_json=as_json)


@commands.command("anchor")
def anchor_(
    file: Path | None = None,
    *,
    webhook: str | None = None,
    log: bool = False,
    as_json: Json = False,
    where: StoreOptions,
) -> Awaitable[int | None]:
    """Note the head of the record outside the store.

    The record is checked first, also against what the file has already; exit code 1 if it is broken, and nothing is
    noted. Let a timer run this: what is cut off is found back to the last head that was noted.

    Usage:
        [FILE]: Append the head to this file, for antiphon audit verify --anchors.
        --webhook URL: Send the head to this URL, as JSON.
        --log: Write the head to the system's log.
    """
    if file is None and webhook is None and not log:
        raise ConfigError("say where: a FILE, --webhook or --log")
    return run_on_store(where, lambda store: anchor_record(store, file, webhook, log=log, as_json=as_json))


@commands.command("export")
async def export_(
    *,
    form: Annotated[
        Format,
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
    passed = ExportPosition(position)
    async with open_chosen_store(where) as store:
        if collector is not None:
            await send_records(store, collector, passed, follow=follow)
        else:
            await export_records(store, form, output, passed, follow=follow)
    place = (collector and "sent") or (output is not None and str(output) != "-" and f"in {output}")
    if place:
        write_line(f"{passed.count} records {place}", sys.stderr)


@commands.command("spend")
def spend_(*, by: By = "day", since: Since = None, as_json: Json = False, where: StoreOptions) -> Awaitable[int | None]:
    """Show what was spent, as a table and bars. Days are whole, in UTC.

    With --json, a line for each day, server and model, money in nano-dollars as well.

    Usage:
        --by: What each row sums up: a day, a server or a model; all: each combination of the three.
    """
    names = names_of(where.settings)
    moment = parse_past_time(since, time.time())
    return run_on_store(where, lambda store: show_spending(store, by, moment, names, as_json=as_json))
