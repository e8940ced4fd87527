"""Spending by day, server and model, the use of budgets, and reservations, for the page.

Owns the sums. The store gathers the numbers, and each surface draws them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from antiphon.host.audit.log import Audit, day_of
from antiphon.host.store.asks import SpentRow
from antiphon.host.store.base import Store

__all__ = ["DAYS", "MOST", "Bound", "Share", "Spending", "spending"]

DAYS = 14
"""Number of days that are summed up by server."""
MOST = 5
"""Number of servers shown separately; the others are shown as one."""


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """A budget, and how much of it is used. In nano-dollars."""

    kind: str
    """``"server"``, ``"day"`` or ``"total"``."""
    identity: str
    """Identity of the server, for a budget of one."""
    used: int
    """Spent and reserved."""
    held: int
    cap: int


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """The spending of one server in the days of the chart; ``None`` for all servers without a colour of their own."""

    identity: str | None
    series: int
    money: int
    tokens: int
    requests: int


class Spending(msgspec.Struct, frozen=True, kw_only=True):
    """All numbers at one moment, in nano-dollars."""

    today: int
    total: int
    held: int
    """Reserved for requests in progress."""
    bounds: list[Bound]
    shares: list[Share]
    """For the last ``DAYS``, the highest first."""
    days: list[tuple[str, dict[int, int]]]
    """Each of these days, oldest first, with the spending of each share, by ``Share.series``."""
    lines: list[SpentRow]
    """By day, server and model, the latest first."""

    @property
    def priced(self) -> bool:
        """Whether the days show money; tokens if nothing has a price."""
        return any(share.money for share in self.shares)


async def spending(store: Store, audit: Audit, now: float) -> Spending:
    """Sum up what the store has gathered from the audit; ``now`` in seconds since the epoch."""
    lines = await audit.spending()
    today = day_of(now)
    days = [day_of(now - back * 86_400) for back in range(DAYS - 1, -1, -1)]
    shares = _shares([line for line in lines if line.day in days])
    return Spending(
        today=sum(line.money for line in lines if line.day == today),
        total=sum(line.money for line in lines),
        held=sum(hold.amount.money for hold in await store.holds()),
        bounds=await _bounds(store, today),
        shares=shares,
        days=_days(lines, days, shares),
        lines=lines[::-1],
    )


def _shares(lines: Sequence[SpentRow]) -> list[Share]:
    """Sum up by server, the highest first; those after ``MOST`` are joined."""
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


def _days(lines: Iterable[SpentRow], days: Iterable[str], shares: Sequence[Share]) -> list[tuple[str, dict[int, int]]]:
    """Sum up by day: money, or tokens if nothing has a price."""
    series = {share.identity: share.series for share in shares}
    priced = any(share.money for share in shares)
    columns: dict[str, dict[int, int]] = {day: {} for day in days}
    for line in lines:
        if line.day in columns:
            place = series.get(line.identity, MOST)
            amount = line.money if priced else line.input_tokens + line.output_tokens
            columns[line.day][place] = columns[line.day].get(place, 0) + amount
    return list(columns.items())


async def _bounds(store: Store, today: str) -> list[Bound]:
    """Return the budgets that limit something, those of servers first, each as of the latest request it applied to."""
    balances = [*await store.balances("server:"), *await store.balances(f"day:{today}")]
    balances += [balance for balance in await store.balances("total") if balance.key == "total"]
    bounds: list[Bound] = []
    for balance in balances:
        kind, _, identity = balance.key.partition(":")
        if balance.cap.money is not None:
            held = balance.held.money
            bounds.append(
                Bound(kind=kind, identity=identity, used=balance.spent.money + held, held=held, cap=balance.cap.money)
            )
    return bounds
