"""The rules and the sums: what is allowed, what was spent, which models and servers there are.

Owns reading and summing up for those pages; what became of each ask is ``history``. Nothing here changes anything.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from antiphon.host.audit.log import day_of
from antiphon.host.checks.policy import Rule
from antiphon.host.checks.redact import mask
from antiphon.host.store.asks import Sought, SpentRow
from antiphon.web.chart import bars
from antiphon.web.site import THEMES, Site

__all__ = ["grants", "models", "server_names", "servers", "settings", "spending"]

_DAYS = 14
"""Days of the chart."""


async def grants(site: Site, request: Request) -> Response:
    """Show the grants in force, and the servers that are blocked."""
    blocked, given = await site.store.blocks(), await site.grants.all()
    names = await server_names(site, [each.grant.identity for each in given])
    return site.html(request, "grants.html", grants=given, blocked=blocked, names=names)


async def spending(site: Site, request: Request) -> Response:
    """Show what was spent, by day, server and model, and what is held for requests under way."""
    await site.gather()
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
        names=await server_names(site, {line.identity for line in lines}),
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


async def server_names(site: Site, identities: Iterable[str] = ()) -> dict[str, str]:
    """Find out where servers are found: those that are configured or wait, and these, if they ever asked."""
    config = site.config
    entries = [*config.servers, *config.tightened_servers] if config else []
    found = {entry.known_as: mask(said) for entry in entries if (said := entry.described) is not None}
    for question in await site.queue.pending():
        if question.item is not None:
            found[question.identity] = mask(question.item.origin.target)
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
