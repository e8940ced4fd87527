"""The past and the rules: what was decided, what is allowed, what was spent, which models and servers there are.

Owns reading and summing up for those pages. Nothing here changes anything.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from antiphon.host.audit.export import csv_lines, json_lines
from antiphon.host.audit.log import day_of
from antiphon.host.checks.policy import Rule
from antiphon.host.checks.redact import mask
from antiphon.host.store.asks import SpentRow
from antiphon.host.store.chain import Entry, Record
from antiphon.web.chart import bars
from antiphon.web.site import THEMES, Site

__all__ = ["Ask", "export", "grants", "history", "models", "servers", "settings", "spending"]

_LATEST = 5_000
"""Records that the page looks through: some thousand requests. The export has all."""
_PAGE = 100
"""Asks on one page."""
_FORMS = {"audit.jsonl": "application/jsonl", "audit.csv": "text/csv"}
_AT_ONCE = 500
"""Records of an export that are in memory: some 200 kB, or what was kept of so many requests."""
_DAYS = 14
"""Days of the chart."""


class Ask(msgspec.Struct, kw_only=True):
    """What became of one ask."""

    id: str
    at: float
    identity: str
    method: str
    outcome: str = ""
    step: str = ""
    decision: str = ""
    by: str = ""
    model: str = ""
    money: int | None = None
    tokens: int | None = None
    trail: list[Record]

    def matches(self, sought: str, target: str = "") -> bool:
        """Tell whether all words that are sought are somewhere in it; ``target`` is where its server is found."""
        said = (target, *self._said())
        held = " ".join(said).lower()
        return all(word in held for word in sought.lower().split())

    def _said(self) -> tuple[str, ...]:
        return (self.id, self.identity, self.method, self.outcome, self.step, self.decision, self.by, self.model)


async def history(site: Site, request: Request) -> Response:
    """Show what became of each ask, the latest first."""
    head = await site.store.head()
    records = [entry.record async for entry in _after(site, max(0, head.seq - _LATEST))]
    sought = request.query_params.get("q", "")
    names = await _names(site)
    found = [ask for ask in reversed(_asks(records)) if ask.matches(sought, names.get(ask.identity, ""))]
    return site.html(
        request, "history.html", asks=found[:_PAGE], found=len(found), sought=sought, kept=head.seq, names=names
    )


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


async def grants(site: Site, request: Request) -> Response:
    """Show the grants in force, and the servers that are blocked."""
    blocked = await site.store.blocks()
    names = await _names(site)
    return site.html(request, "grants.html", grants=await site.grants.all(), blocked=blocked, names=names)


async def spending(site: Site, request: Request) -> Response:
    """Show what was spent, by day, server and model, and what is held for requests under way."""
    lines = await site.audit.spending()
    today = day_of(site.clock())
    days = [day_of(site.clock() - back * 86_400) for back in range(_DAYS - 1, -1, -1)]
    return site.html(
        request,
        "spending.html",
        lines=list(reversed(lines)),
        chart=bars([(day, _spent(lines, day)) for day in days]),
        today=_spent(lines, today),
        total=sum(line.money for line in lines),
        held=sum(hold.amount.money for hold in await site.store.holds()),
        names=await _names(site),
    )


async def models(site: Site, request: Request) -> Response:
    """Show the models of the user."""
    config = site.config
    catalogue = list(config.catalogue()) if config and config.models else []
    return site.html(request, "models.html", models=catalogue, default=config.default if config else None)


async def servers(site: Site, request: Request) -> Response:
    """Show the servers that were configured, and what holds for each."""
    config = site.config
    entries = [*config.servers, *config.tightened_servers] if config else []
    known = {entry.known_as: entry for entry in entries}
    policy = config.policy if config else None
    rows = [(entry, config.for_server(entry.known_as)) for entry in known.values()] if config else []
    return site.html(
        request,
        "servers.html",
        rows=rows,
        others=config.for_server("") if config else None,
        rules=None if policy is None else [_said(rule) for rule in policy.rules],
        default=None if policy is None else policy.default,
    )


async def settings(site: Site, request: Request) -> Response:
    """Show what a browser can choose for itself."""
    return site.html(request, "settings.html", themes=THEMES, name=site.named(request))


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """A rule, as it was written down: what it says nothing of is left out."""

    effect: str
    parts: list[tuple[str, str]]


def _said(rule: Rule) -> Said:
    parts = msgspec.structs.asdict(rule)
    effect = str(parts.pop("effect"))
    shown = [(name, msgspec.json.encode(value).decode()) for name, value in parts.items() if value is not None]
    return Said(effect=effect, parts=shown)


async def _names(site: Site) -> dict[str, str]:
    """Find out where servers are found whose identity is known from elsewhere; a record has the identity alone."""
    config = site.config
    entries = [*config.servers, *config.tightened_servers] if config else []
    found = {entry.known_as: _target(entry.target) for entry in entries if entry.target is not None}
    for question in await site.queue.pending():
        if question.item is not None:
            found[question.identity] = mask(question.item.origin.target)
    return found


def _target(target: str | tuple[str, ...]) -> str:
    return mask(target if isinstance(target, str) else " ".join(target))


async def _after(site: Site, seq: int) -> AsyncIterator[Entry]:
    async for entry in site.audit.entries(seq):
        yield entry


def _asks(records: Iterable[Record]) -> list[Ask]:
    found: dict[tuple[str, str], Ask] = {}
    for record in records:
        key = (record.host, record.ask)
        ask = found.get(key)
        if ask is None:
            ask = found[key] = Ask(
                id=record.ask, at=record.at, identity=record.identity, method=record.method, trail=[]
            )
        _add(ask, record)
    return list(found.values())


def _add(ask: Ask, record: Record) -> None:
    ask.trail.append(record)
    if record.step in ("review", "response", "grant"):
        ask.decision = record.outcome or record.step
    if record.step in ("answered", "refused", "failed", "withdrawn", "invalid"):
        ask.step, ask.outcome = record.step, record.outcome
    ask.by = record.by or ask.by
    ask.model = record.model or ask.model
    if record.step in ("settled", "recovered"):
        ask.money = (ask.money or 0) + (record.money or 0)
        ask.tokens = (ask.tokens or 0) + (record.input_tokens or 0) + (record.output_tokens or 0)


def _spent(lines: Iterable[SpentRow], day: str) -> int:
    return sum(line.money for line in lines if line.day == day)
