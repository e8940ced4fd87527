"""The rules and the sums: what is allowed, what was spent, which models and servers there are.

Owns reading and summing up for those pages; what became of each ask is ``history``. Nothing here changes anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from antiphon.host.audit.log import day_of
from antiphon.host.checks.policy import Rule
from antiphon.host.checks.redact import mask
from antiphon.host.store.asks import Sought, SpentRow
from antiphon.web.chart import MOST, Chart, chart
from antiphon.web.site import THEMES, Site

__all__ = ["grants", "models", "server_names", "servers", "settings", "spending"]

_ROWS = 300
"""Rows of the table: the newest, some months. The command line has all of them."""
_DAYS = 14
"""Days of the chart."""


async def grants(site: Site, request: Request) -> Response:
    """Show the grants in force, and the servers that are blocked."""
    blocked, given = await site.store.blocks(), await site.grants.all()
    names = await server_names(site, [each.grant.identity for each in given])
    spent = {balance.key.removeprefix("grant:"): balance.spent.money for balance in await site.store.balances("grant:")}
    return site.html(request, "grants.html", grants=given, blocked=blocked, names=names, spent=spent)


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """A budget, and how far it is used up. Nano-dollars."""

    kind: str
    """``"server"``, ``"day"`` or ``"total"``."""
    identity: str
    """Of a server."""
    used: int
    """What was spent, and what is reserved."""
    held: int
    cap: int


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """What one server took in the days of the chart; ``None`` for all that have no colour of their own."""

    identity: str | None
    series: int
    money: int
    tokens: int
    requests: int


async def spending(site: Site, request: Request) -> Response:
    """Show what was spent, by day, server and model, how far budgets are used up, and what is held."""
    await site.gather()
    lines = await site.audit.spending()
    today = day_of(site.clock())
    days = [day_of(site.clock() - back * 86_400) for back in range(_DAYS - 1, -1, -1)]
    shares = _shares([line for line in lines if line.day in days])
    bounds = await _bounds(site, today)
    return site.html(
        request,
        "spending.html",
        lines=lines[: -_ROWS - 1 : -1],
        more=len(lines) > _ROWS,
        chart=_chart(lines, days, shares),
        priced=any(share.money for share in shares),
        shares=shares,
        bounds=bounds,
        today=_spent(lines, today),
        total=sum(line.money for line in lines),
        held=sum(hold.amount.money for hold in await site.store.holds()),
        names=await server_names(site, {line.identity for line in lines}),
    )


def _shares(lines: Sequence[SpentRow]) -> list[Share]:
    """Add up by server, the dearest first; those after ``MOST`` are one."""
    found: dict[str, Share] = {}
    for line in lines:
        before = found.get(line.identity, Share(identity=line.identity, series=0, money=0, tokens=0, requests=0))
        found[line.identity] = _plus(before, line.money, line.input_tokens + line.output_tokens, line.requests)
    ordered = sorted(found.values(), key=lambda share: (-share.money, -share.tokens, share.identity or ""))
    own = [msgspec.structs.replace(share, series=at) for at, share in enumerate(ordered[:MOST])]
    rest = Share(identity=None, series=MOST, money=0, tokens=0, requests=0)
    for share in ordered[MOST:]:
        rest = _plus(rest, share.money, share.tokens, share.requests)
    return [*own, rest] if ordered[MOST:] else own


def _plus(share: Share, money: int, tokens: int, requests: int) -> Share:
    return msgspec.structs.replace(
        share, money=share.money + money, tokens=share.tokens + tokens, requests=share.requests + requests
    )


def _chart(lines: Sequence[SpentRow], days: Sequence[str], shares: Sequence[Share]) -> Chart:
    """Draw the days: of money, or of tokens where nothing has a price."""
    series = {share.identity: share.series for share in shares}
    priced = any(share.money for share in shares)
    columns: dict[str, dict[int, int]] = {day: {} for day in days}
    for line in lines:
        if line.day in columns:
            place = series.get(line.identity, MOST)
            amount = line.money if priced else line.input_tokens + line.output_tokens
            columns[line.day][place] = columns[line.day].get(place, 0) + amount
    return chart(list(columns.items()))


async def _bounds(site: Site, today: str) -> list[Bound]:
    """Return the budgets that bound something, of servers first; each as the latest request has met it."""
    balances = [*await site.store.balances("server:"), *await site.store.balances(f"day:{today}")]
    balances += [balance for balance in await site.store.balances("total") if balance.key == "total"]
    bounds: list[Bound] = []
    for balance in balances:
        kind, _, identity = balance.key.partition(":")
        if balance.cap.money is not None:
            held = balance.held.money
            bounds.append(
                Bound(kind=kind, identity=identity, used=balance.spent.money + held, held=held, cap=balance.cap.money)
            )
    return bounds


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


async def server_names(site: Site, identities: Iterable[str] = ()) -> dict[str, str]:
    """Find out where servers are found: those that are configured or wait, and these, if they ever asked."""
    config = site.config
    entries = [*config.servers, *config.tightened_servers] if config else []
    found = {entry.known_as: mask(said) for entry in entries if (said := entry.described) is not None}
    for question in await site.queue.pending():
        if question.item is not None:
            origin = question.item.origin
            found |= dict.fromkeys([origin.identity, *origin.coarser], mask(origin.target))
    unknown = {*identities} - found.keys()
    if unknown:
        await site.gather()
    for identity in unknown:
        for row in (await site.store.asks(Sought(identity=identity, limit=1))).rows:
            if row.server:
                found[identity] = row.server
    return found


def _spent(lines: Iterable[SpentRow], day: str) -> int:
    return sum(line.money for line in lines if line.day == day)
