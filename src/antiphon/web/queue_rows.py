"""The rows of the queue, and which of them have changed since a browser last drew them.

Owns that a row is computed once for each question, and that a browser is sent what has changed and nothing else. How
rows are sorted and grouped is ``host.review.rows``'s; how they look, is the templates'.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from secrets import token_hex
from urllib.parse import urlencode

import msgspec

from antiphon.host.review.queue import Question
from antiphon.host.review.rows import ORDERS, Group, Listed, Order, grouped, listed

__all__ = ["Changed", "GroupChange", "QueueRows", "Sifting", "group_changes"]

_TURNS = 200
"""Changes that are remembered: a tab that was asleep for longer fetches the whole list."""
_WANTED = 200
"""Characters of what the list is narrowed by: a row shows fewer."""
_MOST = 100
"""Rows that are sent one by one; of more, the whole list is no longer to draw."""


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """What is not as it was: rows by id, and the groups they are in or were in."""

    rows: frozenset[str]
    groups: frozenset[str]


class GroupChange(msgspec.Struct, frozen=True, kw_only=True):
    """One group that is not as it was."""

    key: str
    group: Group | None = None
    """As it is now; ``None`` if none of its rows is shown any more."""
    before: str = ""
    """The group that it stands before; nothing at the end."""


class Sifting(msgspec.Struct, frozen=True, kw_only=True):
    """How the list is narrowed and sorted."""

    wanted: str = ""
    order: Order = ORDERS[0]

    @classmethod
    def of(cls, asked: Mapping[str, str]) -> Sifting:
        """Read what an address asks for. What cannot be read is as usual."""
        orders: dict[str, Order] = {each: each for each in ORDERS}
        order = orders.get(asked.get("order", ""), ORDERS[0])
        return cls(wanted=asked.get("wanted", "").strip()[:_WANTED], order=order)

    @property
    def asked(self) -> dict[str, str]:
        """The same as an address has it; nothing where all is as usual."""
        return {} if self == Sifting() else {"wanted": self.wanted, "order": self.order}

    @property
    def query(self) -> str:
        """The same for the end of an address."""
        return f"?{urlencode(self.asked)}" if self.asked else ""


class QueueRows:
    """What waits, as rows. A turn is over each time that any of them has changed."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Question, Listed]] = {}
        self._turn = 0
        # Of another process the turns are others.
        self._first = token_hex(4)
        self._turns: deque[Changed] = deque(maxlen=_TURNS)

    @property
    def count(self) -> int:
        """How many wait."""
        return len(self._known)

    @property
    def version(self) -> str:
        """Names the list as it is now."""
        return f"{self._first}-{self._turn}"

    def update(self, questions: Sequence[Question]) -> None:
        """Take what waits now. A question that is the very same object as before costs nothing."""
        known: dict[str, tuple[Question, Listed]] = {}
        other: list[tuple[str, str]] = []
        for question in questions:
            kept = self._known.get(question.id)
            if kept is not None and kept[0] is question:
                known[question.id] = kept
                continue
            row = listed(question)
            if row is None:
                continue
            known[question.id] = (question, row)
            if kept is None or kept[1] != row:
                other.append((question.id, row.group))
        # Also those that are there still, in another group: the group they were in is not as it was.
        changed = {id for id, _ in other}
        other += [(id, old.group) for id, (_, old) in self._known.items() if id not in known or id in changed]
        self._known = known
        if other:
            self._turn += 1
            self._turns.append(Changed(rows=frozenset(id for id, _ in other), groups=frozenset(g for _, g in other)))

    def groups(self) -> list[Group]:
        """Return what waits in groups, oldest first."""
        return grouped(row for _, row in self._known.values())

    def since(self, version: str) -> Changed | None:
        """Say what has changed since a version; ``None`` if that is not known any more, or is too much."""
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
    """Yield the groups that have changed, in the order in which they stand, then those that are gone."""
    for at, group in enumerate(groups):
        if group.key in changed.groups:
            before = groups[at + 1].key if at + 1 < len(groups) else ""
            yield GroupChange(key=group.key, group=group, before=before)
    there = {group.key for group in groups}
    for key in sorted(changed.groups - there):
        yield GroupChange(key=key)
