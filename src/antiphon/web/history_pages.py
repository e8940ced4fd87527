"""The history of decisions on the page: search, details, export.

``host.review.history`` has the content. Nothing here changes anything.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from antiphon.host.audit import csv_lines, json_lines
from antiphon.host.review.history import ENDINGS, METHODS, AskHistory, read_ask, sought_by
from antiphon.host.review.question import Question
from antiphon.web.record_pages import server_names
from antiphon.web.site import Site
from antiphon.web.views import show_piece

__all__ = ["send_export", "show_history", "show_record", "show_text_piece", "told_of"]

_FORMS = {"audit.jsonl": "application/jsonl", "audit.csv": "text/csv"}
_AT_ONCE = 500
"""Records of an export that are in memory at once: some 200 kB, more if their content is kept."""


async def show_history(site: Site, request: Request) -> Response:
    """Show what became of each ask, the latest first."""
    await site.gather()
    names = await server_names(site)
    sought = sought_by(request.query_params, names)
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
        waiting=await _list_waiting(site),
        methods=METHODS,
        endings=ENDINGS,
    )


async def _list_waiting(site: Site) -> dict[str, Question]:
    """Return the questions that wait, by the id of the ask: their contents are there, whether they are kept or not."""
    return {each.item.origin.id: each for each in await site.queue.open() if each.item is not None}


async def show_record(site: Site, request: Request) -> Response:
    """Show one ask: what was asked, what was changed, what was answered, and every step."""
    found = await told_of(site, request.path_params["seq"])
    if found is None:
        return site.gone(request)
    names, can_ask = await server_names(site), site.own.asker is not None
    return site.html(
        request, "record.html", told=found, names=names, can_ask=can_ask, waiting=await _list_waiting(site)
    )


async def told_of(site: Site, seq: int) -> AskHistory | None:
    """Read one ask, by the number of its first record; ``None`` if there is none."""
    await site.gather()
    row = await site.store.ask(seq)
    return None if row is None else await read_ask(site.store, row)


async def show_text_piece(site: Site, request: Request) -> Response:
    """Show a piece of a long text of what was kept."""
    row = await site.store.ask(request.path_params["seq"])
    kept = None if row is None else await read_ask(site.store, row)
    of = request.path_params["of"]
    shown = None if kept is None else kept.answer if of == "answer" else kept.asked
    return show_piece(site, request, shown, f"/history/{request.path_params['seq']}")


async def send_export(site: Site, request: Request) -> Response:
    """Send all records, as JSON Lines or as a table, in pieces as they are read."""
    name: str = request.path_params["form"]
    if name not in _FORMS:
        return PlainTextResponse("", 404)
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(_write_records(site, name), media_type=_FORMS[name], headers=headers)


async def _write_records(site: Site, name: str) -> AsyncIterator[str]:
    after = 0
    while page := await site.store.entries(after, _AT_ONCE):
        # One piece for a page of records, since a piece for each record would take longer than writing it.
        yield "".join(json_lines(page) if name == "audit.jsonl" else csv_lines(page, heading=after == 0))
        after = page[-1].seq
