"""One time for all that a call needs."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.client.requests.time_left import TimeLeft
from antiphon.errors import CallTimeout


async def test_what_is_spent_is_gone() -> None:
    """Never less than nothing, and then nothing is begun any more."""
    time = TimeLeft(2.0)
    time.spend(1.5)
    assert (time.seconds, time.is_over) == (0.5, False)
    time.spend(1.5)
    assert (time.seconds, time.is_over) == (0.0, True)
    with pytest.raises(CallTimeout, match="tools/call was not answered within 2 s"):
        async with time.limit("tools/call"):
            raise AssertionError("it was begun")


async def test_what_takes_longer_is_ended() -> None:
    """It had what was left, and that is spent."""
    time = TimeLeft(0.01)
    with pytest.raises(CallTimeout):
        async with time.limit("tools/call"):
            await asyncio.Event().wait()
    assert time.is_over


async def test_without_a_timeout_there_is_time_for_all() -> None:
    """Nothing is counted."""
    time = TimeLeft(None)
    async with time.limit("tools/call"):
        await asyncio.sleep(0)
    time.spend(1_000)
    assert (time.seconds, time.is_over) == (None, False)


async def test_a_timeout_of_something_within_is_its_own() -> None:
    """It is raised as it is."""
    with pytest.raises(TimeoutError) as caught:
        async with TimeLeft(60.0).limit("tools/call"):
            raise TimeoutError("another")
    assert not isinstance(caught.value, CallTimeout)


def test_what_is_left_goes_on() -> None:
    """A number begins anew, what is left stays what it is."""
    time = TimeLeft(1.0)
    assert TimeLeft.of(time) is time
    assert TimeLeft.of(1.0).seconds == 1.0
