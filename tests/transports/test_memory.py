"""The in-memory pair behaves as any channel does."""

from __future__ import annotations

import asyncio

from antiphon.channel import Frame, Oversized
from antiphon.transports.inbox import HIGH_WATER
from antiphon.transports.queued import memory_pair


async def test_what_one_sends_the_other_receives():
    """In both directions, in order, as the bytes that were sent."""
    left, right = memory_pair()
    left.send(Frame(b"1"))
    left.send(Frame(b"2", related_to=7, final=True))
    right.send(Frame(b"3"))
    assert (await right.receive(), await left.receive()) == ([b"1", b"2"], [b"3"])


async def test_a_slow_receiver_makes_the_sender_wait():
    """``send`` returns an awaitable once enough waits; receiving ends it."""
    left, right = memory_pair()
    assert left.send(Frame(b"x")) is None
    room = left.send(Frame(bytes(HIGH_WATER)))
    assert room is not None

    async def sender():
        await room
        return left.send(Frame(b"y"))

    task = asyncio.create_task(sender())
    assert len(await right.receive()) == 2
    assert await right.receive() == [b"y"]
    assert await task is None


async def test_a_frame_over_the_limit_arrives_as_oversized():
    """The limit is the receiver's, as on a pipe; the next frame is fine."""
    left, right = memory_pair(max_frame=4)
    left.send(Frame(b"12345"))
    left.send(Frame(b"1234"))
    assert await right.receive() == [Oversized(5), b"1234"]


async def test_closing_ends_both_sides():
    """The peer still gets what was sent; each side knows who closed."""
    left, right = memory_pair()
    left.send(Frame(b"last"))
    right.send(Frame(b"unread"))
    await left.close()
    await left.close()
    assert [await right.receive(), await right.receive(), await left.receive()] == [[b"last"], [], []]
    assert "on this side" in str(left.closed_error())
    assert "peer closed" in str(right.closed_error())


async def test_sending_after_the_end_is_silent():
    """Frames for nobody are dropped."""
    left, right = memory_pair()
    await right.close()
    assert left.send(Frame(bytes(2 * HIGH_WATER))) is None
    assert await left.receive() == []


async def test_closing_frees_a_sender_that_waits():
    """No one waits for room at a channel that has ended."""
    left, right = memory_pair()
    room = left.send(Frame(bytes(2 * HIGH_WATER)))
    assert room is not None
    await right.close()
    await room
