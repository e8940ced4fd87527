"""Closing a channel: once, whoever asks."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.transports.closed_once import ClosedOnce


class Slow(ClosedOnce):
    """Closes when it is let; notes what happens."""

    def __init__(self) -> None:
        self.began, self.free = asyncio.Event(), asyncio.Event()
        self.done: list[str] = []

    async def _close(self) -> None:
        self.done.append("begins")
        self.began.set()
        await self.free.wait()
        self.done.append("ends")

    def _let_go(self) -> None:
        self.done.append("lets go")


async def test_who_stops_waiting_does_not_cut_it_off():
    """It is closed once, and everybody else waits until it is done."""
    channel = Slow()
    first, second = (asyncio.create_task(channel.close()) for _ in range(2))
    await channel.began.wait()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert not second.done()
    channel.free.set()
    await second
    await channel.close()
    assert channel.done == ["begins", "ends", "lets go"]


async def test_what_is_held_is_released_although_closing_was_cancelled():
    """Even before it had begun, as at the end of a loop that cancels all its tasks."""
    channel = Slow()
    asking = asyncio.create_task(channel.close())
    await asyncio.sleep(0)
    assert channel._closing is not None
    channel._closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert channel.done == ["lets go"]
