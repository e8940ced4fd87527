"""Records as lines, and all records of one ask.

Owns the columns. The records are the host's ``audit``.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import AsyncIterator, Callable
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
    """A record, and its number."""

    seq: int
    record: Record


async def read(store: Store, after: int = 0) -> AsyncIterator[Placed]:
    """Yield all records after a number, oldest first.

    Raises:
        Failed: a record cannot be read.
    """
    async for entry in Audit(store).entries(after):
        yield _placed(entry)


async def list_records(store: Store, wanted: Wanted, limit: int, *, as_json: bool) -> None:
    """List the latest records that match; ``limit`` 0 for all of them."""
    latest: deque[Placed] = deque(maxlen=limit or None)
    # Without filters the latest records are at the end, so the others need not be read.
    skipped = max(0, (await store.head()).seq - limit) if limit and wanted == Wanted() else 0
    async for placed in read(store, skipped):
        if placed.record in wanted:
            latest.append(placed)
    _print(list(latest), as_json=as_json)


async def show_records(store: Store, seq: int, *, as_json: bool) -> None:
    """Show all records of the ask that record number ``seq`` belongs to, and what became of its answer.

    Raises:
        Failed: there is no such record.
    """
    found = await store.entries(seq - 1, 1)
    if not found or found[0].seq != seq:
        raise Failed(f"there is no record {seq}")
    one = _placed(found[0]).record
    records = [
        placed
        async for placed in read(store)
        if (placed.record.host, placed.record.ask, placed.record.identity) == (one.host, one.ask, one.identity)
    ]
    _print(records, as_json=as_json)
    if not as_json and (said := _became(records)):
        # Not among the records: a program finds it in the outcome of the last one.
        write_line(said, sys.stderr)


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


def _print(records: list[Placed], *, as_json: bool) -> None:
    if as_json:
        for placed in records:
            print_json(_flat(placed))
        return
    columns = dict(_COLUMNS)
    if is_terminal():
        # Too long for a table; it is in the lines for programs.
        del columns["call"]
        columns["at"] = lambda each: shown(each.record.at).replace("T", " ").rstrip("Z")
        columns["server"] = lambda each: short(each.record.identity)
    print_list(records, columns, as_json=False, nothing="There are no such records.")


_COLUMNS: dict[str, Callable[[Placed], str]] = {
    "record": lambda each: str(each.seq),
    "at": lambda each: shown(each.record.at),
    "server": lambda each: each.record.identity,
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
