"""A bar chart as numbers for a template, without a library or script; the table beside it has the same numbers.

Pure. Owns the positions of bars and axis lines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

__all__ = ["HEIGHT", "WIDTH", "Bar", "Chart", "Piece", "Tick", "chart"]

WIDTH, HEIGHT = 720, 220
"""Size in the chart's own units; it is scaled to the available room."""
_HEAD, _FOOT, _SIDE = 12, 22, 64
"""Room above the bars, below them for days, and beside them for amounts."""
_LINES = 4
"""Most lines of the axis above zero."""


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


def chart(columns: Sequence[tuple[str, Mapping[int, int]]]) -> Chart:
    """Lay out columns: each has a label, and an amount per series. An amount above 0 is always visible."""
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
    """Return the distance between lines: 1, 2 or 5 times a power of ten, so that there are only a few."""
    step, factors = 1, (2, 5, 10)
    while most > step * _LINES:
        wider = next((factor * step for factor in factors if most <= factor * step * _LINES), None)
        if wider is not None:
            return wider
        step *= 10
    return step
