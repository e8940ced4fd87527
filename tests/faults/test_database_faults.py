"""A database that is restarted, stands still, or is held up by one who vanished: nothing hangs, nothing is lost."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from antiphon import Client, Context, Server
from antiphon.errors import AntiphonError
from antiphon.host import Approve, Audit, Host, Policy, Queue, Scripted, digest, open_store
from antiphon.host.budget import Amount
from antiphon.host.review.question import Question
from antiphon.host.store.base import Change, Settlement, Store
from antiphon.sql.database_store import StoreStalled
from antiphon.types import CallToolResult
from tests.host.asks import origin, request
from tests.host.store.stores import hold, record
from tests.support.postgres import Postgres, own_postgres

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(120)]

ROOT = Path(__file__).parents[2]


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    """Start a server for this test alone."""
    with own_postgres() as server:
        yield server


@pytest.fixture
async def store(postgres: Postgres) -> AsyncIterator[Store]:
    """Open a store there that has its tables already."""
    store = open_store(postgres.address)
    await store.head()
    yield store
    postgres.go_on()
    await store.aclose()


@pytest.fixture
def impatient(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten what is waited for once the store is open, where the bound itself is not what is tested."""
    monkeypatch.setattr("antiphon.sql.database_store.PATIENCE", 1.0)
    monkeypatch.setattr("antiphon.host.store.sql_store.CLOSING", 0.5)
    monkeypatch.setattr("antiphon.sql.runner.CLOSING", 0.5)


@contextmanager
def vanished(address: str) -> Iterator[None]:
    """Have a process stop in the middle of a transaction that locks what every writer needs."""
    command = [sys.executable, "-m", "tests.support.vanishing", address]
    with subprocess.Popen(command, cwd=ROOT) as process:
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        try:
            yield
        finally:
            process.kill()


async def asked(queue: Queue, count: int) -> list[Question]:
    """Wait until so many questions wait."""
    async for _ in queue.changes():
        questions = await queue.pending()
        if len(questions) == count:
            return questions
    raise AssertionError


async def test_one_that_vanishes_in_a_transaction_costs_the_others_only_time(postgres: Postgres, store: Store):
    """The server ends the transaction of who stands still, before anybody loses patience."""
    with vanished(postgres.address):
        assert await store.commit(Change(records=(record(),))) is None
    assert (await Audit(store).verify()).whole


@pytest.mark.usefixtures("impatient")
async def test_a_server_that_stands_still_is_not_waited_for(postgres: Postgres, store: Store):
    """Whoever wants something is told so; the next one at once; and the store can be closed."""
    postgres.stand_still()
    with pytest.raises(StoreStalled, match="within 1 s"):
        await store.commit(Change(hold=hold()))
    with pytest.raises(StoreStalled, match=r"within 0\.5 s"):
        await store.balances()
    await store.aclose()


@pytest.mark.usefixtures("impatient")
async def test_a_change_that_was_given_up_may_still_happen_and_once(
    postgres: Postgres, store: Store, monkeypatch: pytest.MonkeyPatch
):
    """It was begun: when the server goes on, so does it."""
    postgres.stand_still()
    with pytest.raises(StoreStalled):
        await store.commit(Change(records=(record(),)))
    # From here on a server that is only slow is waited for.
    monkeypatch.setattr("antiphon.sql.database_store.PATIENCE", 60.0)
    monkeypatch.setattr("antiphon.sql.database_store._AGAIN", 60.0)
    postgres.go_on()
    assert await store.commit(Change(records=(record("policy"),))) is None
    assert [entry.record.step for entry in await store.entries()] == ["received", "policy"]


@pytest.mark.usefixtures("impatient")
async def test_a_call_ends_though_the_database_stands_still(postgres: Postgres, store: Store):
    """The time a machine takes is not that of a person: the ask fails, the call with it, and a cancelled one ends."""
    server = Server("shop")

    @server.tool
    async def describe(ctx: Context) -> str:
        """Describe it."""
        return (await ctx.sample("Describe it.")).text

    host = Host(Scripted(["ok"]), reviewer=None, policy=Policy(default="allow"), store=store)
    async with Client(server, sampling=host, timeout=60) as client:
        postgres.stand_still()
        with pytest.raises(AntiphonError):
            await client.call_tool("describe")
        calling = asyncio.create_task(client.call_tool("describe"))
        await asyncio.sleep(0)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_a_call_waits_for_a_database_no_longer_than_its_own_timeout(
    postgres: Postgres, store: Store, revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the host itself would wait: an hour here."""
    monkeypatch.setattr("antiphon.sql.database_store.PATIENCE", 3600.0)
    server = Server("shop")

    @server.tool
    async def describe(ctx: Context) -> str:
        """Describe it."""
        return (await ctx.sample("Describe it.")).text

    host = Host(Scripted(["ok"]), reviewer=None, policy=Policy(default="allow"), store=store)
    async with Client(server, sampling=host, timeout=1, revision=revision) as client:
        postgres.stand_still()
        [ended] = await asyncio.gather(client.call_tool("describe"), return_exceptions=True)
    # The server may still tell in time that its ask failed.
    assert isinstance(ended, AntiphonError) or (isinstance(ended, CallToolResult) and ended.is_error)


async def test_reviews_outlive_a_restart_of_the_database(postgres: Postgres, store: Store):
    """Ten wait while it is gone; each is answered by the decision that is made afterwards."""
    queue = Queue(store)
    host = Host(Scripted([str(number) for number in range(10)]), reviewer=queue, store=store)
    calls = [asyncio.create_task(host(request(f"Describe {at}"), origin(str(at), call=str(at)))) for at in range(10)]
    await asked(queue, 10)
    await restarted(postgres)
    for question in await asked(queue, 10):
        await queue.decide(question.id, Approve(digest=digest(question.item.params)), hash=question.hash)
    answers = await asyncio.gather(*calls)
    assert sorted(answer.text for answer in answers) == [str(number) for number in range(10)]
    assert [question.state for question in await queue.history()] == ["done"] * 10
    assert (await Audit(store).verify()).whole


class Noticing(logging.Handler):
    """Waits until a warning is logged."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.event = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if "reviews wait" in record.getMessage():
            self.event.set()


async def restarted(postgres: Postgres) -> None:
    """Stop the server, until whoever waits has noticed, and start it again."""
    noticed = Noticing()
    logging.getLogger("antiphon.host").addHandler(noticed)
    await asyncio.to_thread(postgres.stop)
    await noticed.event.wait()
    logging.getLogger("antiphon.host").removeHandler(noticed)
    await asyncio.to_thread(postgres.start)


async def test_what_nobody_waits_for_is_closed_when_the_database_is_back(postgres: Postgres, store: Store):
    """It was withdrawn while nothing could be kept: nobody is asked to decide what has no effect."""
    queue = Queue(store)
    host = Host(Scripted(["ok"]), reviewer=queue, store=store)
    call = asyncio.create_task(host(request(), origin()))
    [question] = await asked(queue, 1)
    await asyncio.to_thread(postgres.stop)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await asyncio.to_thread(postgres.start)
    # It may still be trying to keep this when the server is back; a test's time limit bounds the wait.
    while await queue.pending():
        await store.recover()
    assert (await queue.get(question.id)).state == "withdrawn"


async def test_a_settlement_that_could_not_be_saved_is_saved_later(postgres: Postgres, store: Store):
    """With its records, once; else its reservation would be held as long as the process lives."""
    await store.commit(Change(hold=hold(sent=True)))
    await asyncio.to_thread(postgres.stop)
    used = record("settled", "used", money=4, input_tokens=1, output_tokens=1)
    with pytest.raises(ConnectionRefusedError):
        await store.commit(Change(settle=Settlement(id="h", amount=Amount(money=4, tokens=2)), records=(used,)))
    await asyncio.to_thread(postgres.start)
    await store.recover()
    await store.recover()
    assert [(each.spent, each.held) for each in await store.balances()] == [(Amount(money=4, tokens=2), Amount())]
    assert [entry.record.outcome for entry in await store.entries()] == ["used"]
