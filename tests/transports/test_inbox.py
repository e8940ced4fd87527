"""Waiting for frames: nothing is lost, nothing waits for ever, not too much is held."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.transports.inbox import FRAME_COST, HIGH_WATER, ClosedOnce, Inbox, Room


class Source:
    """Notes what an inbox asks of its source."""

    def __init__(self):
        self.asked: list[str] = []
        self.inbox = Inbox(lambda: self.asked.append("pause"), lambda: self.asked.append("resume"))


async def waiting(inbox):
    """Start a receiver and let it come to its wait."""
    task = asyncio.create_task(inbox.take())
    await asyncio.sleep(0)
    return task


async def test_all_that_has_arrived_comes_at_once():
    """One take returns every frame, in order."""
    inbox = Source().inbox
    inbox.put([b"1", b"2"])
    inbox.put([b"3"])
    assert await inbox.take() == [b"1", b"2", b"3"]


async def test_a_waiting_receiver_is_woken():
    """Frames put later wake the one who waits."""
    inbox = Source().inbox
    task = await waiting(inbox)
    inbox.put([b"1"])
    inbox.put([b"2"])
    assert await task == [b"1", b"2"]


async def test_frames_are_offered_up_to_the_first_that_is_left():
    """It and those after it are received; a receiver sleeps on if none is left."""
    inbox = Source().inbox
    taken: list[bytes] = []
    inbox.take_now = lambda frame: frame != b"left" and not taken.append(frame)
    task = await waiting(inbox)
    inbox.put([b"1", b"2"])
    await asyncio.sleep(0)
    assert not task.done()
    inbox.put([b"3", b"left", b"4"])
    assert await task == [b"left", b"4"]
    assert taken == [b"1", b"2", b"3"]


async def test_nothing_is_offered_while_a_frame_waits():
    """Nor without a receiver, nor after the end: what came first is first."""
    inbox = Source().inbox
    offered: list[bytes] = []
    inbox.take_now = lambda frame: bool(offered.append(frame))
    inbox.put([b"1"])
    assert await inbox.take() == [b"1"]
    task = await waiting(inbox)
    inbox.put([b"2"])
    inbox.put([b"3"])
    assert await task == [b"2", b"3"]
    inbox.end()
    inbox.put([b"4"])
    assert offered == [b"2"]


async def test_the_end_comes_after_the_frames():
    """What arrived before the end is still received; then there is nothing, again and again."""
    inbox = Source().inbox
    inbox.put([b"1"])
    inbox.end()
    inbox.put([b"too late"])
    assert [await inbox.take() for _ in range(3)] == [[b"1"], [], []]


async def test_the_end_wakes_a_receiver():
    """Nobody waits beyond the end."""
    inbox = Source().inbox
    task = await waiting(inbox)
    inbox.end()
    assert await task == []


async def test_cancelling_a_receiver_loses_nothing():
    """Even if the frames came in the moment of the cancellation."""
    inbox = Source().inbox
    task = await waiting(inbox)
    inbox.put([b"1"])
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert await inbox.take() == [b"1"]


async def test_only_one_may_receive():
    """A second receiver is a mistake of the caller's, and is told so."""
    inbox = Source().inbox
    task = await waiting(inbox)
    with pytest.raises(RuntimeError, match="two tasks receive"):
        await inbox.take()
    inbox.end()
    await task


async def test_the_source_is_paused_when_too_much_waits_and_resumed_when_taken():
    """Back-pressure counts bytes, and asks once."""
    source = Source()
    source.inbox.put([bytes(HIGH_WATER - FRAME_COST)])
    assert source.asked == []
    source.inbox.put([b"x"])
    source.inbox.put([b"y"])
    assert source.asked == ["pause"]
    await source.inbox.take()
    assert source.asked == ["pause", "resume"]


async def test_many_tiny_frames_count_too():
    """A flood of short frames is held back like one long one."""
    source = Source()
    source.inbox.put([b"{"] * (HIGH_WATER // FRAME_COST))
    assert source.asked == ["pause"]


async def test_the_end_lets_the_source_go_on():
    """A source that is to be drained must not stay paused."""
    source = Source()
    source.inbox.put([bytes(HIGH_WATER)])
    source.inbox.end(drop=True)
    assert source.asked == ["pause", "resume"]
    assert await source.inbox.take() == []


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
