"""Keeping up with the queue."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy.exc import OperationalError

from antiphon.cli.screen.watch import Bell, readable, watch
from antiphon.host import MemoryStore, Queue
from tests.cli.screen.reviewing import asking


def test_the_bell_rings_for_what_is_new():
    """Not for what was there at first, nor for what goes; a flood rings once in two seconds."""
    rung: list[float] = []
    now = [100.0]
    bell = Bell(lambda: rung.append(now[0]), lambda: now[0])
    for waiting in (["1"], ["1"], [], ["2"], ["2", "3"]):
        bell.hear(waiting)
    assert rung == [100.0]
    now[0] = 102.0
    bell.hear(["2", "3", "4"])
    assert rung == [100.0, 102.0]


async def test_it_looks_each_time_that_something_has_changed():
    """At once at first."""
    looked: list[int] = []
    news = asyncio.Event()

    async def look() -> None:
        looked.append(len(await desk.queue.pending()))
        news.set()

    async with asking() as desk:
        watching = asyncio.create_task(watch(desk.queue, look, lambda: None))
        await news.wait()
        news.clear()
        await desk.ask()
        await news.wait()
        watching.cancel()
        await asyncio.wait([watching])
    assert looked[0] == 0
    assert looked[-1] == 1


async def test_trouble_with_the_store_is_told_and_nothing_else_is_hidden():
    """A mistake of ours is no trouble with the store."""
    told: list[str] = []

    async def fail() -> None:
        raise OperationalError("x", {}, Exception("gone"))

    async def err() -> None:
        raise KeyError("x")

    await readable(fail, lambda: told.append("trouble"))
    assert told == ["trouble"]
    with pytest.raises(KeyError):
        await readable(err, lambda: told.append("trouble"))
    assert await Queue(MemoryStore()).pending() == []
