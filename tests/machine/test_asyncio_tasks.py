"""Tasks that outlive the function that starts them."""

from __future__ import annotations

import asyncio

import pytest

from antiphon import Client, LocalProtocolError, Server
from antiphon.machine.asyncio_tasks import end_tasks, find_loop, is_withdrawn, start_in, wait_at_most


class Held:
    """Work that holds until it is cancelled, and then cleans up for as long as it is told to."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.cleaning = asyncio.Event()
        self.may_end = asyncio.Event()
        self.ended = False

    async def run(self) -> None:
        try:
            self.begun.set()
            await asyncio.Event().wait()
        finally:
            self.cleaning.set()
            await self.may_end.wait()
            self.ended = True


@pytest.mark.parametrize("withdrawn", [True, False])
async def test_a_cancelled_task_is_told_from_a_cancelled_future(withdrawn: bool):
    """Both raise ``CancelledError`` where the task waits."""
    awaited: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    begun = asyncio.Event()

    async def work() -> bool:
        begun.set()
        try:
            await awaited
        except asyncio.CancelledError as error:
            return is_withdrawn(error)
        raise AssertionError("nothing was cancelled")

    task = asyncio.create_task(work())
    await begun.wait()
    assert task.cancel() if withdrawn else awaited.cancel()
    assert await task is withdrawn


async def test_a_task_is_held_until_it_is_done():
    """It is in the set from its start to its end, and its result is there for whoever waits."""
    running: set[asyncio.Task[str]] = set()
    may_end = asyncio.Event()

    async def work() -> str:
        await may_end.wait()
        return "done"

    task = start_in(running, work())
    assert running == {task}
    may_end.set()
    assert await task == "done"
    assert running == set()


async def test_all_tasks_are_cancelled_before_one_is_waited_for():
    """The second is told to end while the first cleans up, and the function returns when both have."""
    first, second = Held(), Held()
    tasks = [asyncio.create_task(each.run()) for each in (first, second)]
    await asyncio.gather(first.begun.wait(), second.begun.wait())
    ending = asyncio.create_task(end_tasks(*tasks))
    await asyncio.gather(first.cleaning.wait(), second.cleaning.wait())
    assert not ending.done()
    first.may_end.set()
    second.may_end.set()
    await ending
    assert first.ended
    assert second.ended


async def test_a_task_that_was_never_started_or_has_ended_is_nothing_to_wait_for():
    """Whoever ends tasks need not ask first which there are."""
    done = asyncio.create_task(asyncio.sleep(0))
    await done
    await end_tasks()
    await end_tasks(None, done)
    assert not done.cancelled()


async def test_who_is_cancelled_while_it_waits_does_not_interrupt_the_cleanup():
    """The task is cancelled once, and goes on cleaning up."""
    held = Held()
    task = asyncio.create_task(held.run())
    await held.begun.wait()
    ending = asyncio.create_task(end_tasks(task))
    await held.cleaning.wait()
    ending.cancel()
    await asyncio.wait([ending])
    assert ending.cancelled()
    held.may_end.set()
    await asyncio.wait([task])
    assert held.ended


async def test_work_that_takes_too_long_is_ended_without_an_error():
    """The caller goes on once the work has cleaned up."""
    held = Held()
    held.may_end.set()
    await wait_at_most(0.0, held.run())
    assert held.ended


async def test_the_error_of_work_that_is_waited_for_arrives():
    """Only the time itself is no error."""

    async def fail() -> None:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        await wait_at_most(60.0, fail())


async def test_the_loop_that_runs_is_found():
    """Where asyncio runs one."""
    assert find_loop() is asyncio.get_running_loop()


def test_a_program_without_asyncio_is_told_what_to_do():
    """As trio runs it, or with ``send``: a client and a server say so before they open anything."""
    server = Server("s")
    for begin in (Client(server).connect, server.listen().__aenter__):
        with pytest.raises(LocalProtocolError, match=r"asyncio\.run.*backend='asyncio'"):
            begin().send(None)
