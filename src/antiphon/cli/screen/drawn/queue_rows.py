"""The queue as lines: the questions of one round of a call together, under a line that says who asks.

Pure. ``host.review.rows`` groups and sorts; ``views`` colours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from antiphon.cli.screen.words import Words
from antiphon.host.budget import rounded_dollars
from antiphon.host.checks.visible import inert_line
from antiphon.host.review.rows import Group, Row
from antiphon.host.review.summary import clock, span

__all__ = ["Entry", "entries", "line"]

_URGENT = 60.0
"""Seconds: questions with less time left show that instead of their age."""


class Entry(NamedTuple):
    """One line of the queue."""

    id: str
    """Id of the question; empty for the head of a group."""
    text: str
    """Inert, one line."""
    warnings: int = 0
    created: float = 0.0
    expires: float | None = None
    worst: int | None = None
    """The most it may cost, in nano-dollars."""


def entries(groups: Iterable[Group], words: Words) -> Iterator[Entry]:
    """List the groups, each with its questions."""
    for group in groups:
        call = group.who.call.partition(" ")[2] or group.who.call or words("who.background")
        turn = words("who.round", n=group.who.round[0], max=group.who.round[1]) if group.who.round else ""
        task = words("who.task") if group.who.task else ""
        yield Entry("", inert_line(" · ".join(part for part in (group.who.name, call, task, turn) if part)))
        yield from (_entry(row, words) for row in group.rows)


def line(entry: Entry, now: float, words: Words, *, current: bool, marked: bool = False) -> str:
    """Return a line without colours: whether it is shown or selected, risks, age, cost, the first words."""
    if not entry.id:
        return entry.text
    mark = f"{'▸' if current else ' '}{'x' if marked else ' '}"
    flag = f"!{entry.warnings}" if entry.warnings else ""
    left = None if entry.expires is None else entry.expires - now
    time = clock(left, words) if left is not None and left < _URGENT else span(now - entry.created, words)
    cost = "" if not entry.worst else f"{rounded_dollars(entry.worst)} "
    return f"{mark}{flag:<2} {time:>6} {cost}{entry.text}"


def _entry(row: Row, words: Words) -> Entry:
    kind = "" if row.kind == "request" else f"[{words(f'kind.{row.kind}')}] "
    return Entry(row.id, inert_line(f"{kind}{row.summary}"), row.warnings, row.created, row.expires, row.worst)
