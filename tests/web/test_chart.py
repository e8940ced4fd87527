"""Bars: as high as their amounts say, over lines with round figures."""

from __future__ import annotations

import pytest

from antiphon.web.chart import HEIGHT, WIDTH, chart


def test_bars_are_in_proportion():
    """Half as much is half as high, nothing is nothing; the pieces of a bar stand on one another."""
    made = chart([("a", {0: 50}), ("b", {0: 60, 1: 40}), ("c", {})])
    half, whole, none = made.bars
    assert none.pieces == []
    lower, upper = whole.pieces
    assert abs(half.pieces[0].height * 2 - lower.height - upper.height) <= 2
    assert upper.y + upper.height == lower.y
    assert lower.y + lower.height == made.foot
    assert (whole.amount, upper.amount, upper.series) == (100, 40, 1)


def test_a_small_amount_is_seen():
    """However much another day took."""
    assert chart([("a", {0: 1}), ("b", {0: 10**12})]).bars[0].pieces[0].height == 2


def test_bars_stay_within_the_chart():
    """Side by side, none beyond an edge; also where many small pieces are made large enough to be seen."""
    made = chart([(str(day), dict.fromkeys(range(6), day or 1)) for day in range(14)] + [("most", {0: 10**9})])
    for bar in made.bars:
        assert made.left <= bar.x
        assert bar.x + bar.width <= WIDTH
        assert all(piece.y >= 0 and piece.y + piece.height <= made.foot < HEIGHT for piece in bar.pieces)
    assert chart([]).bars == []


@pytest.mark.parametrize(
    ("most", "lines"),
    [
        (0, [0]),
        (3, [0, 1, 2, 3]),
        (7, [0, 2, 4, 6, 8]),
        (1_000, [0, 500, 1_000]),
        (9_999, [0, 5_000, 10_000]),
        (42_000_000, [0, 20_000_000, 40_000_000, 60_000_000]),
    ],
)
def test_the_axis_has_a_few_lines_at_round_amounts(most: int, lines: list[int]):
    """The highest is no lower than the highest bar."""
    made = chart([("a", {0: most})])
    assert [tick.amount for tick in made.ticks] == lines
    assert [tick.y for tick in made.ticks] == sorted((tick.y for tick in made.ticks), reverse=True)
