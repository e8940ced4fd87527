"""Rules and sums: what is allowed, what was spent, and the models and servers.

``host.review.history`` computes sums; ``history`` shows asks. Nothing here changes anything. The chart of sums is
numbers for a template, without a library or script; the table beside it has the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from antiphon.host.checks.policy_rules import Rule
from antiphon.host.review.definitions import collect_servers_shown
from antiphon.host.review.history import server_names as names
from antiphon.host.review.history import sum_up_spending as figures
from antiphon.host.review.keymap import keys_on
from antiphon.web.site import THEMES, Site

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
    return site.html(
        request,
        "spending.html",
        lines=spent.lines[:_ROWS],
        more=len(spent.lines) > _ROWS,
        chart=lay_out_chart(spent.days),
        priced=spent.priced,
        shares=spent.shares,
        bounds=spent.bounds,
        today=spent.today,
        total=spent.total,
        held=spent.held,
        names=await server_names(site, {line.identity for line in spent.lines}),
    )


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
        gated=[]
        if site.servers is None
        else await collect_servers_shown(site.servers, site.store, site.digests, site.clock()),
        rows=rows,
        others=config.for_server("") if config else None,
        rules=None if policy is None else [_describe_rule(rule) for rule in policy.rules],
        default=None if policy is None else policy.default,
    )


async def show_browser_settings(site: Site, request: Request) -> Response:
    """Show the settings of the browser."""
    return show_settings(site, request)


def show_settings(site: Site, request: Request, address: str = "") -> Response:
    """Show the settings, with the keys as they are set, and an address for another browser if one was made."""
    letters, chosen = site.find_chosen_keys(request)
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


class ConfiguredRule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule as configured, without the conditions that it does not set."""

    effect: str
    parts: list[tuple[str, str]]


def _describe_rule(rule: Rule) -> ConfiguredRule:
    parts = msgspec.structs.asdict(rule)
    effect = str(parts.pop("effect"))
    shown = [(name, msgspec.json.encode(value).decode()) for name, value in parts.items() if value is not None]
    return ConfiguredRule(effect=effect, parts=shown)


async def server_names(site: Site, identities: Iterable[str] = ()) -> dict[str, str]:
    """Return the targets of servers; see ``host.review.history``."""
    identities = list(identities)
    if identities:
        await site.gather()
    known = site.config.server_names if site.config else {}
    return await names(site.store, site.queue, known, identities)


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
    step = _choose_step(most)
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


def _choose_step(most: int) -> int:
    """Return the distance between lines: 1, 2 or 5 times a power of ten, so that there are only a few."""
    step, factors = 1, (2, 5, 10)
    while most > step * _LINES:
        wider = next((factor * step for factor in factors if most <= factor * step * _LINES), None)
        if wider is not None:
            return wider
        step *= 10
    return step
