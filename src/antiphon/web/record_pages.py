"""The records: what was asked and decided, what is allowed, what was spent, and the models and servers.

``host.review.history`` finds asks and computes sums. Nothing here changes anything. The chart of sums is numbers for a
template, without a library or script; the table beside it has the same numbers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from itertools import count
from urllib.parse import urlencode

import msgspec
from msgspec import structs
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from antiphon.errors import AntiphonError
from antiphon.host.audit import csv_lines, day_of, json_lines
from antiphon.host.checks.policy_rules import Rule
from antiphon.host.checks.visible import make_inert
from antiphon.host.pipeline.tool_consent import cut_text
from antiphon.host.review.definitions import ShownServer, collect_servers_shown, compare_skill, speaks_to_the_model
from antiphon.host.review.diff import format_json
from antiphon.host.review.history import ENDINGS, METHODS, AskHistory, read_ask, sought_by
from antiphon.host.review.history import server_names as names
from antiphon.host.review.history import sum_up_spending as figures
from antiphon.host.review.keymap import keys_on
from antiphon.host.review.question import Question
from antiphon.host.store.ask_rows import Sought, SpentRow
from antiphon.host.store.base import MAX_NUMBER
from antiphon.host.store.chain import Entry
from antiphon.web.site import THEMES, Site
from antiphon.web.views import Whole, show_piece, show_whole
from antiphon.wire.skills import Skill
from antiphon.wire.tools import Tool

_ROWS = 300
"""Rows of the table: the newest, some months. The command line lists all of them."""

WIDTH, HEIGHT = 720, 220
"""Size in the chart's own units; it is scaled to the available room."""
_HEAD, _FOOT, _SIDE = 12, 22, 64
"""Room above the bars, below them for days, and beside them for amounts."""
_LINES = 4
"""Most lines of the axis above zero."""


async def show_grants(site: Site, request: Request) -> Response:
    """Show the grants in force, and the servers that are blocked."""
    blocked, given = await site.store.blocks(), await site.grants.all()
    names = await server_names(site, [each.grant.identity for each in given])
    spent = {balance.key.removeprefix("grant:"): balance.spent.money for balance in await site.store.balances("grant:")}
    return site.html(request, "grants.html", grants=given, blocked=blocked, names=names, spent=spent)


async def show_spending(site: Site, request: Request) -> Response:
    """Show what was spent by day, server and model, the use of budgets, and reservations."""
    await site.gather()
    spent = await figures(site.store, site.audit, site.clock())
    names = await server_names(site, {line.identity for line in spent.lines})
    return site.html(request, "spending.html", spent=spent, chart=lay_out_chart(spent.days), names=names, most=_ROWS)


async def show_models(site: Site, request: Request) -> Response:
    """Show the models of the user."""
    config = site.config
    catalogue = list(config.catalogue()) if config and config.models else []
    return site.html(request, "models.html", models=catalogue, default=config.default if config else None)


async def show_servers(site: Site, request: Request) -> Response:
    """Show the servers of the gateway with their tools, the configured servers, and the settings of each."""
    if site.servers is not None:
        await site.gather()
    config = site.config
    entries = [*config.servers, *config.tightened_servers] if config else []
    known = {entry.find_identity: entry for entry in entries}
    policy = config.policy if config else None
    rows = [(entry, config.for_server(entry.find_identity)) for entry in known.values()] if config else []
    return site.html(
        request,
        "servers.html",
        gated=await collect_servers_shown(site.servers, site.store, site.digests, site.clock()),
        rows=rows,
        others=config.for_server("") if config else None,
        rules=None if policy is None else [_describe_rule(rule) for rule in policy.rules],
        default=None if policy is None else policy.default,
    )


async def show_settings(site: Site, request: Request, address: str = "") -> Response:
    """Show the settings, with the keys as they are set, and an address for another browser if one was made."""
    letters, chosen = site.find_chosen_keys(request)
    devices, person = site.devices_for(request)
    return site.html(
        request,
        "settings.html",
        themes=THEMES,
        name=site.named(request),
        letters=letters,
        keys=[(key.action, chosen.get(key.action, key.keys[0])) for key in SINGLE_KEYS],
        address=address,
        push_key="" if devices is None else await devices.public_key(),
        push_known=[] if devices is None else [each.endpoint for each in await devices.list_devices(person)],
    )


SINGLE_KEYS = tuple(key for key in keys_on("page") if len(key.keys[0]) == 1)
"""The keys of a single character, which can be switched off and changed."""


def _describe_rule(rule: Rule) -> tuple[str, list[tuple[str, str]]]:
    """Return the effect of a rule as configured, and the conditions that it sets."""
    parts = msgspec.structs.asdict(rule)
    effect = str(parts.pop("effect"))
    return effect, [(name, msgspec.json.encode(value).decode()) for name, value in parts.items() if value is not None]


async def server_names(site: Site, identities: Iterable[str] = ()) -> dict[str, str]:
    """Return the targets of servers; see ``host.review.history``."""
    identities = list(identities)
    if identities:
        await site.gather()
    return await names(site.store, site.queue, site.config.server_names if site.config else {}, identities)


class Tick(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the axis."""

    amount: int
    y: int


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """The part of one series in a bar."""

    series: int
    """Index of the series."""
    amount: int
    y: int
    height: int


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """One bar: its label, and its pieces from below."""

    name: str
    amount: int
    x: int
    width: int
    pieces: list[Piece]


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """Bars side by side, over an axis."""

    bars: list[Bar]
    ticks: list[Tick]
    left: int = _SIDE
    foot: int = HEIGHT - _FOOT


def lay_out_chart(columns: Sequence[tuple[str, Mapping[int, int]]]) -> Chart:
    """Lay out columns: each has a label, and an amount per series. An amount above 0 is always visible."""
    most = max((sum(amounts.values()) for _, amounts in columns), default=0)
    # The distance between lines is 1, 2 or 5 times a power of ten, so that there are only a few.
    step = next(size for power in count() for n in (1, 2, 5) if most <= (size := n * 10**power) * _LINES)
    top = max(1, -(-most // step)) * step
    room = HEIGHT - _HEAD - _FOOT
    width = (WIDTH - _SIDE) // max(1, len(columns))
    bars = [
        Bar(
            name=name,
            amount=sum(amounts.values()),
            x=_SIDE + at * width + 3,
            width=max(1, width - 6),
            pieces=_stack_amounts(amounts, top, room),
        )
        for at, (name, amounts) in enumerate(columns)
    ]
    ticks = [
        Tick(amount=amount, y=HEIGHT - _FOOT - amount * room // top)
        for amount in range(0, top + 1 if most else 1, step)
    ]
    return Chart(bars=bars, ticks=ticks)


def _stack_amounts(amounts: Mapping[int, int], top: int, room: int) -> list[Piece]:
    pieces: list[Piece] = []
    foot = HEIGHT - _FOOT
    for series, amount in sorted(amounts.items()):
        if amount > 0:
            height = min(max(2, amount * room // top), foot - _HEAD)
            foot -= height
            pieces.append(Piece(series=series, amount=amount, y=foot, height=height))
    return pieces


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
    behind = await collect_servers_shown(site.servers, site.store, site.digests, site.clock())
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


async def show_skill(site: Site, request: Request) -> Response:
    """Show the entry of a skill: front matter, files, and what has changed since it was allowed. Nothing is fetched."""
    server, entry = _find_skill(site, request)
    if server is None or entry is None:
        return site.gone(request)
    skill = await compare_skill(server, entry, site.store, site.digests)
    front = format_json(entry.frontmatter)
    return site.html(request, "past/skill.html", server=server, entry=entry, skill=skill, front=front)


async def show_skill_text(site: Site, request: Request) -> Response:
    """Fetch the text of a skill because a person wants to read it, and show it if it is as its entry says."""
    server, entry = _find_skill(site, request)
    if site.servers is None or server is None or entry is None:
        return site.gone(request)
    address = f"?{urlencode({'uri': entry.uri})}"
    try:
        text, left_out = cut_text(await site.servers.read_skill(server.identity, entry))
    except AntiphonError as error:
        return site.problem(request, 502, "problem.skill", detail=make_inert(str(error)))
    # In a thread, because the patterns take a moment in a long text.
    is_marked = await asyncio.to_thread(speaks_to_the_model, Tool(name="", description=text, input_schema={}))
    shown = {"at": f"{request.url.path}{address}", "left_out": left_out, "is_marked": is_marked}
    return show_whole(site, request, Whole(text=text), f"{request.url.path.removesuffix('/text')}{address}", **shown)


def _find_skill(site: Site, request: Request) -> tuple[ShownServer, Skill] | tuple[None, None]:
    identity, uri = request.path_params["identity"], request.query_params.get("uri")
    servers = () if site.servers is None else site.servers.upstreams
    found = ((each, skill) for each in servers if each.identity == identity for skill in each.skills)
    return next((pair for pair in found if pair[1].uri == uri), (None, None))


async def _list_waiting(site: Site) -> dict[str, Question]:
    """Return the questions that wait, by the id of the ask: their contents are there, whether they are kept or not."""
    return {each.item.origin.id: each for each in await site.queue.open() if each.item is not None}


async def show_record(site: Site, request: Request) -> Response:
    """Show one ask: what was asked, what was changed, what was answered, and every step."""
    found = await find_history(site, request.path_params["seq"])
    if found is None:
        return site.gone(request)
    names, can_ask = await server_names(site), site.own.asker is not None
    return site.html(
        request, "record.html", told=found, names=names, can_ask=can_ask, waiting=await _list_waiting(site)
    )


async def find_history(site: Site, seq: int) -> AskHistory | None:
    """Read one ask, by the number of its first record; ``None`` if there is none."""
    await site.gather()
    row = await site.store.ask(seq) if seq <= MAX_NUMBER else None
    return None if row is None else await read_ask(site.store, row)


async def show_text_piece(site: Site, request: Request) -> Response:
    """Show a piece of a long text of what was kept."""
    kept = await find_history(site, request.path_params["seq"])
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
