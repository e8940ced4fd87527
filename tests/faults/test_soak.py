"""Hosts on one store, stopped and killed at random: nothing is spent off the books, and the audit is whole."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

import pytest

from antiphon.host import Audit
from antiphon.host.budget import Amount
from antiphon.host.store.base import Store
from antiphon.host.store.chain import Record
from tests.host.store.stores import DURABLE, Place
from tests.support.soaking import CAP

ROOT = Path(__file__).parents[2]
LEASE = 1.0
"""Seconds: so short that many who stand still are taken for dead. Every second host is seen to run, and is not."""


class Hosts:
    """The processes."""

    def __init__(self, place: str, log: Path, chance: random.Random) -> None:
        self._place = place
        self._log = log
        self._chance = chance
        self.running: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start one more."""
        name = "own" if len(self.running) % 2 else token_hex(6)
        command = [sys.executable, "-m", "tests.support.soaking", self._place, str(self._log), str(LEASE), name]
        self.running.append(subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL))

    def trouble(self) -> None:
        """Stop one for up to three leases while the others work, or kill one and start another."""
        at = self._chance.randrange(len(self.running))
        host = self.running[at]
        if self._chance.random() < 0.3:
            self.running.pop(at)
            end(host)
            self.start()
            return
        host.send_signal(signal.SIGSTOP)
        time.sleep(self._chance.random() * 3 * LEASE)  # no event to wait for: any point of their lives is the point
        host.send_signal(signal.SIGCONT)


def end(host: subprocess.Popen[bytes]) -> None:
    """Kill a host."""
    host.kill()
    host.wait()


@contextmanager
def hosts(count: int, place: str, log: Path, chance: random.Random) -> Iterator[Hosts]:
    """Start so many, and kill them at the end."""
    started = Hosts(place, log, chance)
    try:
        for _ in range(count):
            started.start()
        yield started
    finally:
        for host in started.running:
            end(host)


def soak(count: int, seconds: float, place: str, log: Path) -> None:
    """Let hosts work for a time, among trouble."""
    chance = random.Random(2026)
    with hosts(count, place, log, chance) as started:
        while not log.exists() or b"answered" not in log.read_bytes():
            time.sleep(0.05)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            started.trouble()
            time.sleep(chance.random() * LEASE)  # they work in peace: one who is stopped often holds up all others


def logged(log: Path) -> tuple[dict[str, int], dict[str, int], set[str]]:
    """Return what providers took: by server, and by ask; and which asks were answered."""
    servers, asks, answered = defaultdict[str, int](int), dict[str, int](), set[str]()
    for line in log.read_text().splitlines():
        match line.split():
            case ["sent", ask, server, taken]:
                servers[server] += int(taken)
                asks[ask] = int(taken)
            case ["answered", ask]:
                answered.add(ask)
    return servers, asks, answered


def tokens(record: Record) -> int:
    """Return what a record charges."""
    return (record.input_tokens or 0) + (record.output_tokens or 0)


async def check(place: Place, store: Store, log: Path) -> int:
    """Put in order what the killed have left, and look at everything. Returns how many asks were answered."""
    await place.outlast(store)
    assert await store.holds() == []
    servers, asks, answered = logged(log)
    records = [entry.record async for entry in Audit(store).entries()]
    charged = Counter[str]()
    for record in records:
        charged[record.ask] += tokens(record)
    for balance in await store.balances():
        assert balance.held == Amount(), balance
    for balance in await store.balances("server:"):
        server = balance.key.removeprefix("server:")
        assert servers[server] <= balance.spent.tokens <= CAP, balance
    # Each ask that was sent is settled with what it took, or counted with its worst case.
    assert [ask for ask, taken in asks.items() if charged[ask] < taken] == []
    [total] = await store.balances("total")
    assert total.spent.tokens == charged.total()
    assert answered <= {record.ask for record in records if record.step == "settled"}
    assert (await Audit(store).verify()).whole
    return len(answered)


async def soaked(place: Place, count: int, seconds: float, log: Path) -> None:
    """Soak, and look."""
    async with place.open() as store:
        await store.head()
    await asyncio.to_thread(soak, count, seconds, place.address, log)
    async with place.open() as store:
        assert await check(place, store, log) > 0


@pytest.mark.parametrize("kind", DURABLE)
async def test_three_hosts_in_trouble_for_some_seconds(kind: str, tmp_path: Path):
    """Stopped and killed in the middle of whatever they do."""
    async with Place(kind, tmp_path) as place:
        await soaked(place, 3, 6.0, tmp_path / "log")


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", DURABLE)
async def test_eight_hosts_in_trouble_for_a_minute(kind: str, tmp_path: Path):
    """The same for longer."""
    async with Place(kind, tmp_path) as place:
        await soaked(place, 8, 60.0, tmp_path / "log")
