"""The history of decisions on the page: search, details, export.

``host.review.history`` has the content. Nothing here changes anything.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from urllib.parse import urlencode

from msgspec import structs
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from antiphon.host.audit import csv_lines, day_of, json_lines
from antiphon.host.review.definitions import collect_servers_shown
from antiphon.host.review.history import ENDINGS, METHODS, AskHistory, read_ask, sought_by
from antiphon.host.review.question import Question
from antiphon.host.store.ask_rows import Sought, SpentRow
from antiphon.host.store.chain import Entry
from antiphon.web.record_pages import server_names
from antiphon.web.site import Site
from antiphon.web.views import show_piece

_FORMS = {"audit.jsonl": "application/jsonl", "audit.csv": "text/csv"}
_LATEST = 20
"""Asks on the page of a server."""
_AT_ONCE = 500
"""Records of an export that are in memory at once: some 200 kB, more if their content is kept."""


async def show_history(site: Site, request: Request) -> Response:
    """Show what became of each ask, the latest first."""
    await site.gather()
    names = await server_names(site)
    asked = _read_filters(site, request)
    sought = sought_by({**request.query_params, **asked}, names)
    found = await site.store.asks(sought)
    is_summed = bool(sought.since or sought.until) and not (sought.words or sought.method or sought.ending)
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
        spent=await _sum_by_model(site, sought.identity, asked.get("since"), asked.get("until")) if is_summed else [],
        waiting=await _list_waiting(site),
        methods=METHODS,
        endings=ENDINGS,
    )


def _read_filters(site: Site, request: Request) -> dict[str, str]:
    """Read the filters from an address; ``day`` is ``today`` or ``yesterday``."""
    asked = {name: value for name, value in request.query_params.items() if value and name != "before"}
    back = {"today": 0, "yesterday": 1}.get(asked.pop("day", ""))
    if back is not None:
        day = day_of(site.clock() - back * 86_400)
        asked |= {"since": day, "until": day}
    return asked


async def _sum_by_model(site: Site, identity: str | None, since: str | None, until: str | None) -> list[SpentRow]:
    """Sum up by model what one server, or all of them, spent from one day to another; the most first."""
    sums: dict[str, SpentRow] = {}
    for line in await site.audit.spending():
        if identity in (None, line.identity) and (since or "") <= line.day and (not until or line.day <= until):
            row = sums.setdefault(line.model, SpentRow(day="", identity="", model=line.model))
            row.requests, row.money = row.requests + line.requests, row.money + line.money
    return sorted(sums.values(), key=lambda row: -row.money)


async def show_server(site: Site, request: Request) -> Response:
    """Show one server: cost, rules, grants, tools, history, and a way to block it."""
    identity: str = request.path_params["identity"]
    names = await server_names(site, [identity])
    found = await site.store.asks(Sought(identity=identity, limit=_LATEST))
    behind = (
        []
        if site.servers is None
        else await collect_servers_shown(site.servers, site.store, site.digests, site.clock())
    )
    gated = [each for each in behind if each.server.identity == identity]
    if identity not in names and not gated:
        return site.gone(request)
    today = day_of(site.clock())
    return site.html(
        request,
        "server.html",
        identity=identity,
        name=names.get(identity) or gated[0].server.name,
        names=names,
        found=found,
        gated=gated,
        waiting=await _list_waiting(site),
        waits=sum(each.identity == identity for each in await site.pending()),
        blocked=await site.store.blocks(identity),
        grants=[each for each in await site.grants.all() if each.grant.identity == identity],
        spent=await _sum_by_model(site, identity, None, None),
        today=sum(row.money for row in await _sum_by_model(site, identity, today, today)),
        it=site.config.for_server(identity) if site.config else None,
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
    """Send all records, or those that filters find, as JSON Lines or as a table, in pieces as they are read."""
    name: str = request.path_params["form"]
    if name not in _FORMS:
        return PlainTextResponse("", 404)
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    asked = _read_filters(site, request)
    sought = sought_by(asked, await server_names(site)) if asked else None
    pages = _read_all(site) if sought is None else _read_found(site, sought)
    return StreamingResponse(_write_records(pages, name), media_type=_FORMS[name], headers=headers)


async def _read_all(site: Site) -> AsyncIterator[list[Entry]]:
    after = 0
    while page := await site.store.entries(after, _AT_ONCE):
        yield page
        after = page[-1].seq


async def _read_found(site: Site, sought: Sought) -> AsyncIterator[list[Entry]]:
    """Yield the records of the asks that are found, the latest ask first."""
    await site.gather()
    while rows := (await site.store.asks(sought)).rows:
        for row in rows:
            yield await site.store.entries_at(row.trail)
        sought = structs.replace(sought, before=rows[-1].seq)


async def _write_records(pages: AsyncIterator[list[Entry]], name: str) -> AsyncIterator[str]:
    heading = True
    async for page in pages:
        # One piece for a page of records, since a piece for each record would take longer than writing it.
        yield "".join(json_lines(page) if name == "audit.jsonl" else csv_lines(page, heading=heading))
        heading = False
