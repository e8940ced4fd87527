"""Percentiles, medians and ratios."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.figures import pairs, percentile, spread


@pytest.mark.parametrize(
    ("values", "percent", "wanted"),
    [
        ([5.0], 99, 5.0),
        ([3.0, 1.0, 2.0], 50, 2.0),
        ([float(n) for n in range(1, 101)], 99, 99.0),
        ([1.0, 2.0], 100, 2.0),
    ],
)
def test_a_percentile_is_one_of_the_values(values: list[float], percent: float, wanted: float):
    """By the nearest rank, whatever their order."""
    assert percentile(values, percent) == wanted


@given(st.lists(st.floats(0, 1e9), min_size=1), st.floats(1, 100))
def test_no_percentile_lies_outside(values: list[float], percent: float):
    """And so many of the values are at or below it."""
    found = percentile(values, percent)
    assert found in values
    assert sum(value <= found for value in values) * 10_000 >= len(values) * int(percent * 100)


def test_rounds_are_summarised():
    """By the median, with the least and the most."""
    assert spread([3.0, 1.0, 10.0]) == (3.0, 1.0, 10.0)
    assert spread([]) is None


def test_a_ratio_divides_what_was_measured_in_the_same_round():
    """So the median of ratios, not the ratio of medians."""
    rounds = [{"a": {"rate": 10.0}, "b": {"rate": 5.0}}, {"a": {"rate": 2.0}, "b": {"rate": 2.0}}]
    assert pairs(rounds, rounds, "a", "b", "rate") == [2.0, 1.0]


def test_a_round_without_one_of_the_two_gives_no_ratio():
    """Nor does a figure that one of them lacks, or a divisor of nothing."""
    rounds = [
        {"a": {"rate": 10.0}},
        {"a": {"rate": 2.0}, "b": {"p50_us": 2.0}},
        {"a": {"rate": 2.0}, "b": {"rate": 0.0}},
    ]
    assert pairs(rounds, rounds, "a", "b", "rate") == []
