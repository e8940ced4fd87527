"""Two processes, each with a host, on one store: together they spend no more than one would."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from antiphon.host import Audit, Echo, Host, Policy, open_store
from antiphon.host.budget import Amount, input_estimate
from tests.host.asks import origin, request
from tests.host.store.stores import DURABLE, Place
from tests.support.spending import ANSWER

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("kind", DURABLE)
async def test_two_processes_spend_one_budget(kind: str, tmp_path: Path):
    """Fifty requests at once, a budget for ten: ten are answered, forty refused with the reason, all of it spent."""
    async with Place(kind, tmp_path) as place:
        worst = input_estimate(request(max_tokens=ANSWER)) + ANSWER
        async with place.open() as store:
            await store.holds()
            outcomes = spend(place.address, 25, 10 * worst, processes=2)
            assert sorted(outcomes) == ["answered"] * 10 + ["budget"] * 40
            [total] = await store.balances("total")
            assert (total.spent, total.held) == (Amount(tokens=10 * worst), Amount())
            assert await store.holds() == []
            records = [entry.record async for entry in Audit(store).entries()]
            assert len({record.host for record in records}) == 2
            assert [record.step for record in records].count("settled") == 10
            assert (await Audit(store).verify()).whole


@pytest.mark.parametrize("kind", DURABLE)
async def test_ids_that_servers_choose_mean_nothing_to_other_processes(kind: str, tmp_path: Path):
    """Two are asked under the same ids, for calls that have the same: both answer, and each call has its account."""
    async with Place(kind, tmp_path) as place, place.open() as one, place.open() as other:
        hosts = [Host(Echo(), reviewer=None, policy=Policy(default="allow"), store=each) for each in (one, other)]
        for number in range(3):
            await asyncio.gather(*(host(request(), origin(str(number))) for host in hosts))
        calls = [each.key for each in await one.balances("call:")]
        assert sorted(calls) == sorted(f"call:{each.host}:call-1" for each in (one, other))
        settled = [entry.record async for entry in Audit(one).entries() if entry.record.step == "settled"]
        assert sorted((each.host, each.ask) for each in settled) == sorted(
            (each.host, str(number)) for each in (one, other) for number in range(3)
        )
        assert (await Audit(one).verify()).whole


def spend(address: str, count: int, total: int, *, processes: int) -> list[str]:
    """Start the processes, let them go together, and return how their requests ended."""
    command = [sys.executable, "-m", "tests.support.spending", address, str(count), str(total)]
    with ExitStack() as stack:
        started = [
            stack.enter_context(
                subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
            for _ in range(processes)
        ]
        for process in started:
            assert process.stdout.readline() == "ready\n"
        for process in started:
            process.stdin.write("go\n")
            process.stdin.flush()
        return [outcome for process in started for outcome in json.loads(process.stdout.readline())]


def test_a_store_goes_on_with_its_lease_on_the_next_event_loop(tmp_path: Path):
    """Without a lease other processes take its holds for those of a dead one."""
    store = open_store(tmp_path / "host.db")

    async def use() -> int:
        await store.balances()
        return sum(task.get_name() == "antiphon-store-lease" for task in asyncio.all_tasks())

    assert [asyncio.run(use()), asyncio.run(use())] == [1, 1]
    asyncio.run(store.aclose())
