"""The record of decisions: what was asked, who decided what, how it ended; searched, opened, exported.

Owns reading and putting together. What became of an ask is gathered by the store; nothing here changes anything that a
person or a server has said.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import datetime, timedelta
from typing import TypeVar, cast, get_args
from urllib.parse import urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from antiphon.host.audit.export import csv_lines, json_lines
from antiphon.host.review.diff import Line, differences, pretty
from antiphon.host.review.question import Question
from antiphon.host.review.review import ReviewItem
from antiphon.host.review.shown import Shown, show
from antiphon.host.store.asks import AskRow, Ending, Placed, Sought, placed
from antiphon.web.records import server_names
from antiphon.web.site import Site
from antiphon.wire.elicitation import ElicitRequestParams
from antiphon.wire.origin import Origin
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult

__all__ = ["export", "history", "record"]

T = TypeVar("T")

_FORMS = {"audit.jsonl": "application/jsonl", "audit.csv": "text/csv"}
_AT_ONCE = 500
"""Records of an export that are in memory: some 200 kB, or what was kept of so many requests."""
_PAGE = 50
"""Asks on one page."""
_MOST_WORDS, _LONGEST_WORD = 10, 100
METHODS = ("sampling/createMessage", "elicitation/create", "tools/call")
ENDINGS = get_args(Ending)


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """One ask in full: as much of it as was kept."""

    row: AskRow
    steps: list[Placed]
    asked: Shown | None = None
    """The request as it was sent, or would have been."""
    answer: Shown | None = None
    changes: list[Line] | None = None
    """What was sent differs so from what was asked; ``None`` where both were not kept, or are too long to compare."""
    form: ElicitRequestParams | None = None
    texts: tuple[tuple[str, str], ...] = ()
    """What else was kept, as JSON: the step it is of, and the text."""


async def history(site: Site, request: Request) -> Response:
    """Show what became of each ask, the latest first."""
    await site.gather()
    names = await server_names(site)
    sought = _sought(request.query_params, names)
    found = await site.store.asks(sought)
    asked = {name: value for name, value in request.query_params.items() if value and name != "before"}
    older = None
    if len(found.rows) == sought.limit:
        older = urlencode({**asked, "before": found.rows[-1].seq})
    return site.html(
        request,
        "history.html",
        found=found,
        asked=asked,
        sought=sought,
        older=older,
        first=urlencode(asked),
        names=names,
        methods=METHODS,
        endings=ENDINGS,
    )


async def record(site: Site, request: Request) -> Response:
    """Show one ask: what was asked, what was changed, what was answered, and every step."""
    await site.gather()
    row = await site.store.ask(request.path_params["seq"])
    if row is None:
        response = site.html(request, "gone.html")
        response.status_code = 404
        return response
    steps = placed(await site.store.entries_at(row.trail))
    return site.html(request, "record.html", told=_told(row, steps), names=await server_names(site))


async def export(site: Site, request: Request) -> Response:
    """Send all records, as JSON Lines or as a table, page after page as they are read."""
    name: str = request.path_params["form"]
    if name not in _FORMS:
        return PlainTextResponse("", 404)
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(_written(site, name), media_type=_FORMS[name], headers=headers)


async def _written(site: Site, name: str) -> AsyncIterator[str]:
    after = 0
    while page := await site.store.entries(after, _AT_ONCE):
        # One piece for a page of records: a piece for each would cost more than writing it.
        yield "".join(json_lines(page) if name == "audit.jsonl" else csv_lines(page, heading=after == 0))
        after = page[-1].seq


def _sought(params: Mapping[str, str], names: Mapping[str, str]) -> Sought:
    """Read what is looked for. What cannot be read excludes nothing."""
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
        limit=_PAGE,
    )


def _midnight(day: str | None, *, days: int = 0) -> float | None:
    """Return when a day begins where this program runs, or so many days later."""
    try:
        return (datetime.fromisoformat(day or "").replace(tzinfo=None) + timedelta(days=days)).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


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
        # Something else was sent, and not kept.
        return None
    return differences(received, sent)


def _shown(
    row: AskRow,
    received: CreateMessageRequestParams,
    sent: CreateMessageRequestParams,
    answer: CreateMessageResult | None,
) -> Shown | None:
    """Show what was kept as it is shown where it is decided."""
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
