"""The open questions as a list, which every page and screen reads again after each change.

Makes sure that the content of a question, which may be megabytes, is read and decoded only once.
"""

from __future__ import annotations

from collections.abc import Sequence

from antiphon.host.review.question import Question, question_of
from antiphon.host.store.base import ReviewRow, Store

__all__ = ["OpenQuestions"]

_FEW = 8
"""Most questions that are read one by one; if there are more, all of them are read at once."""


class OpenQuestions:
    """What a store holds in the state ``"pending"``: waiting for a decision, or for the end of its time to undo."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, tuple[ReviewRow, Question]] = {}

    async def read(self, limit: int = 1000, after: str | None = None) -> list[Question]:
        """Return the open questions, oldest first. An unchanged question is the same object as before."""
        rows = await self._store.reviews(("pending",), limit, contents=False, after=after)
        unknown = [row.id for row in rows if not self._knows(row)]
        whole = await self._whole(unknown, limit, after)
        self._known = {row.id: one for row in rows if (one := self._read(row, whole.get(row.id))) is not None}
        return [question for _, question in self._known.values()]

    def _knows(self, row: ReviewRow) -> bool:
        """Tell whether the content of a row is known: it is unchanged while its hash and its round are."""
        kept = self._known.get(row.id)
        return kept is not None and row.hash is not None and (kept[0].hash, kept[0].group) == (row.hash, row.group)

    async def _whole(self, ids: Sequence[str], limit: int, after: str | None) -> dict[str, ReviewRow]:
        if len(ids) > _FEW:
            sought = set(ids)
            rows = await self._store.reviews(("pending",), limit, after=after)
            return {row.id: row for row in rows if row.id in sought}
        found = [await self._store.review(id) for id in ids]
        return {row.id: row for row in found if row is not None and row.state == "pending"}

    def _read(self, row: ReviewRow, whole: ReviewRow | None) -> tuple[ReviewRow, Question] | None:
        if whole is not None:
            return row, question_of(whole)
        kept = self._known.get(row.id)
        if kept is None or not self._knows(row):
            # It ended after the first read.
            return None
        return kept if kept[0] == row else (row, question_of(row, kept[1].item))
