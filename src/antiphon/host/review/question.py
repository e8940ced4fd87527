"""One question to a person: what is stored of it, what was decided, and what became of that.

Owns how a question is read from its row. Keeping questions, deciding them and waiting for a decision is ``queue``'s.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from antiphon.host.review.fit import AnyDecision, AnyItem
from antiphon.host.review.review import Decision, ElicitItem, Reach, ReviewItem, ToolItem, hash_of, name_of
from antiphon.host.store.base import ReviewKind, ReviewRow, ReviewState
from antiphon.host.store.chain import Record
from antiphon.wire.elicitation import ElicitResult

__all__ = ["Outcome", "Question", "decision_of", "question_of", "reaches", "undone_records"]

_METHODS: dict[ReviewKind, str] = {
    "request": "sampling/createMessage",
    "response": "sampling/createMessage",
    "elicitation": "elicitation/create",
    "tool": "tools/call",
}
_ITEMS: dict[ReviewKind, type[AnyItem]] = {"elicitation": ElicitItem, "tool": ToolItem}


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a question after it was decided."""

    became: Literal["handed-over", "late", "failed", "blocked"]
    """The answer was handed over to the server; it came too late; it could not be made, or was refused later; or the
    question was withdrawn because its server was blocked."""
    why: str = ""
    """For ``"late"``: cancelled, call-gone, deadline or closed. For ``"failed"``: the reason of the refusal."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """One question, as stored."""

    id: str
    kind: ReviewKind
    group: str
    """The same for all asks of one round of a call, which are shown and decided together."""
    identity: str
    created: float
    """Seconds since the epoch, like all times here."""
    expires: float | None
    state: ReviewState | Literal["held"]
    """``"held"``: decided, and it can be undone until ``release``."""
    waited_for: bool
    """Whether a process waits; ``False`` if it was killed: the decision is then kept for when the ask is repeated."""
    item: AnyItem | None = None
    """What to show; ``None`` once it is over."""
    decision: AnyDecision | None = None
    by: str | None = None
    decided: float | None = None
    hash: str = ""
    """Hash of what is shown (see ``review.hash_of``); a decision must name it."""
    release: float | None = None
    """When a decision that is held takes effect; until then it can be undone."""
    outcome: Outcome | None = None
    """What became of the decision; ``None`` while that is unknown."""


def decision_of(row: ReviewRow) -> AnyDecision:
    """Decode a decision. For an elicitation it is a result, or a denial, which has a tag."""
    body = row.decision or "null"
    if row.kind == "elicitation" and "type" not in msgspec.json.decode(body, type=dict[str, object]):
        return msgspec.json.decode(body, type=ElicitResult)
    return msgspec.json.decode(body, type=Decision)


def question_of(row: ReviewRow, item: AnyItem | None = None) -> Question:
    """Read a question from its row.

    Args:
        item: what it asks, if that was decoded before; default: decode it.
    """
    if row.item is not None and item is None:
        item = msgspec.json.decode(row.item, type=_ITEMS.get(row.kind, ReviewItem))
    return Question(
        id=row.id,
        kind=row.kind,
        group=row.group,
        identity=row.identity,
        created=row.created,
        expires=row.expires,
        state="held" if row.held else row.state,
        waited_for=row.host is not None,
        item=item,
        decision=None if row.decision is None else decision_of(row),
        by=row.by,
        decided=row.decided,
        hash=row.hash or ("" if item is None else hash_of(item)),
        release=row.release if row.held else None,
        outcome=None if row.outcome is None else msgspec.json.decode(row.outcome, type=Outcome),
    )


def reaches(denied: Question, other: Question, reach: Reach) -> bool:
    """Return whether a denial of the first question withdraws the other one, too."""
    if denied.item is None or other.item is None or reach == "once":
        return denied.id == other.id
    mine, its = denied.item.origin, other.item.origin
    if reach == "server":
        return bool({mine.identity, *mine.coarser[:1]} & set(its.identities))
    return mine.call is not None and its.call is not None and mine.call.id == its.call.id


def undone_records(row: ReviewRow, by: str | None, now: float) -> Iterator[Record]:
    """Record that a permission was taken back, which has no other record."""
    question = question_of(row)
    if question.item is None or question.decision is None:
        return
    # The process that asked may be gone; the name of a group begins with its name.
    host = row.host or row.group.partition(":")[0]
    origin = question.item.origin
    yield Record(
        at=now,
        ask=origin.id,
        identity=row.identity,
        method=_METHODS[row.kind],
        step="response" if row.kind == "response" else "review",
        outcome=f"undone:{name_of(question.decision)}",
        host=host,
        call=origin.call.id if origin.call else None,
        by=by or row.by,
    )
