"""The queue as lines: the questions of one round of a call together, below who asks.

Pure. Grouping is ``host.review.shown``'s; colours are ``views``'.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple

from antiphon.cli.screen.words import Words
from antiphon.host.checks.visible import inert_line
from antiphon.host.review.shown import Group, Row
from antiphon.host.review.summary import clock, money, span

__all__ = ["ORDERS", "Entry", "Order", "arranged", "entries", "line"]

Order = Literal["time", "risk", "cost"]
ORDERS: tuple[Order, ...] = ("time", "risk", "cost")
_URGENT = 60.0
"""Seconds: what has less left shows its clock instead of its age."""


class Entry(NamedTuple):
    """One line of the queue."""

    id: str
    """Of the question; nothing for the head of a group."""
    text: str
    """Inert, one line."""
    warnings: int = 0
    created: float = 0.0
    expires: float | None = None
    worst: int | None = None
    """What it may cost at most, in nano-dollars."""


def arranged(groups: Iterable[Group], order: Order, wanted: str) -> list[Group]:
    """Leave the groups with something that is wanted, in an order: the oldest first, or the riskiest, or the dearest.

    ``wanted`` is a text to be found in the server's name, the call or the first words, whatever the case.
    """
    sought = wanted.casefold()
    found: list[Group] = []
    for group in groups:
        head = f"{group.who.name} {group.who.target} {group.who.call}".casefold()
        rows = tuple(row for row in group.rows if sought in head or sought in row.summary.casefold())
        if rows:
            found.append(Group(who=group.who, rows=tuple(sorted(rows, key=_PLACES[order]))))
    return sorted(found, key=lambda group: _PLACES[order](group.rows[0]))


def entries(groups: Iterable[Group], words: Words) -> Iterator[Entry]:
    """List the groups, each with its questions."""
    for group in groups:
        call = group.who.call.partition(" ")[2] or group.who.call or words("who.background")
        turn = words("who.round", n=group.who.round[0], max=group.who.round[1]) if group.who.round else ""
        yield Entry("", inert_line(" · ".join(part for part in (group.who.name, call, turn) if part)))
        yield from (_entry(row, words) for row in group.rows)


def line(entry: Entry, now: float, words: Words, *, current: bool, marked: bool = False) -> str:
    """Write a line, without its colours: whether it is shown or selected, risks, age, cost, the first words."""
    if not entry.id:
        return entry.text
    mark = f"{'▸' if current else ' '}{'x' if marked else ' '}"
    flag = f"!{entry.warnings}" if entry.warnings else ""
    left = None if entry.expires is None else entry.expires - now
    time = clock(left, words) if left is not None and left < _URGENT else span(now - entry.created, words)
    cost = "" if not entry.worst else f"{money(entry.worst)} "
    return f"{mark}{flag:<2} {time:>6} {cost}{entry.text}"


def _entry(row: Row, words: Words) -> Entry:
    kind = "" if row.kind == "request" else f"[{words(f'kind.{row.kind}')}] "
    return Entry(row.id, inert_line(f"{kind}{row.summary}"), row.warnings, row.created, row.expires, row.worst)


_PLACES: dict[Order, Callable[[Row], tuple[float, object]]] = {
    "time": lambda row: (row.created, row.id),
    "risk": lambda row: (-row.warnings, row.created),
    "cost": lambda row: (-(row.worst or 0), row.created),
}
