"""The history of decisions, for the page and the terminal: who asked what, who decided what, how it ended.

Owns the filters, what is shown of a stored ask, and the names of servers. The store gathers what became of asks;
nothing here changes anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import TypeVar, cast, get_args

import msgspec

from antiphon.host.checks.redact import mask
from antiphon.host.review.diff import Line, differences, pretty
from antiphon.host.review.question import Question
from antiphon.host.review.queue import Queue
from antiphon.host.review.review import ReviewItem
from antiphon.host.review.shown import Shown, show
from antiphon.host.store.asks import AskRow, Ending, Placed, Sought, placed
from antiphon.host.store.base import Store
from antiphon.wire.elicitation import ElicitRequestParams
from antiphon.wire.origin import Origin
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult

__all__ = ["ENDINGS", "METHODS", "PAGE", "Told", "server_names", "sought_by", "told"]

T = TypeVar("T")

PAGE = 50
"""Number of asks on one page."""
_MOST_WORDS, _LONGEST_WORD = 10, 100
METHODS = ("sampling/createMessage", "elicitation/create", "tools/call", "embeddings")
"""The kinds of asks."""
ENDINGS = get_args(Ending)
"""The ways in which an ask can end."""


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """One ask, with everything that was kept of it."""

    row: AskRow
    steps: list[Placed]
    asked: Shown | None = None
    """The request as it was, or would have been, sent."""
    answer: Shown | None = None
    changes: list[Line] | None = None
    """Differences between what was asked and what was sent; ``None`` if they were not both kept, or are too long to
    compare."""
    form: ElicitRequestParams | None = None
    texts: tuple[tuple[str, str], ...] = ()
    """Other content that was kept, as JSON: the step, and the text."""


async def told(store: Store, row: AskRow) -> Told:
    """Read one ask with everything that was kept of it."""
    return _told(row, placed(await store.entries_at(row.trail)))


def sought_by(params: Mapping[str, str], names: Mapping[str, str]) -> Sought:
    """Read the filters from form fields; a value that cannot be read excludes nothing.

    Fields are ``q`` (words that must all be found), ``kind``, ``ending``, ``server`` (its identity), ``since`` and
    ``until`` (days), and ``before`` (the page after this ask). ``names``: those of servers, by identity.
    """
    words = params.get("q", "").replace("\0", " ").lower().split()[:_MOST_WORDS]
    known = {identity: name.lower() for identity, name in names.items()}
    ending, method, before = params.get("ending"), params.get("kind"), params.get("before", "")
    return Sought(
        words=tuple(
            (word[:_LONGEST_WORD], tuple(identity for identity, name in known.items() if word in name))
            for word in words
        ),
        identity=params.get("server", "").replace("\0", "") or None,
        method=method if method in METHODS else None,
        ending=cast("Ending", ending) if ending in ENDINGS else None,
        since=_midnight(params.get("since")),
        until=_midnight(params.get("until"), days=1),
        before=int(before) if before.isascii() and before.isdigit() and len(before) < 19 else None,
        limit=PAGE,
    )


def _midnight(day: str | None, *, days: int = 0) -> float | None:
    """Return when a day begins in this program's time zone, or some days later."""
    try:
        return (datetime.fromisoformat(day or "").replace(tzinfo=None) + timedelta(days=days)).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


async def server_names(
    store: Store, queue: Queue, known: Mapping[str, str], identities: Iterable[str] = ()
) -> dict[str, str]:
    """Return the targets of servers: those in ``known``, those with open questions, and ``identities`` that ever asked.

    Only reads what the store has gathered from the audit.
    """
    found = dict(known)
    for question in await queue.pending():
        if question.item is not None:
            origin = question.item.origin
            found |= dict.fromkeys([origin.identity, *origin.coarser], mask(origin.target))
    unknown = {*identities} - found.keys()
    return found | await store.servers(unknown) if unknown else found


def _told(row: AskRow, steps: list[Placed]) -> Told:
    kept = {step.record.step: step.record.content for step in steps if step.record.content is not None}
    if row.method == "elicitation/create":
        form = _read(kept.get("policy"), ElicitRequestParams)
        texts = _texts(kept, {"policy", "answered"} if form is None else {"answered"})
        return Told(row=row, steps=steps, form=form, texts=texts)
    received = _read(kept.get("policy"), CreateMessageRequestParams)
    sent = _read(kept.get("generate"), CreateMessageRequestParams) or received
    if row.method != "sampling/createMessage" or received is None or sent is None:
        return Told(row=row, steps=steps, texts=_texts(kept, {"policy", "generate", "answered"}))
    answer = _read(kept.get("answered"), CreateMessageResult)
    return Told(
        row=row,
        steps=steps,
        asked=_shown(row, received, sent, None),
        answer=None if answer is None else _shown(row, received, sent, answer),
        changes=_changes(steps, received, sent),
    )


def _changes(
    steps: list[Placed], received: CreateMessageRequestParams, sent: CreateMessageRequestParams
) -> list[Line] | None:
    digests = {step.record.step: step.record.digest for step in steps if step.record.step in ("policy", "generate")}
    if "generate" in digests and digests["generate"] != digests["policy"] and sent is received:
        # Something else was sent, and was not kept.
        return None
    return differences(received, sent)


def _shown(
    row: AskRow,
    received: CreateMessageRequestParams,
    sent: CreateMessageRequestParams,
    answer: CreateMessageResult | None,
) -> Shown | None:
    """Show what was kept in the form in which it is decided."""
    origin = Origin(id=row.ask, identity=row.identity, target=row.server)
    item = ReviewItem(
        origin=origin, params=sent, received=received, provider="", choices=frozenset(), risks=(), result=answer
    )
    question = Question(
        id="",
        kind="request" if answer is None else "response",
        group="",
        identity=row.identity,
        created=row.at,
        expires=None,
        state="done",
        waited_for=False,
        item=item,
    )
    return show(question)


def _texts(kept: Mapping[str, str | None], steps: set[str]) -> tuple[tuple[str, str], ...]:
    return tuple((step, _pretty(text)) for step, text in kept.items() if step in steps and text)


def _pretty(text: str) -> str:
    try:
        return pretty(msgspec.json.decode(text))
    except msgspec.MsgspecError:
        return text


def _read(content: str | None, kind: type[T]) -> T | None:
    try:
        return None if content is None else msgspec.json.decode(content, type=kind)
    except msgspec.MsgspecError:
        return None
