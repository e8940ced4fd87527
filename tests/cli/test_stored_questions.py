"""Commands whose questions wait in a store, for whoever decides them from elsewhere."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from antiphon.host import Approve, Audit, Deny, Queue, digest, open_store
from antiphon.host.review.question import Question
from antiphon.host.store.sql_store import SqlStore
from antiphon.sql.runner import SqliteRunner
from tests.cli.program import COMMAND, ROOT, SHOP, environment

DESCRIBE = ("call", SHOP, "describe", "product=tea", "--provider", "echo")


@contextmanager
def calling(store: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Run a call without a terminal, with its questions in a store."""
    command = [*COMMAND, *(words or DESCRIBE), "--store", str(store)]
    started = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with started:
        try:
            yield started
        finally:
            if started.poll() is None:
                os.killpg(started.pid, signal.SIGKILL)


async def asked(queue: Queue) -> Question:
    """Wait for the question."""
    async for _ in queue.changes():
        if pending := await queue.pending():
            return pending[0]
    raise AssertionError("changes never end")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Say where the store is."""
    return tmp_path / "host.db"


@pytest.mark.parametrize(("approves", "code", "said"), [(True, 0, "echo: [echo] Describe tea"), (False, 1, "")])
async def test_somebody_else_decides(place: Path, approves: bool, code: int, said: str):
    """The command waits; what was decided is carried out there and recorded here."""
    store = open_store(place)
    queue = Queue(store)
    with calling(place) as called:
        question = await asked(queue)
        assert question.item.params.messages[0].text == "Describe tea"
        decision = Approve(digest=digest(question.item.params)) if approves else Deny()
        await queue.decide(question.id, decision, by="somebody", hash=question.hash)
        out, err = await asyncio.to_thread(called.communicate, timeout=60)
    assert (called.returncode, said in out) == (code, True), err
    assert "antiphon review" in err
    records = [entry.record async for entry in Audit(store).entries()]
    assert [record.by for record in records if record.step == "review"] == ["somebody"]
    await store.aclose()


async def test_what_is_decided_after_the_process_was_killed_counts_when_it_asks_again(place: Path):
    """The question stays; the next process that asks the same finds the answer."""
    store = open_store(place)
    with calling(place) as called:
        question = await asked(Queue(store))
        os.killpg(called.pid, signal.SIGKILL)
    await store.aclose()
    later = SqlStore(SqliteRunner(place))
    [left] = await Queue(later).pending()
    assert (left.id, left.waited_for) == (question.id, False)
    await Queue(later).decide(left.id, Approve(digest=digest(left.item.params)), by="somebody", hash=left.hash)
    with calling(place) as called:
        out, err = await asyncio.to_thread(called.communicate, timeout=60)
    assert (called.returncode, out.strip()) == (0, "echo: [echo] Describe tea"), err
    assert [each.state for each in await Queue(later).history()] == ["done"]
    assert (await Audit(later).verify()).whole
    await later.aclose()
