"""The queue as a list: one row per question, grouped by server or by the round of a call, sorted and filtered.

Pure. Page and terminal show the same rows in the same order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import msgspec

from antiphon.host.review.question import Question
from antiphon.host.review.review import ReviewItem
from antiphon.host.review.summary import first_words
from antiphon.host.review.who import Who, who_of

__all__ = ["ORDERS", "Group", "Listed", "Order", "Row", "arranged", "first_rows", "grouped", "groups_of", "listed"]

Order = Literal["time", "risk", "cost", "newest", "expiry"]
ORDERS: tuple[Order, ...] = ("time", "risk", "cost", "newest", "expiry")
"""The ways to sort a queue; the first is the default."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One question in the queue."""

    id: str
    kind: str
    tool: str
    """The tool or prompt whose call asks; empty in the background."""
    summary: str
    """The first words of what is new in it."""
    warnings: int
    created: float
    expires: float | None
    worst: int | None = None
    """The most it may cost, in nano-dollars; ``None`` if unknown, or if no model is asked."""
    hash: str = ""
    """Hash of all that is shown of it; a decision names it."""
    waited_for: bool = True
    """Whether the process that asked still runs."""
    in_task: bool = False
    """Whether the call has become a task."""
    destroys: bool = False
    """Whether the server says that it may destroy something."""


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """A row, and the group it belongs to."""

    row: Row
    who: Who
    group: str


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """The questions of one server, or of one round of a call."""

    who: Who
    rows: tuple[Row, ...]
    key: str = ""
    """Names the server or the round."""


def listed(question: Question, *, by_server: bool = False) -> Listed | None:
    """Make the row of a question; ``None`` if its content is not kept any more.

    Args:
        question: the question.
        by_server: group by server, not by the round of a call.
    """
    if question.item is None:
        return None
    group = question.identity if by_server else question.group
    return Listed(row=_row(question), who=who_of(question.item.origin), group=group)


def grouped(rows: Iterable[Listed]) -> list[Group]:
    """Group rows, oldest first."""
    found: dict[str, list[Listed]] = {}
    for each in rows:
        found.setdefault(each.group, []).append(each)
    return [
        Group(who=together[0].who, rows=tuple(each.row for each in together), key=key)
        for key, together in found.items()
    ]


def groups_of(questions: Sequence[Question], *, by_server: bool = False) -> list[Group]:
    """Group questions by round, or by server, oldest first."""
    rows = (listed(question, by_server=by_server) for question in questions)
    return grouped(row for row in rows if row is not None)


def arranged(groups: Iterable[Group], order: Order, wanted: str, only: str = "") -> list[Group]:
    """Return the groups with a matching row, sorted by age, time left, risks or cost.

    Args:
        groups: the groups.
        order: how they are sorted.
        wanted: a text that must occur in the server's name, the call or the first words, ignoring case.
        only: a kind of question, or ``"risk"`` for those with a warning; empty for all.
    """
    sought = wanted.casefold()
    found: list[Group] = []
    for group in groups:
        head = f"{group.who.name} {group.who.target} {group.who.call}".casefold()
        kept = [row for row in group.rows if only in ("", row.kind) or (only == "risk" and row.warnings)]
        rows = tuple(row for row in kept if sought in head or sought in f"{row.tool} {row.summary}".casefold())
        if rows:
            found.append(Group(who=group.who, rows=tuple(sorted(rows, key=_PLACES[order])), key=group.key))
    return sorted(found, key=lambda group: _PLACES[order](group.rows[0]))


def first_rows(groups: Iterable[Group], most: int) -> list[Group]:
    """Return the groups with so many rows at most, the first ones."""
    found: list[Group] = []
    for group in groups:
        if most > 0:
            found.append(msgspec.structs.replace(group, rows=group.rows[:most]))
        most -= len(group.rows)
    return found


def _row(question: Question) -> Row:
    """Make the row of a question."""
    item = question.item
    risks = item.risks if item else ()
    call = item.origin.call if item else None
    costs = item.costs if isinstance(item, ReviewItem) and item.result is None else None
    return Row(
        id=question.id,
        kind=question.kind,
        tool=(call.name or call.method) if call else "",
        summary=first_words(item),
        warnings=sum(risk.level == "warning" for risk in risks),
        created=question.created,
        expires=question.expires,
        worst=None if costs is None else costs.worst.money,
        hash=question.hash,
        waited_for=question.waited_for,
        in_task=item is not None and item.origin.task is not None,
        destroys=any(risk.kind == "destructive" for risk in risks),
    )


_PLACES: dict[Order, Callable[[Row], tuple[float, object]]] = {
    "time": lambda row: (row.created, row.id),
    "newest": lambda row: (-row.created, row.id),
    "expiry": lambda row: (math.inf if row.expires is None else row.expires, row.created),
    "risk": lambda row: (-row.warnings, row.created),
    "cost": lambda row: (-(row.worst or 0), row.created),
}
