"""A host that stands still for longer than its lease, and goes on: nothing is spent off the books.

Real processes under SIGSTOP. The one that looks is of this process, so that its clock can be turned: no test waits for
a lease. A process of this machine is known to run however silent it is; the others go by a name of no machine.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from antiphon.host import Audit
from antiphon.host.budget import Amount, input_estimate
from antiphon.host.store.base import Change, Store
from tests.host.asks import request
from tests.host.store.stores import DURABLE, Cap, Place, hold
from tests.support.standing import ANSWER

ROOT = Path(__file__).parents[2]
WORST = input_estimate(request(max_tokens=ANSWER)) + ANSWER
OF_ELSEWHERE = "abcdef012345"


@pytest.fixture(params=DURABLE)
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    """Give each test a place of its own, of each kind."""
    async with Place(request.param, tmp_path) as place:
        yield place


class Standing:
    """The other process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    async def says(self, word: str) -> None:
        """Wait until it says so."""
        assert (await asyncio.to_thread(self.process.stdout.readline)).strip() == word

    def stop(self) -> None:
        """Let it stand still, wherever it is. It does when the call returns."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOWAIT)

    def go_on(self) -> None:
        """Let it go on, past where it waits."""
        self.process.send_signal(signal.SIGCONT)
        self.told()

    def told(self) -> None:
        """Give it the line that it waits for."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()


@contextmanager
def standing(place: Place, total: int, name: str = OF_ELSEWHERE) -> Iterator[Standing]:
    """Start it."""
    command = [sys.executable, "-m", "tests.support.standing", place.address, str(total), name]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Standing(process)
        finally:
            process.kill()


async def steps(store: Store) -> list[tuple[str, str]]:
    """Return what the audit says of money."""
    records = [entry.record async for entry in Audit(store).entries()]
    return [(each.step, each.outcome) for each in records if each.step in ("reserved", "recovered", "settled")]


async def test_what_was_given_back_meanwhile_is_reserved_anew(place: Place):
    """There is enough left: the request goes out, and all of it is on the books."""
    async with place.open() as store:
        with standing(place, 10 * WORST) as host:
            await host.says("asked")
            host.stop()
            assert await place.outlast(store) == 1
            assert await store.holds() == []
            host.go_on()
            await host.says("sent")
            assert [(row.amount.tokens, row.sent) for row in await store.holds()] == [(WORST, True)]
            host.told()
            await host.says("answered")
        [total] = await store.balances("total")
        assert (total.spent, total.held) == (Amount(tokens=WORST), Amount())
        assert await steps(store) == [("recovered", "released"), ("reserved", "again"), ("settled", "used")]
        assert (await Audit(store).verify()).whole


async def test_what_others_have_spent_meanwhile_is_not_spent_again(place: Place):
    """The cap holds: the provider is never called."""
    async with place.open() as store:
        with standing(place, WORST) as host:
            await host.says("asked")
            host.stop()
            assert await place.outlast(store) == 1
            assert await store.commit(Change(hold=hold(money=0, tokens=1, caps={"total": Cap(tokens=WORST)}))) is None
            host.go_on()
            await host.says("budget")
        [total] = await store.balances("total")
        assert (total.spent, total.held) == (Amount(), Amount(tokens=1))


async def test_what_was_sent_before_is_charged_once(place: Place):
    """It was counted by the other; what the provider says later is no more than that."""
    async with place.open() as store:
        with standing(place, WORST) as host:
            await host.says("asked")
            host.told()
            await host.says("sent")
            host.stop()
            assert await place.outlast(store) == 1
            host.go_on()
            await host.says("answered")
        [total] = await store.balances("total")
        assert (total.spent, total.held) == (Amount(tokens=WORST), Amount())
        assert await steps(store) == [("recovered", "counted"), ("settled", "late")]


async def test_a_process_of_this_machine_is_waited_for(place: Place):
    """It is seen to run: nothing of it is settled by others, however long it stands still."""
    async with place.open() as store:
        with standing(place, WORST, "own") as host:
            await host.says("asked")
            host.stop()
            assert (await place.outlast(store), await place.outlast(store)) == (0, 0)
            assert len(await store.holds()) == 1
            host.go_on()
            await host.says("sent")
            host.told()
            await host.says("answered")
        assert await steps(store) == [("settled", "used")]
