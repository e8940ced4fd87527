"""Consent to calls of tools, on running processes: official SDKs, gateways, servers, and a person at the page.

Each check has a row in ``docs/topics/consent-checks.md``, which says where it is asked for; its function is in the
module for its letter. The table on the page is compared with what is measured here and in ``test_beside``.
"""

from __future__ import annotations

import asyncio
import traceback
from pathlib import Path

import pytest

from tests.interop.consent import bound_calls, decisions, pending_calls, results, rules
from tests.interop.consent.callers import COLUMNS, Column
from tests.interop.consent.table import read_table
from tests.interop.consent.world import CHECKS, Case, World, open_world
from tests.interop.peers import Peers

MODULES = {"E": bound_calls, "F": bound_calls, "G": pending_calls, "L": decisions, "R": rules, "S": results}
"""Where the checks of a letter are."""
ACROSS = ("E1", "E2", "L1", "L2")
"""The checks that run in all columns; the others run in the first two, which have both SDKs and both eras."""
AT_ONCE = 2
"""Checks of one column at the same time: most of their time is waiting."""
LONGEST = 240
"""Seconds that one check may take on a busy machine."""


async def carry_out(world: World, column: Column, number: str) -> str:
    """Carry out one check in one column; returns why it failed."""
    function, options = CHECKS[number]
    kept = {name: value for name, value in options.items() if name not in ("alone", "own")}
    if options.get("own"):
        kept["shops"] = tuple(f"{each}-{column.name}" for each in options["shops"])
    case = Case(world, column, number, kept)
    try:
        async with asyncio.timeout(LONGEST):
            await function(case)
            await case.settle_all()
    except Exception as error:
        line = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} in {line.name}, line {line.lineno} ({line.line}): {error}"
    return ""


async def carry_out_all(world: World) -> dict[str, dict[str, str]]:
    """Carry out all checks in all columns; returns by number the columns that failed, with the reason."""
    failed: dict[str, dict[str, str]] = {}
    alone = [number for number, (_, options) in CHECKS.items() if options.get("alone")]
    wanted = {column: [number for number in CHECKS if at < 2 or number in ACROSS] for at, column in enumerate(COLUMNS)}

    async def run(column: Column, number: str) -> None:
        if why := await carry_out(world, column, number):
            failed.setdefault(number, {})[column.name] = why

    async def run_column(column: Column) -> None:
        room = asyncio.Semaphore(AT_ONCE)

        async def run_in_turn(number: str) -> None:
            async with room:
                await run(column, number)

        await asyncio.gather(*(run_in_turn(number) for number in wanted[column] if number not in alone))

    await asyncio.gather(*map(run_column, COLUMNS))
    for number in alone:
        for column in COLUMNS:
            if number in wanted[column]:
                await run(column, number)
    return failed


@pytest.mark.timeout(1_200)
async def test_all_checks_of_consent_pass_as_the_page_says(peers: Peers, tmp_path: Path):
    """In each column, from its own client to the server that notes what it runs; failures are listed together."""
    async with open_world(tmp_path, peers) as world:
        failed = await carry_out_all(world)
    told = [f"{number} {column}: {why}" for number, columns in failed.items() for column, why in columns.items()]
    assert not failed, "\n".join(told)
    assert read_table("Antiphon") == dict.fromkeys(CHECKS, "yes")


def test_each_check_is_in_the_module_for_its_letter():
    """And there are at least 60 of them, from both eras of both SDKs."""
    assert [
        number for number, (function, _) in CHECKS.items() if function.__module__ != MODULES[number[0]].__name__
    ] == []
    assert len(CHECKS) >= 60
    first, second = COLUMNS[:2]
    assert first.program != second.program
    assert first.mode != second.mode
