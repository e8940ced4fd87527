"""Waiting for room: each sender waits for itself."""

from __future__ import annotations

import asyncio

from antiphon.transports.backpressure import Room


async def wait(room):
    """Await a room, as a sender does."""
    await room


async def waiters(room, count):
    """Start senders and let them come to their wait."""
    tasks = [asyncio.create_task(wait(room)) for _ in range(count)]
    await asyncio.sleep(0)
    assert len(room._waiters) == count
    return tasks


async def test_there_is_room_at_first():
    """Nobody needs to wait, and waiting all the same ends at once."""
    room = Room()
    assert room.full is None
    await room


async def test_opening_lets_everybody_go_on():
    """All who wait are woken; those who come later do not wait."""
    room = Room()
    room.shut()
    assert room.full is room
    tasks = await waiters(room, 3)
    room.open()
    await asyncio.gather(*tasks)
    assert room.full is None
    assert not room._waiters


async def test_cancelling_one_sender_leaves_the_others_waiting():
    """They do not share a future."""
    room = Room()
    room.shut()
    first, second = await waiters(room, 2)
    first.cancel()
    await asyncio.wait([first])
    assert first.cancelled()
    assert not second.done()
    room.open()
    await second
