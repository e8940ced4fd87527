"""One timer for many deadlines, which may stand still."""

from __future__ import annotations

import asyncio
from itertools import count

import pytest

from antiphon.engine.requests import Waiter, WaitingRequests
from antiphon.errors import ConnectionClosed
from antiphon.protocol.events import Outgoing
from antiphon.wire.methods import METHODS


class Fixture:
    """Requests that wait, and those that were given up."""

    def __init__(self) -> None:
        self.given_up: list[Outgoing] = []
        self.waiting = WaitingRequests(asyncio.get_running_loop(), self.given_up.append)
        self._ids = count(1)

    def add(self, timeout: float | None) -> Waiter:
        """Enter a request with a deadline."""
        waiter = self.waiting.add(Outgoing(next(self._ids), METHODS["tools/list"], None, False, b""), timeout, None)
        waiter.future.add_done_callback(lambda _: waiter.let_go())
        return waiter


@pytest.fixture
async def it(clock) -> Fixture:
    """Make deadlines on a clock that stands still."""
    return Fixture()


async def test_deadlines_pass_in_their_order(it, clock):
    """Whatever the order in which they were set."""
    slow, quick, middle = it.add(3), it.add(1), it.add(2)
    for expected in (quick, middle, slow):
        assert expected.outgoing not in it.given_up
        await clock.advance(1)
        assert it.given_up[-1] is expected.outgoing
    assert len(it.given_up) == 3


async def test_several_may_pass_at_once(it, clock):
    """Each is reported once."""
    all_of_them = [it.add(1) for _ in range(3)]
    await clock.advance(5)
    assert it.given_up == [each.outgoing for each in all_of_them]
    await clock.advance(5)
    assert it.given_up == [each.outgoing for each in all_of_them]


async def test_what_has_no_deadline_never_expires(it, clock):
    """``None`` is for ever."""
    it.add(None)
    await clock.advance(1e9)
    assert it.given_up == []


async def test_what_has_ended_does_not_expire(it, clock):
    """It was answered in time; ending it twice does nothing."""
    one = it.add(1)
    it.waiting.end(one)
    it.waiting.end(one)
    await clock.advance(2)
    assert it.given_up == []


@pytest.mark.parametrize("timeout", [0, -1])
async def test_a_deadline_without_time_passes_at_once(it, clock, timeout):
    """But not before whoever set it goes on."""
    one = it.add(timeout)
    assert it.given_up == []
    await clock.advance(0)
    assert it.given_up == [one.outgoing]


async def test_a_deadline_that_stands_still_keeps_what_is_left(it, clock):
    """Pauses nest: the last one to resume lets it go on."""
    one = it.add(10)
    await clock.advance(4)
    outer, inner = it.waiting.pause(), it.waiting.pause()
    await clock.advance(100)
    it.waiting.resume(inner)
    await clock.advance(100)
    assert it.given_up == []
    it.waiting.resume(outer)
    await clock.advance(5)
    assert it.given_up == []
    await clock.advance(2)
    assert it.given_up == [one.outgoing]


async def test_others_go_on_meanwhile(it, clock):
    """Only what is paused stands still."""
    it.add(1)
    it.waiting.pause()
    running = it.add(2)
    await clock.advance(3)
    assert it.given_up == [running.outgoing]


async def test_what_ends_while_it_stands_still_stays_ended(it, clock):
    """Resuming it does not bring it back."""
    one = it.add(1)
    paused = it.waiting.pause()
    it.waiting.end(one)
    it.waiting.resume(paused)
    await clock.advance(10)
    assert it.given_up == []


async def test_what_has_no_deadline_may_be_paused(it, clock):
    """Nothing comes of it."""
    it.add(None)
    it.waiting.resume(it.waiting.pause())
    await clock.advance(10)
    assert it.given_up == []


async def test_a_pause_when_time_is_up_expires_after_it(it, clock):
    """Nothing is left of the time when it goes on."""
    one = it.add(1)
    clock.now += 1.5
    paused = it.waiting.pause()
    await clock.advance(10)
    assert it.given_up == []
    it.waiting.resume(paused)
    await clock.advance(0)
    assert it.given_up == [one.outgoing]


async def test_there_is_one_timer(it, clock):
    """For the earliest; a later one does not set another."""
    it.add(5)
    first = it.waiting._timer
    it.add(9)
    assert it.waiting._timer is first
    it.add(1)
    assert it.waiting._timer is not first
    assert first is not None
    assert first.cancelled()


async def test_closing_stops_everything(it, clock):
    """And what is started anew works again."""
    it.add(1)
    it.waiting.fail_all(lambda: ConnectionClosed("gone"))
    it.waiting.fail_all(lambda: ConnectionClosed("gone"))
    await clock.advance(5)
    assert it.given_up == []
    one = it.add(1)
    await clock.advance(1)
    assert it.given_up == [one.outgoing]
