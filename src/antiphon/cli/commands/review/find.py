"""The question that a prefix of its id means, and why it cannot be decided any more.

Owns the form of typed ids, and messages about questions that are over.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from antiphon.cli.arguments import find_by_prefix
from antiphon.cli.error_messages import Failed
from antiphon.host.review.question import Outcome, Question
from antiphon.host.review.queue import Queue
from antiphon.host.store.base import ReviewState, Store

_LEAST = 4
"""Least letters of an id that are shown: few enough to be typed."""
_HASH = 12
"""Hexadecimal digits of a hash in a list: enough to exclude a coincidence."""
_MOST = 10_000
"""Most questions that are searched, far more than ever wait for one person."""
_PAST: tuple[ReviewState, ...] = ("decided", "done", "expired", "withdrawn")


async def find_question(store: Store, id: str) -> Question:
    """Find the question whose id has this prefix, preferably one that waits.

    ``id`` may be ``ID:HASH``, as listed; the question must then have this content.
    """
    id, _, hash = id.lower().partition(":")
    states: Sequence[tuple[ReviewState, ...]] = (("pending",), _PAST)
    for some in states:
        found = [row.id for row in await store.reviews(some, _MOST, contents=False) if id and row.id.startswith(id)]
        if found:
            question = await Queue(store).get(find_by_prefix(id, found, ""))
            if hash and not question.hash.startswith(hash):
                raise Failed(f"{question.id}: is not what was listed any more: antiphon review show {question.id}")
            return question
    raise Failed(f"there is no review {id}: antiphon review list")


async def find_pending(store: Store, ids: Sequence[str]) -> list[Question]:
    """Find questions that can be decided, each once."""
    found = {question.id: question for question in [await find_question(store, id) for id in ids]}
    for question in found.values():
        if question.state != "pending":
            raise Failed(explain_lateness(question))
    return list(found.values())


def explain_lateness(question: Question) -> str:
    """Say why a question cannot be decided any more."""
    if question.state == "held":
        return f"{question.id}: already decided by {question.by or 'somebody'}, who can still undo it"
    if question.state in ("decided", "done"):
        return f"{question.id}: already decided by {question.by or 'somebody'}{_describe_outcome(question)}"
    if question.outcome is not None and question.outcome.became == "blocked":
        return f"{question.id}: was withdrawn, its server is blocked"
    if question.state == "withdrawn":
        return f"{question.id}: was withdrawn, nobody waits for an answer any more"
    return f"{question.id}: has expired, which is a refusal"


def format_listed_id(question: Question) -> str:
    """Return a question's id with the hash of its content, so that a script approves exactly what it has listed."""
    return f"{question.id}:{question.hash[:_HASH]}" if question.hash else question.id


def is_named_as_listed(question: Question, ids: Sequence[str]) -> bool:
    """Return whether a question was named with as many digits of its hash as ``format_listed_id`` returns."""
    named = (id.lower().partition(":") for id in ids)
    return any(question.id.startswith(id) and len(hash) >= _HASH for id, _, hash in named if id)


def _describe_outcome(question: Question) -> str:
    match question.outcome:
        case Outcome(became="handed-over"):
            return ", and handed over to the server"
        case Outcome(became="late", why=why):
            return f", but too late: {LATE.get(why, why)}"
        case Outcome(became="failed", why=why):
            return f", but no answer came of it ({why})"
        case _:
            return ""


LATE = {
    "cancelled": "nobody waited for the answer any more",
    "call-gone": "the server no longer knew the call",
    "deadline": "the time of the call was up",
    "closed": "the connection was gone",
}
"""Why an answer came too late, in words."""


def shorten_ids(ids: Collection[str]) -> dict[str, str]:
    """Shorten ids to the shortest prefixes that are unique."""
    length = _LEAST
    while len({id[:length] for id in ids}) < len(set(ids)):
        length += 1
    return {id: id[:length] for id in ids}
