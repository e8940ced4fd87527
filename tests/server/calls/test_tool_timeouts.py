"""How long a tool may run, by the clock of an event loop that only moves when told to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from antiphon import ToolError
from antiphon.server.calls.tool_timeouts import CLOCK, standing_still, within
from tests.support.linked import Clock, settle


async def test_what_is_done_in_time_is_returned() -> None:
    """And no clock is left behind."""

    async def work() -> str:
        await asyncio.sleep(0)
        return "done"

    assert await within(5, "tool", work()) == "done"
    assert CLOCK.get() is None


async def test_what_takes_longer_fails_with_the_name_of_the_tool() -> None:
    """In words for a model."""
    with pytest.raises(ToolError, match=r"slow did not finish within 0\.01 s"):
        await within(0.01, "slow", asyncio.Event().wait())


async def test_a_timeout_within_the_tool_is_its_own() -> None:
    """It is not taken for the deadline."""

    async def work() -> None:
        raise TimeoutError("of mine")

    with pytest.raises(TimeoutError, match="of mine"):
        await within(5, "tool", work())


async def test_an_ask_stops_every_clock_it_is_made_within() -> None:
    """A person who answers after an hour costs neither the inner tool a second nor the outer one."""
    clock, answer = Clock(asyncio.get_running_loop()), asyncio.Event()

    async def ask() -> str:
        with standing_still():
            await answer.wait()
        return "answered"

    call = asyncio.ensure_future(within(5, "outer", within(3, "inner", ask())))
    await clock.advance(3600)
    assert not call.done()
    answer.set()
    assert await call == "answered"


async def test_the_clock_goes_on_after_the_last_of_asks_that_overlap() -> None:
    """With what was left."""
    clock, answers = Clock(asyncio.get_running_loop()), [asyncio.Event(), asyncio.Event()]

    async def ask(answer: asyncio.Event) -> None:
        with standing_still():
            await answer.wait()

    async def work() -> None:
        await asyncio.gather(*(ask(answer) for answer in answers))
        await asyncio.Event().wait()

    call = asyncio.ensure_future(within(3, "tool", work()))
    await clock.advance(2)
    answers[0].set()
    await clock.advance(10)
    answers[1].set()
    await clock.advance(2.5)
    assert not call.done()
    await clock.advance(1)
    with pytest.raises(ToolError):
        await call


async def test_a_sibling_that_asks_does_not_stop_the_clock_of_another() -> None:
    """Each tool of a turn has its own."""
    clock, answer = Clock(asyncio.get_running_loop()), asyncio.Event()

    async def ask() -> None:
        with standing_still():
            await answer.wait()

    async def used(name: str, work: Callable[[], Awaitable[object]]) -> None:
        await within(3, name, work())

    asking = asyncio.ensure_future(used("asking", ask))
    hanging = asyncio.ensure_future(used("hanging", asyncio.Event().wait))
    await clock.advance(4)
    with pytest.raises(ToolError, match="hanging"):
        await hanging
    assert not asking.done()
    answer.set()
    await asking


async def test_a_task_that_outlives_its_tool_starts_no_clock() -> None:
    """Its ask ends long after the tool."""
    clock, answer = Clock(asyncio.get_running_loop()), asyncio.Event()
    tasks: list[asyncio.Future[None]] = []

    async def ask() -> None:
        with standing_still():
            await answer.wait()

    async def work() -> str:
        tasks.append(asyncio.ensure_future(ask()))
        await settle()
        return "done"

    assert await within(3, "tool", work()) == "done"
    answer.set()
    await clock.advance(10)
    await tasks[0]
