"""The rows of the queue, and which of them have changed since a browser last drew them.

Each row is computed once per question, and a browser is sent only what has changed. ``host.review.summary`` sorts and
groups; the templates draw.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from secrets import token_hex
from urllib.parse import urlencode

import msgspec

from antiphon.host.review.queue import Question
from antiphon.host.review.summary import ORDERS, Group, Listed, Order, group_rows, listed

FILTERS = ("tool", "request", "response", "elicitation", "risk")
"""What the list can be narrowed to: a kind of question, or those with a warning."""
_TURNS = 200
"""Most changes that are remembered; a tab that was suspended for longer reloads the whole list."""
_WANTED = 200
"""Most characters of the filter text; a row shows fewer."""
_MOST = 100
"""Most rows that are sent one by one; beyond that the whole list is reloaded."""


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """What has changed: rows by id, and the groups they are in or were in."""

    rows: frozenset[str]
    groups: frozenset[str]


class GroupChange(msgspec.Struct, frozen=True, kw_only=True):
    """One group that has changed."""

    key: str
    group: Group | None = None
    """Its current state; ``None`` if none of its rows is shown any more."""
    before: str = ""
    """The group after it; empty at the end."""


class Sifting(msgspec.Struct, frozen=True, kw_only=True):
    """The filter and order of the list."""

    wanted: str = ""
    order: Order = ORDERS[0]
    only: str = ""
    """A kind of question, or ``"risk"``; empty for all."""
    after: str = ""
    """Id of the last question of the page before; empty on the first page."""
    earlier: int = 0
    """The number of questions on the pages before."""

    @classmethod
    def of(cls, asked: Mapping[str, str]) -> Sifting:
        """Read them from an address; what cannot be read has its default."""
        orders: dict[str, Order] = {each: each for each in ORDERS}
        order = orders.get(asked.get("order", ""), ORDERS[0])
        only = asked.get("only", "")
        wanted = asked.get("wanted", "").strip()[:_WANTED]
        after, earlier = asked.get("after", "")[:_WANTED], asked.get("earlier", "")
        count = int(earlier) if after and re.fullmatch("[0-9]{1,9}", earlier) else 0
        return cls(wanted=wanted, order=order, only=only if only in FILTERS else "", after=after, earlier=count)

    @property
    def asked(self) -> dict[str, str]:
        """The same as query parameters, without defaults."""
        if self == Sifting():
            return {}
        page = {"after": self.after, "earlier": str(self.earlier)} if self.after else {}
        return {"wanted": self.wanted, "order": self.order} | ({"only": self.only} if self.only else {}) | page

    @property
    def query(self) -> str:
        """The same as the end of an address."""
        return f"?{urlencode(self.asked)}" if self.asked else ""


class QueueRows:
    """The waiting questions as rows. Each change of any of them begins a new version."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Question, Listed]] = {}
        self._turn = 0
        # The versions of another process differ.
        self._first = token_hex(4)
        self._turns: deque[Changed] = deque(maxlen=_TURNS)

    @property
    def count(self) -> int:
        """The number of waiting questions."""
        return len(self._known)

    @property
    def last(self) -> str:
        """The id of the last question; empty without any."""
        return next(reversed(self._known), "")

    @property
    def version(self) -> str:
        """Names the current version of the list."""
        return f"{self._first}-{self._turn}"

    def update(self, questions: Sequence[Question]) -> None:
        """Set the waiting questions. A question that is the same object as before needs no work."""
        known: dict[str, tuple[Question, Listed]] = {}
        other: list[tuple[str, str]] = []
        for question in questions:
            kept = self._known.get(question.id)
            if kept is not None and kept[0] is question:
                known[question.id] = kept
                continue
            row = listed(question, by_server=True)
            if row is None:
                continue
            known[question.id] = (question, row)
            if kept is None or kept[1] != row:
                other.append((question.id, row.group))
        # Including those in another group now, since the group they were in has changed.
        changed = {id for id, _ in other}
        other += [(id, old.group) for id, (_, old) in self._known.items() if id not in known or id in changed]
        self._known = known
        if other:
            self._turn += 1
            self._turns.append(Changed(rows=frozenset(id for id, _ in other), groups=frozenset(g for _, g in other)))

    def groups(self) -> list[Group]:
        """Return what waits in groups, oldest first."""
        return group_rows(row for _, row in self._known.values())

    def since(self, version: str) -> Changed | None:
        """Return what has changed since a version; ``None`` if that is not known any more, or is too much."""
        first, _, turn = version.partition("-")
        if first != self._first or not turn.isascii() or not turn.isdigit() or len(turn) > len(str(self._turn)):
            return None
        missed = self._turn - int(turn)
        if not 0 <= missed <= len(self._turns):
            return None
        turns = list(self._turns)[len(self._turns) - missed :]
        rows = frozenset[str]().union(*(each.rows for each in turns))
        if len(rows) > _MOST:
            return None
        return Changed(rows=rows, groups=frozenset[str]().union(*(each.groups for each in turns)))


def group_changes(groups: Sequence[Group], changed: Changed) -> Iterator[GroupChange]:
    """Yield the groups that have changed in order, then those that are gone."""
    for at, group in enumerate(groups):
        if group.key in changed.groups:
            before = groups[at + 1].key if at + 1 < len(groups) else ""
            yield GroupChange(key=group.key, group=group, before=before)
    there = {group.key for group in groups}
    for key in sorted(changed.groups - there):
        yield GroupChange(key=key)
