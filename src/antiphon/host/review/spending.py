"""What was spent: by day, server and model, how far budgets are used up, and what is held. For the page and the screen.

Owns summing up. The figures are gathered by the store; how they are drawn is the surface's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from antiphon.host.audit.log import Audit, day_of
from antiphon.host.store.asks import SpentRow
from antiphon.host.store.base import Store

__all__ = ["DAYS", "MOST", "Bound", "Share", "Spending", "spending"]

DAYS = 14
"""Days that are summed up by server."""
MOST = 5
"""Servers that are told apart; the rest is one more."""


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


class Spending(msgspec.Struct, frozen=True, kw_only=True):
    """All figures, as of one moment. Nano-dollars."""

    today: int
    total: int
    held: int
    """Reserved for requests under way."""
    bounds: list[Bound]
    shares: list[Share]
    """Of the last ``DAYS``, the dearest first."""
    days: list[tuple[str, dict[int, int]]]
    """Each of these days, the oldest first: what each share took of it, by ``Share.series``."""
    lines: list[SpentRow]
    """By day, server and model, the latest first."""

    @property
    def priced(self) -> bool:
        """Whether the days are of money; of tokens where nothing has a price."""
        return any(share.money for share in self.shares)


async def spending(store: Store, audit: Audit, now: float) -> Spending:
    """Sum up what the store has gathered of the audit; ``now`` in seconds since the epoch."""
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


def _days(lines: Iterable[SpentRow], days: Iterable[str], shares: Sequence[Share]) -> list[tuple[str, dict[int, int]]]:
    """Add up by day: money, or tokens where nothing has a price."""
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
    """Return the budgets that bound something, of servers first; each as the latest request has met it."""
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
