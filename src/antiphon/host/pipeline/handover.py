"""What became of an answer after it left the host: handed over to the server, or too late, and why.

Owns recording this in the audit and in the reviews that contributed. The client reports what became of answers; whether
a server has *understood* an answer is unknown.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable
from typing import NamedTuple

from antiphon.host.audit.log import Audit
from antiphon.host.review.question import Outcome
from antiphon.host.store.base import Change, Ended, Store
from antiphon.wire.envelope import encode
from antiphon.wire.origin import Origin

__all__ = ["Released", "ended"]

MAX_RELEASED = 1_000
"""Most answers whose end is not known yet, far more than one process has open; the oldest are dropped unrecorded."""


class _Answer(NamedTuple):
    method: str
    reviews: tuple[str, ...]
    by_person: bool


class Released:
    """The answers of one host that are on their way."""

    def __init__(self) -> None:
        self._answers: OrderedDict[str, _Answer] = OrderedDict()

    def add(self, origin: Origin, method: str, reviews: tuple[str, ...], *, by_person: bool) -> None:
        """Add an answer that leaves."""
        self._answers[origin.id] = _Answer(method, reviews, by_person)
        if len(self._answers) > MAX_RELEASED:
            self._answers.popitem(last=False)

    def record(self, audit: Audit, store: Store, origin: Origin, why: str | None) -> Awaitable[None] | None:
        """Record what became of an answer; ``why`` it came too late, or ``None`` if it was handed over.

        Returns an awaitable, or nothing if there is nothing to record: the record of an answer that no person gave
        already says that it was sent.
        """
        answer = self._answers.pop(origin.id, None)
        if answer is None or (why is None and not answer.by_person):
            return None
        return _recorded(audit, store, origin, answer, why)


async def _recorded(audit: Audit, store: Store, origin: Origin, answer: _Answer, why: str | None) -> None:
    if why is None:
        record = audit.note(origin, answer.method, "answered", "handed-over")
        outcome = Outcome(became="handed-over")
    else:
        record = audit.note(origin, answer.method, "withdrawn", f"late:{why}")
        outcome = Outcome(became="late", why=why)
    await store.commit(Change(ended=ended(answer.reviews, outcome), records=(record,)))


def ended(reviews: tuple[str, ...], outcome: Outcome) -> Ended | None:
    """Make what a store records about the end of reviews; ``None`` if nobody reviewed."""
    return Ended(reviews=reviews, outcome=encode(outcome).decode()) if reviews else None
