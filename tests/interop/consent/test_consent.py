"""Consent to calls of tools, on running processes: SDKs, hosts, gateways, servers, and a person at the page.

Each check has a row in ``docs/topics/consent-checks.md``, which says where it is asked for; its function is in the
module for its letter. The table on the page is compared with what is measured here and in ``test_beside``.
"""

from __future__ import annotations

import asyncio
import traceback
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.interop.consent import bound_calls, decisions, pending_calls, results, rules
from tests.interop.consent.callers import COLUMNS, Column
from tests.interop.consent.table import read_table
from tests.interop.consent.world import CHECKS, Case, World, is_called_by, open_world
from tests.interop.peers import Peers

MODULES = {"E": bound_calls, "F": bound_calls, "G": pending_calls, "L": decisions, "R": rules, "S": results}
"""Where the checks of a letter are."""
AT_ONCE = 2
"""Checks of one column at the same time: most of their time is waiting."""
LONGEST = 240
"""Seconds that one check may take on a busy machine."""


async def carry_out(world: World, column: Column, number: str) -> str:
    """Carry out one check in one column; returns why it failed."""
    case = Case(world, column, number)
    try:
        async with asyncio.timeout(LONGEST):
            await case.check.carry_out(case)
            await case.close()
    except Exception as error:
        line = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} in {line.name}, line {line.lineno} ({line.line}): {error}"
    return ""


async def carry_out_all(world: World) -> dict[str, dict[str, str]]:
    """Carry out all checks in all columns; returns by number the columns that failed, with the reason."""
    failed: dict[str, dict[str, str]] = {}
    wanted = {column: [number for number in CHECKS if is_called_by(number, column)] for column in COLUMNS}
    alone = [number for number, each in CHECKS.items() if each.alone]

    async def run(column: Column, number: str) -> None:
        if why := await carry_out(world, column, number):
            failed.setdefault(number, {})[column.name] = why

    async def run_column(column: Column) -> None:
        # Before the time of the first check begins.
        await world.caller(column)
        room, several = asyncio.Semaphore(AT_ONCE), asyncio.Lock()

        async def run_in_turn(number: str) -> None:
            # Two of these in one host would each hold some of its conversations, and wait for the rest.
            async with several if CHECKS[number].several else nullcontext(), room:
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


def test_the_page_says_who_calls():
    """All checks are called by both official SDKs, and more than two thirds of them by each host."""
    assert read_table("callers") == {number: " ".join(each.callers) for number, each in CHECKS.items()}
    counts = Counter(letter for each in CHECKS.values() for letter in each.callers)
    assert counts["P"] == counts["T"] == len(CHECKS)
    assert min(counts["C"], counts["G"]) > len(CHECKS) * 2 / 3


def test_each_check_is_in_the_module_for_its_letter():
    """And there are at least 60 of them, from both eras of both SDKs."""
    assert [number for number, each in CHECKS.items() if each.carry_out.__module__ != MODULES[number[0]].__name__] == []
    assert len(CHECKS) >= 60
    first, second = COLUMNS[:2]
    assert first.program != second.program
    assert first.mode != second.mode
