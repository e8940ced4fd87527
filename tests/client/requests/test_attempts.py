"""The requests of one call share one deadline, and are not made in a spin."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from antiphon import Client
from antiphon.call_time import TimeLeft
from antiphon.client.rounds.loop import RoundLimits
from antiphon.errors import CallTimeout
from tests.support.raw_server import RawServer

ONLY_STATE = {"resultType": "input_required", "requestState": "s"}
DONE = {"content": [{"type": "text", "text": "done"}]}


class Busy(RawServer):
    """Says ``times`` times that it needs time, and counts the retries."""

    def __init__(self, times: int) -> None:
        super().__init__(tools_call=self.reply)
        self.times = times
        self.came: list[float] = []

    def reply(self, _message: dict[str, Any]) -> dict[str, Any]:
        self.came.append(asyncio.get_running_loop().time())
        return ONLY_STATE if len(self.came) <= self.times else DONE


async def test_a_server_that_only_wants_time_gets_some() -> None:
    """The first retry is made at once, then each waits longer than the one before."""
    server = Busy(4)
    async with Client(server, revision="2026-07-28") as client:
        assert (await client.call_tool("t")).text == "done"
    first, *rests = [later - sooner for sooner, later in zip(server.came, server.came[1:], strict=False)]
    assert first < rests[0]
    assert [rest >= least for rest, least in zip(rests, (0.009, 0.019, 0.039), strict=True)] == [True] * 3


async def test_the_rests_are_part_of_the_deadline() -> None:
    """No person is waited for in them."""
    server = Busy(1_000)
    async with Client(server, revision="2026-07-28", limits=RoundLimits(rounds=2_000)) as client:
        with pytest.raises(CallTimeout, match=r"within 0\.1 s"):
            await client.call_tool("t", timeout=0.1)
        assert 3 <= len(server.came) <= 6


async def test_a_server_that_only_wants_time_ends_by_its_rounds() -> None:
    """Without a deadline as well."""
    server = Busy(1_000)
    async with Client(server, revision="2026-07-28", timeout=None, limits=RoundLimits(rounds=3)) as client:
        with pytest.raises(Exception, match="more than 3 rounds"):
            await client.call_tool("t")
    assert len(server.came) == 4


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_without_any_time_nothing_is_sent(revision: str) -> None:
    """A server that is told of a call and of its end at once has had work for nothing."""
    server = Busy(0)
    async with Client(server, revision=revision) as client:
        with pytest.raises(CallTimeout):
            await client.call_tool("t", timeout=0)
        await client.ping()
    assert server.came == []


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
