"""Something that happens once, and costs little until somebody waits for it."""

from __future__ import annotations

import asyncio

from antiphon.engine.flag import Flag
from tests.support.linked import settle


async def test_all_who_wait_are_woken():
    """And whoever comes later does not wait at all."""
    flag = Flag()
    waiting = [asyncio.ensure_future(flag.wait()) for _ in range(2)]
    await settle()
    assert not flag.is_set() and not any(task.done() for task in waiting)
    flag.set()
    await asyncio.gather(*waiting)
    await flag.wait()
    assert flag.is_set()


async def test_one_who_no_longer_waits_keeps_nobody_from_being_woken():
    """The others are still told."""
    flag = Flag()
    gone, waiting = asyncio.ensure_future(flag.wait()), asyncio.ensure_future(flag.wait())
    await settle()
    gone.cancel()
    flag.set()
    await waiting
    assert flag.is_set()
