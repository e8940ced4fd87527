"""Killed at any point, nothing is lost and nothing is doubled."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from antiphon.host.audit import Audit
from antiphon.host.budget import Amount
from antiphon.host.store.base import OPEN, Store
from antiphon.host.store.chain import Record
from antiphon.host.store.sql_store import SqlStore
from antiphon.sql.runner import SqliteRunner

ROOT = Path(__file__).parents[3]
KILLED = ("done", "pending", "decided", "withdrawn", "expired")


@pytest.fixture
def door() -> tuple[str, ...]:
    """Say how requests come: by default straight to the host."""
    return ()


@pytest.fixture
def nursery(tmp_path: Path, door: tuple[str, ...]) -> Iterator[subprocess.Popen[str]]:
    """Start the program whose children are killed."""
    command = [sys.executable, "-m", "tests.support.dying", str(tmp_path / "host.db"), str(tmp_path / "log"), *door]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as nursery:
        yield nursery
        nursery.stdin.close()


def kill_one(nursery: subprocess.Popen[str], seed: int, after: float) -> None:
    """Have a child made, let it live for a moment, and kill it."""
    nursery.stdin.write(f"{seed}\n")
    nursery.stdin.flush()
    child = int(nursery.stdout.readline())
    time.sleep(after)  # no event to wait for: any point of its life is the point
    os.kill(child, signal.SIGKILL)
    nursery.stdout.readline()


def logged(folder: Path, what: str) -> set[str]:
    """Return the asks that a child said were sent or answered."""
    log = folder / "log"
    lines = log.read_text().splitlines() if log.exists() else []
    # Its last line may be cut short only if the write was: one write is whole.
    return {line.removeprefix(f"{what} ") for line in lines if line.startswith(f"{what} ")}


async def records_of(store: Store) -> list[Record]:
    """Read the whole audit."""
    return [entry.record async for entry in Audit(store).entries()]


async def check_money(store: Store, records: list[Record]) -> None:
    """Nothing is held, and what was spent is what the records say."""
    assert await store.holds() == []
    balances = {balance.key: balance for balance in await store.balances()}
    assert {balance.held for balance in balances.values()} <= {Amount()}
    spent = Amount(
        money=sum(record.money or 0 for record in records),
        tokens=sum((record.input_tokens or 0) + (record.output_tokens or 0) for record in records),
    )
    assert "total" not in balances or balances["total"].spent == spent


def check_asks(records: list[Record], sent: set[str], answered: set[str]) -> None:
    """Each step of an ask is there once; whatever was sent is accounted for once."""
    # What became of an answer that a person gave is reported later, in a step that has the name of the answer's own.
    ends = Counter(record.ask for record in records if record.outcome == "handed-over")
    steps = Counter((record.ask, record.step) for record in records if record.outcome != "handed-over")
    assert [key for key, count in [*steps.items(), *ends.items()] if count > 1] == []
    assert ends.keys() <= {ask for ask, step in steps if step == "answered"}
    counted = {record.ask for record in records if record.step == "recovered" and record.outcome == "counted"}
    settled = {ask for ask, step in steps if step == "settled"}
    assert counted & settled == set()
    assert sent <= counted | settled
    assert {ask for ask, step in steps if step == "generate"} == counted | settled
    assert answered <= {ask for ask, step in steps if step == "answered"} & settled


async def check_people(store: Store, records: list[Record]) -> None:
    """Uses of grants are counted; a decision is carried out once; what is open waits to be asked again, once."""
    used = Counter(record.grant for record in records if record.step == "grant")
    assert all(row.used == used[row.id] for row in await store.grants())
    assert max(used.values(), default=0) <= 3
    rows = await store.reviews(KILLED, 100_000)
    done = [row for row in rows if row.state == "done"]
    assert len(done) == sum(record.step == "review" for record in records)
    left = [row for row in rows if row.state in OPEN]
    # Decided where nobody waited: by a person, after the process was killed. The decision is kept.
    assert {(row.state, row.host) for row in left} <= {("pending", None), ("decided", None)}
    assert len({row.fingerprint for row in left}) == len(left)


async def check(folder: Path) -> int:
    """Open the store as the next process would, and look at everything."""
    store = SqlStore(SqliteRunner(folder / "host.db"))
    try:
        records = await records_of(store)
        proof = await Audit(store).verify()
        assert (proof.fault, proof.records) == (None, len(records))
        check_asks(records, logged(folder, "sent"), logged(folder, "answered"))
        await check_money(store, records)
        await check_people(store, records)
        return len(records)
    finally:
        await store.aclose()


def kill(nursery: subprocess.Popen[str], folder: Path, times: int) -> None:
    """Kill so many, and look at what each of the first left; later at five together, as a look reads all records."""
    chance = random.Random(2026)
    records = 0
    for seed in range(times):
        kill_one(nursery, seed, 0.005 + chance.random() * 0.1)
        if seed < 40 or seed % 5 == 4:
            records = asyncio.run(check(folder))
    assert records > times


def test_killed_at_ten_points(nursery: subprocess.Popen[str], tmp_path: Path):
    """In the middle of requests, reviews, grants and settlements."""
    kill(nursery, tmp_path, 10)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_killed_at_two_hundred_points(nursery: subprocess.Popen[str], tmp_path: Path):
    """The same for longer."""
    kill(nursery, tmp_path, 200)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("door", [("model-api",)])
def test_killed_at_two_hundred_points_behind_the_model_api(nursery: subprocess.Popen[str], tmp_path: Path):
    """Requests come by HTTP, half of them as streams, and some clients hang up: everything is accounted for once."""
    kill(nursery, tmp_path, 200)
