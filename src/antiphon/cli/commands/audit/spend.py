"""Spending as a table with bars: by day, server or model.

Owns sums and drawing. The usage of a request is in the host's ``audit``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from antiphon.cli.commands.audit.list import short
from antiphon.cli.output.formats import is_terminal, print_json, print_list, write_line
from antiphon.host.audit.log import Audit, day_of
from antiphon.host.budget import dollars
from antiphon.host.store import Store
from antiphon.host.store.asks import SpentRow

__all__ = ["By", "Sum", "spend", "sums"]

By = Literal["day", "server", "model", "all"]
_BAR = 30
"""Cells of the longest bar."""
_EIGHTHS = " ▏▎▍▌▋▊▉"


class Sum(NamedTuple):
    """One row."""

    name: str
    requests: int
    input_tokens: int
    output_tokens: int
    money: int
    """Nano-dollars."""

    @property
    def tokens(self) -> int:
        """Of requests and answers together."""
        return self.input_tokens + self.output_tokens


async def spend(store: Store, by: By, since: float | None, names: Mapping[str, str], *, as_json: bool) -> None:
    """Show what was spent since a time, in whole days (UTC). ``names``: those of servers, by identity."""
    day = "" if since is None else day_of(since)
    lines = [line for line in await Audit(store).spending() if line.day >= day]
    if as_json:
        for line in lines:
            print_json({**msgspec.to_builtins(line), "dollars": dollars(line.money).removeprefix("$")})
        return
    rows = sums(lines, by, names)
    if not is_terminal():
        print_list(rows, _columns(rows, by, bars=False), as_json=False, nothing="")
        return
    total = [_added("total", rows)] if len(rows) > 1 else []
    print_list([*rows, *total], _columns(rows, by, bars=True), as_json=False, nothing="Nothing was spent.")
    if rows and all(row.money == 0 for row in rows):
        write_line("Bars are of tokens: nothing of it has a price.")


def sums(lines: Iterable[SpentRow], by: By, names: Mapping[str, str]) -> list[Sum]:
    """Sum up by name; days in order, everything else with the highest first."""
    found: dict[str, list[SpentRow]] = {}
    for line in lines:
        found.setdefault(_name(line, by, names), []).append(line)
    rows = [_added(name, some) for name, some in found.items()]
    if by in ("day", "all"):
        return rows
    return sorted(rows, key=lambda row: (-row.money, -row.tokens, row.name))


def _added(name: str, rows: Iterable[SpentRow | Sum]) -> Sum:
    some = list(rows)
    return Sum(
        name,
        requests=sum(row.requests for row in some),
        input_tokens=sum(row.input_tokens for row in some),
        output_tokens=sum(row.output_tokens for row in some),
        money=sum(row.money for row in some),
    )


def _name(line: SpentRow, by: By, names: Mapping[str, str]) -> str:
    server = names.get(line.identity) or (short(line.identity) if is_terminal() else line.identity)
    named = {"day": line.day, "server": server, "model": line.model or "(none)"}
    return named[by] if by != "all" else " ".join(named.values())


def _columns(rows: Sequence[Sum], by: By, *, bars: bool) -> dict[str, Callable[[Sum], str]]:
    columns: dict[str, Callable[[Sum], str]] = {
        by: lambda row: row.name,
        "requests": lambda row: str(row.requests),
        "tokens in": lambda row: str(row.input_tokens),
        "out": lambda row: str(row.output_tokens),
        "spent": lambda row: dollars(row.money),
    }
    if bars:
        has_price = any(row.money for row in rows)
        values = {row: row.money if has_price else row.tokens for row in rows}
        most = max(values.values(), default=0)
        # The total has no bar, which would be far longer than the others.
        columns[""] = lambda row: _bar(values.get(row, 0), most)
    return columns


def _bar(value: int, most: int) -> str:
    """Draw a value as a bar, in eighths of a cell; any value above 0 gets at least one."""
    eighths = max(1, value * _BAR * 8 // most) if value and most else 0
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
