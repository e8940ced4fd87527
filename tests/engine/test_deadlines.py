"""One timer for many deadlines, which may stand still."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.engine.requests import Deadlines, Timed


class Fixture:
    """Deadlines, and what has expired."""

    def __init__(self) -> None:
        self.expired: list[Timed] = []
        self.deadlines = Deadlines(asyncio.get_running_loop(), self.expired.append)

    def timed(self, timeout: float | None) -> Timed:
        """Start something with a deadline."""
        one = Timed(timeout)
        self.deadlines.start(one)
        return one


@pytest.fixture
async def it(clock) -> Fixture:
    """Make deadlines on a clock that stands still."""
    return Fixture()


async def test_deadlines_pass_in_their_order(it, clock):
    """Whatever the order in which they were set."""
    slow, quick, middle = it.timed(3), it.timed(1), it.timed(2)
    for expected in (quick, middle, slow):
        assert expected not in it.expired
        await clock.advance(1)
        assert it.expired[-1] is expected
    assert len(it.expired) == 3


async def test_several_may_pass_at_once(it, clock):
    """Each is reported once."""
    all_of_them = [it.timed(1) for _ in range(3)]
    await clock.advance(5)
    assert it.expired == all_of_them
    await clock.advance(5)
    assert it.expired == all_of_them


async def test_what_has_no_deadline_never_expires(it, clock):
    """``None`` is for ever."""
    it.timed(None)
    await clock.advance(1e9)
    assert it.expired == []


async def test_what_has_ended_does_not_expire(it, clock):
    """It was answered in time; ending it twice does nothing."""
    one = it.timed(1)
    it.deadlines.end(one)
    it.deadlines.end(one)
    await clock.advance(2)
    assert it.expired == []


@pytest.mark.parametrize("timeout", [0, -1])
async def test_a_deadline_without_time_passes_at_once(it, clock, timeout):
    """But not before whoever set it goes on."""
    one = it.timed(timeout)
    assert it.expired == []
    await clock.advance(0)
    assert it.expired == [one]


async def test_a_deadline_that_stands_still_keeps_what_is_left(it, clock):
    """Pauses nest: the last one to resume lets it go on."""
    one = it.timed(10)
    await clock.advance(4)
    it.deadlines.pause(one)
    it.deadlines.pause(one)
    await clock.advance(100)
    it.deadlines.resume(one)
    await clock.advance(100)
    assert it.expired == []
    it.deadlines.resume(one)
    await clock.advance(5)
    assert it.expired == []
    await clock.advance(2)
    assert it.expired == [one]


async def test_others_go_on_meanwhile(it, clock):
    """Only what is paused stands still."""
    paused, running = it.timed(1), it.timed(2)
    it.deadlines.pause(paused)
    await clock.advance(3)
    assert it.expired == [running]


async def test_what_ends_while_it_stands_still_stays_ended(it, clock):
    """Resuming it does not bring it back."""
    one = it.timed(1)
    it.deadlines.pause(one)
    it.deadlines.end(one)
    it.deadlines.resume(one)
    await clock.advance(10)
    assert it.expired == []


async def test_what_has_no_deadline_may_be_paused(it, clock):
    """Nothing comes of it."""
    one = it.timed(None)
    it.deadlines.pause(one)
    it.deadlines.resume(one)
    await clock.advance(10)
    assert it.expired == []


async def test_a_pause_when_time_is_up_expires_after_it(it, clock):
    """Nothing is left of the time when it goes on."""
    one = it.timed(1)
    clock.now += 1.5
    it.deadlines.pause(one)
    await clock.advance(10)
    assert it.expired == []
    it.deadlines.resume(one)
    await clock.advance(0)
    assert it.expired == [one]


async def test_there_is_one_timer(it, clock):
    """For the earliest; a later one does not set another."""
    it.timed(5)
    first = it.deadlines._timer
    it.timed(9)
    assert it.deadlines._timer is first
    it.timed(1)
    assert it.deadlines._timer is not first
    assert first is not None
    assert first.cancelled()


async def test_closing_stops_everything(it, clock):
    """And what is started anew works again."""
    it.timed(1)
    it.deadlines.close()
    it.deadlines.close()
    await clock.advance(5)
    assert it.expired == []
    one = it.timed(1)
    await clock.advance(1)
    assert it.expired == [one]
