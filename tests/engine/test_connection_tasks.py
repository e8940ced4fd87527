"""A set of tasks that are each stopped once."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.channel import Frame
from antiphon.engine.reader import Flag, Tasks
from tests.support.linked import done, linked, settle
from tests.support.pair import frame


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


async def echo(request, _peer):
    """Return the tool's name."""
    return done(request.params.name)


@pytest.mark.parametrize("waits", [False, True])
async def test_a_callback_that_raises_harms_nobody(waits, errors):
    """For progress and for notifications, as a function and as a coroutine: it is logged, and the call goes on."""

    async def fails_later(*_about):
        raise ValueError("callback")

    def fails(*_about):
        raise ValueError("callback")

    async def tool(request, peer):
        peer.send(peer.session.progress(request, 1, None, None), request)
        peer.send(frame(method="notifications/tools/list_changed"))
        await asyncio.sleep(0)
        return done()

    callback = fails_later if waits else fails
    async with linked(tool, client={"on_notified": callback}) as link:
        assert await link.call(on_progress=callback) == "done"
        await settle()
    assert len(errors.records) == 2


async def test_callbacks_hear_notifications_in_order():
    """A function is called where they are read."""
    seen = []
    async with linked(echo, server={"on_notified": lambda _peer, event: seen.append(event.method.name)}) as link:
        for _ in range(3):
            link.client.channel.send(Frame(frame(method="notifications/roots/list_changed")))
        await link.call()
    assert seen == ["notifications/roots/list_changed"] * 3


async def test_a_flood_of_notifications_does_not_pile_up_callbacks():
    """Beyond a bound what a peer tells is dropped, and counted."""
    go = asyncio.Event()

    async def slow(_peer, _event):
        await go.wait()

    async with linked(echo, server={"on_notified": slow, "max_served": 10}) as link:
        for _ in range(100):
            link.client.channel.send(Frame(frame(method="notifications/roots/list_changed")))
        assert await link.call() == "t"
        assert len(link.server.tasks) <= 21
        assert link.server.ignored >= 79
        go.set()


async def test_a_callback_at_the_end_that_raises_harms_nobody(errors):
    """Closing is complete all the same."""

    def fails(_peer):
        raise ValueError("ended")

    async with linked(echo, server={"on_end": fails}) as link:
        await link.server.close()
        assert link.server.is_over
    assert len(errors.records) == 1


async def test_whatever_a_callback_raises_the_connection_goes_on():
    """Also what is no ``Exception``: a test that fails within a callback does not hang."""

    class Aside(BaseException):
        pass

    def progress(_params):
        raise Aside

    async def tool(request, peer):
        peer.send(peer.session.progress(request, 1, None, None), request)
        await asyncio.sleep(0)
        return done()

    async with linked(tool) as link:
        assert await link.started(on_progress=progress) == "done"
