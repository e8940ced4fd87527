"""The queue as lines: the questions of one round of a call together, below who asks.

Pure. Grouping is the page's ``showing``; colours are ``views``'.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from antiphon.cli.screen.words import Words
from antiphon.host.checks.visible import inert_line
from antiphon.host.review.shown import Group, Row

__all__ = ["Entry", "clock", "entries", "line"]


class Entry(NamedTuple):
    """One line of the queue."""

    id: str
    """Of the question; nothing for the head of a group."""
    text: str
    """Inert, one line."""
    warnings: int = 0
    expires: float | None = None


def entries(groups: Iterable[Group], words: Words) -> Iterator[Entry]:
    """List the groups, each with its questions."""
    for group in groups:
        call = group.who.call or words("who.background")
        turn = words("who.round", n=group.who.round[0], max=group.who.round[1]) if group.who.round else ""
        yield Entry("", inert_line(" · ".join(part for part in (group.who.target, call, turn) if part)))
        yield from (_entry(row, words) for row in group.rows)


def line(entry: Entry, now: float, words: Words, *, current: bool) -> str:
    """Write a line, without its colours: whether it is chosen, what to look at, the time left, the beginning."""
    if not entry.id:
        return entry.text
    mark = "▸" if current else " "
    flag = f"!{entry.warnings}" if entry.warnings else ""
    left = "" if entry.expires is None else clock(entry.expires - now, words)
    return f"{mark} {flag:<2} {left:>5} {entry.text}"


def clock(seconds: float, words: Words) -> str:
    """Write how long somebody still waits."""
    if seconds <= 0:
        return words("clock.over")
    whole = int(seconds)
    if whole >= 3600:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}"
    return f"{whole // 60}:{whole % 60:02d}"


def _entry(row: Row, words: Words) -> Entry:
    kind = "" if row.kind == "request" else f"[{words(f'kind.{row.kind}')}] "
    return Entry(row.id, inert_line(f"{kind}{row.summary}"), row.warnings, row.expires)
