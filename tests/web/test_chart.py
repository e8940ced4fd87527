"""Bars: as high as their amounts say."""

from __future__ import annotations

from antiphon.web.chart import HEIGHT, WIDTH, bars


def test_bars_are_in_proportion():
    """The greatest takes the room there is, half of it is half as high, nothing is nothing."""
    half, whole, none = bars([("a", 50), ("b", 100), ("c", 0)])
    assert (whole.y, none.height) == (0, 0)
    assert half.height * 2 == whole.height < HEIGHT


def test_a_small_amount_is_seen():
    """However much another day took."""
    assert bars([("a", 1), ("b", 10**12)])[0].height == 2


def test_bars_stay_within_the_chart():
    """Side by side, none beyond the edge."""
    made = bars([(str(day), day) for day in range(14)])
    assert all(bar.x + bar.width <= WIDTH for bar in made)
    assert bars([]) == []
