"""A bar chart as plain figures for a template: no library, no script, the same numbers as the table beside it.

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

__all__ = ["HEIGHT", "WIDTH", "Bar", "bars"]

WIDTH, HEIGHT = 560, 160
"""The chart in its own units; it is scaled to the room there is."""
_FOOT = 20
"""Room below the bars, for days."""


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """One bar: what it stands for, and where it is."""

    name: str
    amount: int
    x: int
    y: int
    width: int
    height: int


def bars(amounts: Sequence[tuple[str, int]]) -> list[Bar]:
    """Lay out amounts side by side, the greatest as high as there is room; an amount above 0 is always seen."""
    most = max((amount for _, amount in amounts), default=0)
    step = WIDTH // max(1, len(amounts))
    room = HEIGHT - _FOOT
    made: list[Bar] = []
    for at, (name, amount) in enumerate(amounts):
        height = max(2, amount * room // most) if amount > 0 else 0
        made.append(Bar(name=name, amount=amount, x=at * step, y=room - height, width=max(1, step - 6), height=height))
    return made
