"""A file of a store that is locked for long, full, or damaged: a clear error, nothing hangs, nothing is lost."""

from __future__ import annotations

import asyncio
import resource
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy.exc import DatabaseError, OperationalError

from antiphon.errors import InternalError
from antiphon.host import Audit, Host, Policy, Queue, Scripted, open_store
from antiphon.host.budget import Amount
from antiphon.host.store.base import Change, Settlement, Store, Ticket
from tests.host.asks import origin, request
from tests.host.store.stores import hold, record

USED = record("settled", "used", money=4, input_tokens=1, output_tokens=1)
SETTLING = Change(settle=Settlement(id="h", amount=Amount(money=4, tokens=2)), records=(USED,))


@pytest.fixture
async def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Store]:
    """Open a store in which something is held and sent. It does not wait for a lock."""
    monkeypatch.setattr("antiphon.sql.runner._BUSY", 1)
    store = open_store(tmp_path / "host.db")
    await store.commit(Change(hold=hold(sent=True)))
    yield store
    await store.aclose()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the right to write, as another program would."""
    other = sqlite3.connect(path, isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        yield
    finally:
        other.close()


@contextmanager
def full(path: Path) -> Iterator[None]:
    """Let no file of this process grow any more, as on a disk that is full."""
    size = path.with_name("host.db-wal").stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


FAULTS = [(locked, "database is locked"), (full, "disk I/O error|database or disk is full")]


@pytest.mark.parametrize(("fault", "said"), FAULTS)
async def test_a_settlement_that_could_not_be_written_is_written_later(fault, said, store: Store, tmp_path: Path):
    """With its records, and once."""
    with fault(tmp_path / "host.db"), pytest.raises(OperationalError, match=said):
        await store.commit(SETTLING)
    for _ in range(2):
        await store.recover()
    assert [(each.spent, each.held) for each in await store.balances()] == [(Amount(money=4, tokens=2), Amount())]
    assert [entry.record.outcome for entry in await store.entries()] == ["used"]
    assert (await Audit(store).verify()).whole


async def test_the_end_of_an_ask_that_could_not_be_written_is_written_later(store: Store, tmp_path: Path):
    """Also where another process has taken over its question since, so that the decision is not this one's to end."""
    with locked(tmp_path / "host.db"), pytest.raises(OperationalError, match="locked"):
        await store.commit(Change(finish=Ticket(id="taken"), records=(record("failed"),), last=True))
    for _ in range(2):
        await store.recover()
    assert [entry.record.step for entry in await store.entries()] == ["failed"]


@pytest.mark.parametrize(("fault", "said"), FAULTS)
async def test_what_cannot_be_recorded_is_not_sent(
    fault, said, store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    """The provider is not called, the server hears nothing of why, the log does; afterwards all is as before."""
    provider = Scripted(["ok"])
    host = Host(provider, reviewer=None, policy=Policy(default="allow"), store=store)
    with fault(tmp_path / "host.db"), pytest.raises(InternalError, match="could not answer") as caught:
        await host(request(), origin("1"))
    assert "database" not in str(caught.value)
    assert "OperationalError" in caplog.text
    assert provider.requests == []
    assert (await host(request(), origin("2"))).text == "ok"
    assert (await Audit(store).verify()).whole


async def test_a_question_outlives_a_lock(store: Store, tmp_path: Path):
    """Whoever waits is not told anything; withdrawn meanwhile, it is closed later."""
    queue = Queue(store)
    host = Host(Scripted(["ok"]), reviewer=queue, store=store)
    call = asyncio.create_task(host(request(), origin()))
    async for _ in queue.changes():
        if await queue.pending():
            break
    [question] = await queue.pending()
    with locked(tmp_path / "host.db"):
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    # The attempt that met the lock may not have failed yet, so that there is nothing to repeat.
    while await queue.pending():
        await store.recover()
    assert (await queue.get(question.id)).state == "withdrawn"


async def test_a_damaged_file_is_named_as_that(tmp_path: Path):
    """And it is left as it is, for whoever mends it."""
    path = tmp_path / "host.db"
    store = open_store(path)
    await store.commit(Change(records=(record(),)))
    await store.aclose()
    damaged = path.read_bytes()[:4096] + b"\xff" * (path.stat().st_size - 4096)
    path.write_bytes(damaged)
    store = open_store(path)
    with pytest.raises(DatabaseError, match="malformed"):
        await store.commit(Change(records=(record(),)))
    await store.aclose()
    assert path.read_bytes() == damaged


@pytest.mark.parametrize("replaced", [False, True])
async def test_nothing_is_sent_while_the_file_is_gone(
    replaced: bool, store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    """It was deleted, or a backup is in its place: what is written would never be seen. Put back, it goes on."""
    provider, path, kept = Scripted(["ok"]), tmp_path / "host.db", tmp_path / "kept.db"
    host = Host(provider, reviewer=None, policy=Policy(default="allow"), store=store)
    path.rename(kept)
    if replaced:
        path.write_bytes(kept.read_bytes())
    with pytest.raises(InternalError, match="could not answer"):
        await host(request(), origin("1"))
    assert provider.requests == []
    assert "deleted or replaced" in caplog.text
    kept.replace(path)
    assert (await host(request(), origin("2"))).text == "ok"
    assert (await Audit(store).verify()).whole
