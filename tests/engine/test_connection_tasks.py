"""A set of tasks that are each stopped once."""

from __future__ import annotations

import asyncio

from antiphon.engine.connection_tasks import Tasks
from tests.support.linked import settle


def tasks():
    """Make an empty set."""
    return Tasks(asyncio.get_running_loop())


async def test_a_task_leaves_when_it_is_done():
    """Until then it is counted."""
    go = asyncio.Event()

    async def work():
        await go.wait()

    running = tasks()
    task = running.start(work())
    assert task in running
    assert len(running) == 1
    go.set()
    await settle()
    assert task not in running
    assert len(running) == 0


async def test_a_task_is_told_once():
    """A second stop does not interrupt its cleanup."""
    told, go = [], asyncio.Event()

    async def work():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as error:
            told.append(error.args)
            await go.wait()
            told.append("clean")

    running = tasks()
    task = running.start(work())
    await settle()
    running.stop(task, "first")
    await settle()
    running.stop(task, "second")
    running.stop_all(spare=None)
    await settle()
    go.set()
    await task
    running.stop(task)
    assert told == [("first",), "clean"]


async def test_one_may_be_spared():
    """The one who asks for the end of all others."""
    seen = []

    async def endless(name):
        try:
            await asyncio.Event().wait()
        finally:
            seen.append(name)

    running = tasks()
    spared = running.start(endless("spared"))
    for name in "ab":
        running.start(endless(name))
    await settle()
    await running.wait_stopped(spare=spared, patience=5)
    assert sorted(seen) == ["a", "b"]
    assert not spared.done()
    await running.wait_stopped(spare=None, patience=5)
    assert sorted(seen) == ["a", "b", "spared"]


async def test_waiting_for_nobody_is_done_at_once():
    """An empty set, or only the one who is spared."""
    running = tasks()
    await running.wait_stopped(spare=None, patience=5)
    await running.wait_stopped(spare=asyncio.current_task(), patience=5)
    assert len(running) == 0


async def test_a_stubborn_task_is_told_again_and_left(clock):
    """After the time that all have."""
    refused, go = [], asyncio.Event()

    async def stubborn():
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                refused.append("no")

    running = tasks()
    running.start(stubborn())
    await settle()
    waiting = asyncio.ensure_future(running.wait_stopped(spare=None, patience=5))
    await clock.advance(4)
    assert not waiting.done()
    await clock.advance(2)
    await waiting
    await settle()
    assert refused == ["no", "no"]
    go.set()
    await settle()
    assert len(running) == 0


async def test_whose_cancellation_it_was_is_known():
    """Ours, somebody else's, or nobody's."""
    running, seen = tasks(), []

    async def work():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append(running.is_stopped_by_others(asyncio.current_task()))

    for cancel in (running.stop, asyncio.Task.cancel):
        task = asyncio.ensure_future(work())
        await settle()
        cancel(task)
        await task
    assert seen == [False, True]
    assert not running.is_stopped_by_others(asyncio.current_task())
    assert not running.is_stopped_by_others(None)


async def test_a_task_that_is_forgiven_can_be_stopped_again():
    """It is not ours, and goes on to something else."""
    running, seen = tasks(), []

    async def work():
        for number in range(2):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                seen.append(number)
                running.forgive(task)

    task = asyncio.ensure_future(work())
    for _ in range(2):
        await settle()
        running.stop(task)
        running.stop(task)
    await task
    assert seen == [0, 1]
    assert task.cancelling() == 0
    running.forgive(task)
