"""Rules and sums: what is allowed, what was spent, and the models and servers.

``host.review.spending`` computes sums; ``history`` shows asks. Nothing here changes anything.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from antiphon.host.checks.policy import Rule
from antiphon.host.review.behind_gateway import shown_servers
from antiphon.host.review.history import server_names as names
from antiphon.host.review.keymap import keys_on
from antiphon.host.review.spending import spending as figures
from antiphon.web.chart import chart
from antiphon.web.site import THEMES, Site

__all__ = ["grants", "models", "server_names", "servers", "settings", "spending"]

_ROWS = 300
"""Rows of the table: the newest, some months. The command line lists all of them."""


async def grants(site: Site, request: Request) -> Response:
    """Show the grants in force, and the servers that are blocked."""
    blocked, given = await site.store.blocks(), await site.grants.all()
    names = await server_names(site, [each.grant.identity for each in given])
    spent = {balance.key.removeprefix("grant:"): balance.spent.money for balance in await site.store.balances("grant:")}
    return site.html(request, "grants.html", grants=given, blocked=blocked, names=names, spent=spent)


async def spending(site: Site, request: Request) -> Response:
    """Show what was spent by day, server and model, the use of budgets, and reservations."""
    await site.gather()
    spent = await figures(site.store, site.audit, site.clock())
    return site.html(
        request,
        "spending.html",
        lines=spent.lines[:_ROWS],
        more=len(spent.lines) > _ROWS,
        chart=chart(spent.days),
        priced=spent.priced,
        shares=spent.shares,
        bounds=spent.bounds,
        today=spent.today,
        total=spent.total,
        held=spent.held,
        names=await server_names(site, {line.identity for line in spent.lines}),
    )


async def models(site: Site, request: Request) -> Response:
    """Show the models of the user."""
    config = site.config
    catalogue = list(config.catalogue()) if config and config.models else []
    return site.html(request, "models.html", models=catalogue, default=config.default if config else None)


async def servers(site: Site, request: Request) -> Response:
    """Show the servers of the gateway with their tools, the configured servers, and the settings of each."""
    if site.servers is not None:
        await site.gather()
    config = site.config
    entries = [*config.servers, *config.tightened_servers] if config else []
    known = {entry.known_as: entry for entry in entries}
    policy = config.policy if config else None
    rows = [(entry, config.for_server(entry.known_as)) for entry in known.values()] if config else []
    return site.html(
        request,
        "servers.html",
        gated=[] if site.servers is None else await shown_servers(site.servers, site.store, site.digests, site.clock()),
        rows=rows,
        others=config.for_server("") if config else None,
        rules=None if policy is None else [_said(rule) for rule in policy.rules],
        default=None if policy is None else policy.default,
    )


async def settings(site: Site, request: Request) -> Response:
    """Show the settings of the browser."""
    return show_settings(site, request)


def show_settings(site: Site, request: Request, address: str = "") -> Response:
    """Show the settings, with the keys as they are set, and an address for another browser if one was made."""
    letters, chosen = site.chosen_keys(request)
    return site.html(
        request,
        "settings.html",
        themes=THEMES,
        name=site.named(request),
        letters=letters,
        keys=[(key.action, chosen.get(key.action, key.keys[0])) for key in SINGLE_KEYS],
        address=address,
    )


SINGLE_KEYS = tuple(key for key in keys_on("page") if len(key.keys[0]) == 1)
"""The keys of a single character, which can be switched off and changed."""


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """A rule as configured, without the conditions that it does not set."""

    effect: str
    parts: list[tuple[str, str]]


def _said(rule: Rule) -> Said:
    parts = msgspec.structs.asdict(rule)
    effect = str(parts.pop("effect"))
    shown = [(name, msgspec.json.encode(value).decode()) for name, value in parts.items() if value is not None]
    return Said(effect=effect, parts=shown)


async def server_names(site: Site, identities: Iterable[str] = ()) -> dict[str, str]:
    """Return the targets of servers; see ``host.review.history``."""
    identities = list(identities)
    if identities:
        await site.gather()
    known = site.config.server_names if site.config else {}
    return await names(site.store, site.queue, known, identities)
