"""Many asks at once: all of them arrive, are decided by another process, and are answered."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from antiphon.host import Queue
from antiphon.host.review.review import Approve, digest
from antiphon.host.store.base import Store
from tests.host.store.stores import DURABLE, Place

ROOT = Path(__file__).parents[2]
AT_ONCE = 100


async def approve_all(store: Store, count: int) -> None:
    """Approve as many questions as will come."""
    queue, left = Queue(store), count
    changes = queue.changes()
    while left:
        await anext(changes)
        pending = await queue.pending()
        for first in range(0, len(pending), AT_ONCE):
            some = {each.id: each for each in pending[first : first + AT_ONCE]}
            decisions = {id: Approve(digest=digest(each.item.params)) for id, each in some.items()}
            await queue.decide_all(decisions, {id: each.hash for id, each in some.items()})
            left -= len(some)


@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=[pytest.mark.endurance, pytest.mark.timeout(900)])])
@pytest.mark.parametrize("kind", DURABLE)
async def test_many_asks_at_once_are_all_answered(kind: str, count: int, tmp_path: Path):
    """No ask fails because others wait before it."""
    async with Place(kind, tmp_path) as place, place.open() as store:
        await store.head()
        command = [sys.executable, "-m", "tests.support.many_asks", place.address, str(count)]
        asking = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
        try:
            await approve_all(store, count)
            output, _ = await asking.communicate()
        finally:
            if asking.returncode is None:
                asking.kill()
        assert output.decode().strip() == str({"CreateMessageResult": count})
