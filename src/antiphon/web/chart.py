"""A bar chart as plain figures for a template: no library, no script, the same numbers as the table beside it.

Pure. Owns where everything is drawn, and where the lines of its axis are; what the amounts are of is the caller's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

__all__ = ["HEIGHT", "WIDTH", "Bar", "Chart", "Piece", "Tick", "chart"]

WIDTH, HEIGHT = 720, 220
"""The chart in its own units; it is scaled to the room there is."""
_HEAD, _FOOT, _SIDE = 12, 22, 64
"""Room above the bars, below them for days, and beside them for amounts."""
_LINES = 4
"""Lines of the axis above zero, at most."""


class Tick(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the axis."""

    amount: int
    y: int


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """What one series has of a bar."""

    series: int
    """Its place among the series, from 0."""
    amount: int
    y: int
    height: int


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """One bar: what it stands for, and its pieces from below."""

    name: str
    amount: int
    x: int
    width: int
    pieces: list[Piece]


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """Bars beside one another, over an axis."""

    bars: list[Bar]
    ticks: list[Tick]
    left: int = _SIDE
    foot: int = HEIGHT - _FOOT


def chart(columns: Sequence[tuple[str, Mapping[int, int]]]) -> Chart:
    """Lay out columns: each has a name, and an amount for each series. An amount above 0 is always seen."""
    most = max((sum(amounts.values()) for _, amounts in columns), default=0)
    step = _step(most)
    top = max(1, -(-most // step)) * step
    room = HEIGHT - _HEAD - _FOOT
    width = (WIDTH - _SIDE) // max(1, len(columns))
    bars = [
        Bar(
            name=name,
            amount=sum(amounts.values()),
            x=_SIDE + at * width + 3,
            width=max(1, width - 6),
            pieces=_stacked(amounts, top, room),
        )
        for at, (name, amounts) in enumerate(columns)
    ]
    ticks = [
        Tick(amount=amount, y=HEIGHT - _FOOT - amount * room // top)
        for amount in range(0, top + 1 if most else 1, step)
    ]
    return Chart(bars=bars, ticks=ticks)


def _stacked(amounts: Mapping[int, int], top: int, room: int) -> list[Piece]:
    pieces: list[Piece] = []
    foot = HEIGHT - _FOOT
    for series, amount in sorted(amounts.items()):
        if amount > 0:
            height = min(max(2, amount * room // top), foot - _HEAD)
            foot -= height
            pieces.append(Piece(series=series, amount=amount, y=foot, height=height))
    return pieces


def _step(most: int) -> int:
    """Return the distance of two lines: 1, 2 or 5 times a power of ten, so that a few of them are enough."""
    step, factors = 1, (2, 5, 10)
    while most > step * _LINES:
        wider = next((factor * step for factor in factors if most <= factor * step * _LINES), None)
        if wider is not None:
            return wider
        step *= 10
    return step
