"""Records as lines, and all records of one ask.

Owns the columns. The records are the host's ``audit``.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import msgspec

from antiphon.cli.commands.review.find import LATE
from antiphon.cli.failures import Failed
from antiphon.cli.output.formats import is_terminal, print_json, print_list, write_line
from antiphon.cli.quantities import shown
from antiphon.host.audit.log import Audit
from antiphon.host.budget import dollars
from antiphon.host.checks.visible import inert_line
from antiphon.host.store import Store
from antiphon.host.store import asks as gathering
from antiphon.host.store.chain import Entry, Record

__all__ = ["Placed", "Wanted", "list_records", "read", "short", "show_records"]

_BEFORE = 1_000
"""Records read before the listed ones, since the first record of an ask names its server and tool."""
_WIDEST = 30
"""Characters of a server in a table. The end of a command line or URL says more than its beginning."""
_DIGITS = 8
"""Hexadecimal digits of an identity in a table: enough to distinguish a user's servers."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Filters for records; ``None`` for any."""

    since: float | None = None
    servers: tuple[str, ...] = ()
    """Identities of one server, or prefixes of them."""
    step: str | None = None
    outcome: str | None = None
    """The outcome, or a prefix of it."""
    call: str | None = None

    def __contains__(self, record: Record) -> bool:
        return (
            (self.since is None or record.at >= self.since)
            and (not self.servers or record.identity.startswith(self.servers))
            and (self.step is None or record.step == self.step)
            and (self.outcome is None or record.outcome.startswith(self.outcome))
            and (self.call is None or record.call == self.call)
        )


class Placed(msgspec.Struct, frozen=True, kw_only=True):
    """A record and its number, with the names that the first record of its ask has."""

    seq: int
    record: Record
    server: str | None = None
    tool: str | None = None


async def read(store: Store, after: int = 0) -> AsyncIterator[Placed]:
    """Yield all records after a number, oldest first, with the servers and tools that are known by then.

    Raises:
        Failed: a record cannot be read.
    """
    servers: dict[str, str] = {}
    tools: dict[tuple[str, str, str], str] = {}
    async for entry in Audit(store).entries(after):
        record, ask = (placed := _placed(entry)).record, _ask_of(placed.record)
        if record.server is not None:
            servers[record.identity] = record.server
        if record.tool is not None:
            tools[ask] = record.tool
        yield msgspec.structs.replace(placed, server=servers.get(record.identity), tool=tools.get(ask))


async def list_records(store: Store, wanted: Wanted, limit: int, names: Mapping[str, str], *, as_json: bool) -> None:
    """List the latest records that match; ``limit`` 0 for all of them. ``names``: those of servers, by identity."""
    latest: deque[Placed] = deque(maxlen=limit or None)
    # Without filters the latest records are at the end, so the others need not be read.
    skipped = max(0, (await store.head()).seq - limit - _BEFORE) if limit and wanted == Wanted() else 0
    async for placed in read(store, skipped):
        if placed.record in wanted:
            latest.append(placed)
    _print(list(latest), names, as_json=as_json)


async def show_records(store: Store, seq: int, names: Mapping[str, str], *, as_json: bool) -> None:
    """Show all records of the ask that record number ``seq`` belongs to, and what became of its answer.

    ``names``: those of servers, by identity.

    Raises:
        Failed: there is no such record.
    """
    found = await store.entries(seq - 1, 1)
    if not found or found[0].seq != seq:
        raise Failed(f"there is no record {seq}")
    ask = _ask_of(_placed(found[0]).record)
    records = [placed async for placed in read(store) if _ask_of(placed.record) == ask]
    _print(records, names, as_json=as_json)
    if not as_json and (said := _became(records)):
        # Not among the records: a program finds it in the outcome of the last one.
        write_line(said, sys.stderr)


def _ask_of(record: Record) -> tuple[str, str, str]:
    """Return what only the records of one ask have in common."""
    return record.host, record.ask, record.identity


def _became(records: list[Placed]) -> str:
    """Say what became of the answer; empty if there was none, or it is not known."""
    asks: dict[gathering.AskKey, gathering.AskRow] = {}
    gathering.gather(asks, (gathering.Placed(placed.seq, placed.record) for placed in records))
    arrival = next((row.arrival for row in asks.values()), None)
    if arrival is None:
        return ""
    if arrival.became == "handed-over":
        return "The answer was handed over to the server."
    return f"The answer came too late: {inert_line(LATE.get(arrival.why, arrival.why))}."


def _placed(entry: Entry) -> Placed:
    try:
        return Placed(seq=entry.seq, record=entry.record)
    except msgspec.DecodeError:
        raise Failed(f"record {entry.seq} cannot be read: antiphon audit verify") from None


def _print(records: list[Placed], names: Mapping[str, str], *, as_json: bool) -> None:
    if as_json:
        for placed in records:
            print_json(_flat(placed))
        return
    columns = dict(_COLUMNS)
    if is_terminal():
        # Too long for a table; it is in the lines for programs.
        del columns["call"]
        columns["at"] = lambda each: shown(each.record.at).replace("T", " ").rstrip("Z")
    columns["server"] = lambda each: _server(each, names)
    print_list(records, columns, as_json=False, nothing="There are no such records.")


def _server(placed: Placed, names: Mapping[str, str]) -> str:
    """Name a server: as it is configured, else by its command line or URL, else by its identity."""
    identity = placed.record.identity
    named = names.get(identity) or placed.server
    if not is_terminal():
        return named or identity
    if named is None:
        return short(identity)
    return named if len(named) <= _WIDEST else f"\u2026{named[1 - _WIDEST :]}"


_COLUMNS: dict[str, Callable[[Placed], str]] = {
    "record": lambda each: str(each.seq),
    "at": lambda each: shown(each.record.at),
    "server": lambda each: each.record.identity,
    "tool": lambda each: each.tool or "",
    "ask": lambda each: each.record.ask,
    "call": lambda each: each.record.call or "",
    "step": lambda each: each.record.step,
    "outcome": lambda each: each.record.outcome,
    "model": lambda each: each.record.model or "",
    "spent": lambda each: "" if each.record.money is None else dollars(each.record.money),
    "by": lambda each: each.record.by or each.record.grant or "",
}


def short(identity: str) -> str:
    """Shorten an identity for a table."""
    kind, colon, digits = identity.partition(":")
    return f"{kind}{colon}{digits[:_DIGITS]}"


def _flat(placed: Placed) -> dict[str, Any]:
    return {"seq": placed.seq, **msgspec.to_builtins(placed.record), "time": shown(placed.record.at)}
