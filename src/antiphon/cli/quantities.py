"""Times and amounts as typed: ``--since 7d``, ``--until 2026-12-01``, ``--up-to $2``.

Pure; the clock is the caller's.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation

from antiphon.errors import ConfigError
from antiphon.host.budget import convert_to_nano

_LENGTH = re.compile(r"(?P<number>\d{1,9}) *(?P<unit>[smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_MOST_DOLLARS = 1_000_000_000


def parse_past_time(text: str | None, now: float) -> float | None:
    """Read a time in the past: a duration ago (``7d``), or a date."""
    return None if text is None else parse_moment("--since", text, now, -1)


def parse_future_time(text: str | None, now: float) -> float | None:
    """Read a time in the future: a duration from now (``2h``), or a date."""
    if text is None:
        return None
    end = parse_moment("--until", text, now, 1)
    if end <= now:
        raise ConfigError(f"--until: {text} is over")
    return end


def parse_moment(option: str, text: str, now: float, direction: int) -> float:
    """Read a duration from now in this direction, or an ISO 8601 date or time (UTC unless it says otherwise)."""
    length = _LENGTH.fullmatch(text.strip())
    if length:
        return now + direction * int(length["number"]) * _SECONDS[length["unit"]]
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(
            f"{option}: {text!r} is not a time: write 30m, 12h, 7d, 2026-12-01 or 2026-12-01T18:00"
        ) from None
    return (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()


def parse_money(option: str, text: str | None) -> int | None:
    """Read an amount of US dollars as nano-dollars."""
    if text is None:
        return None
    try:
        amount = Decimal(text.removeprefix("$"))
    except InvalidOperation:
        amount = Decimal(-1)
    if not (amount.is_finite() and 0 < amount <= _MOST_DOLLARS):
        raise ConfigError(f"{option}: not a sum in dollars: {text!r}")
    return convert_to_nano(amount)


def format_time(at: float | None) -> str:
    """Format a time for people and programs: ISO 8601 in UTC, to the second."""
    return "" if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
