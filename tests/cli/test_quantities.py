from __future__ import annotations

import pytest

from antiphon.cli.output.formats import format_time, parse_future_time, parse_money, parse_past_time
from antiphon.errors import ConfigError

NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("90s", NOW - 90),
        ("30m", NOW - 1800),
        ("12 h", NOW - 43_200),
        ("7d", NOW - 604_800),
        ("2w", NOW - 1_209_600),
        ("1970-01-02", 86_400.0),
        ("1970-01-01T01:00", 3_600.0),
        ("1970-01-01T01:00:00+01:00", 0.0),
        ("0001-01-01T00:00:00+14:00", 0.0),
        ("9999-12-31T23:59:59-14:00", 253_402_214_400.0),
    ],
)
def test_a_moment_that_was(text: str, moment: float):
    """A length of time ago, or a date in UTC."""
    assert parse_past_time(text, NOW) == moment


def test_a_moment_that_will_be():
    """A length of time from now, or a date that is not over."""
    assert parse_future_time("2h", NOW) == NOW + 7200
    assert (parse_future_time(None, NOW), parse_past_time(None, NOW)) == (None, None)
    with pytest.raises(ConfigError, match="is over"):
        parse_future_time("2001-01-01", NOW)


@pytest.mark.parametrize("text", ["", "soon", "7y", "-7d", "9999999999d", "2026-13-01"])
def test_what_is_no_moment_is_a_mistake(text: str):
    """With what there is to write."""
    with pytest.raises(ConfigError, match="is not a time: write 30m"):
        parse_past_time(text, NOW)


def test_a_sum_is_exact():
    """In nano-dollars, with or without the sign."""
    assert (parse_money("--up-to", "$1.50"), parse_money("--up-to", "0.000000001"), parse_money("--up-to", None)) == (
        1_500_000_000,
        1,
        None,
    )


@pytest.mark.parametrize("text", ["", "0", "-1", "NaN", "Infinity", "much", "$$1", "1e99"])
def test_what_is_no_sum_is_a_mistake(text: str):
    """Nothing is rounded to nothing."""
    with pytest.raises(ConfigError, match="not a sum in dollars"):
        parse_money("--up-to", text)


def test_a_moment_is_written_in_utc():
    """To the second; nothing for nothing."""
    assert (format_time(0.9), format_time(None)) == ("1970-01-01T00:00:00Z", "")
