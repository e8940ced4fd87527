"""A deadline that only counts where something waits."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.machine.asyncio_tasks import at_once_or_within


async def test_what_need_not_wait_is_done_at_once() -> None:
    """No clock is set up, and the loop has no turn."""

    async def work() -> str:
        return "done"

    waiting = at_once_or_within(1, work())
    with pytest.raises(StopIteration) as stopped:
        waiting.send(None)
    assert stopped.value.value == "done"


async def test_what_waits_is_awaited_to_its_end() -> None:
    """Several waits, a value and an exception pass through."""

    async def work() -> str:
        for _ in range(3):
            await asyncio.sleep(0)
        try:
            await asyncio.wait_for(asyncio.get_running_loop().create_future(), 0.01)
        except TimeoutError:
            return "inner timeouts are its own"
        return "no"

    assert await at_once_or_within(5, work()) == "inner timeouts are its own"


async def test_what_waits_too_long_is_cancelled() -> None:
    """It may clean up."""
    done: list[str] = []

    async def work() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            done.append("cleaned")

    with pytest.raises(TimeoutError):
        await at_once_or_within(0.01, work())
    assert done == ["cleaned"]


async def test_cancelling_it_cancels_the_work() -> None:
    """As with any await."""
    begun = asyncio.Event()
    done: list[str] = []

    async def work() -> None:
        begun.set()
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            done.append("cancelled")
            raise

    task = asyncio.create_task(at_once_or_within(5, work()))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done == ["cancelled"]


@pytest.mark.parametrize("seconds", [5, 0.01])
async def test_an_awaitable_that_is_no_coroutine_will_do(seconds: float) -> None:
    """Other people's ``send`` may return a future."""
    future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    if seconds == 5:
        asyncio.get_running_loop().call_soon(future.set_result, "done")
        assert await at_once_or_within(seconds, future) == "done"
    else:
        with pytest.raises(TimeoutError):
            await at_once_or_within(seconds, future)


async def test_without_a_limit_it_waits_for_as_long_as_it_takes() -> None:
    """A host may have no limit for its provider."""
    assert await at_once_or_within(None, asyncio.sleep(0, "done")) == "done"
