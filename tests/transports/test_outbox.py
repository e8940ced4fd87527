"""Frames that wait for their writer."""

from __future__ import annotations

import asyncio

from antiphon.transports.queued import HIGH_WATER, Outbox


def test_frames_come_out_in_order_and_wake_the_writer():
    """Each time there is something to do."""
    woken = []
    outbox = Outbox(lambda: woken.append(1))
    assert not outbox
    assert outbox.put(b"a") is None
    outbox.put(b"b")
    assert outbox and len(woken) == 2
    assert [outbox.pop(), outbox.pop(), outbox.pop()] == [b"a", b"b", None]


async def test_senders_wait_while_too_much_waits():
    """Until half of it is gone."""
    outbox = Outbox(lambda: None)
    wait = outbox.put(bytes(HIGH_WATER + 1))
    assert wait is not None

    async def sender():
        await wait

    task = asyncio.create_task(sender())
    await asyncio.sleep(0)
    assert not task.done()
    outbox.pop()
    await task
    assert outbox.put(b"x") is None


async def test_after_the_end_nothing_is_taken_and_nobody_waits():
    """What waits may still be written, unless it is to be dropped."""
    outbox = Outbox(lambda: None)
    wait = outbox.put(bytes(HIGH_WATER + 1))
    assert wait is not None
    outbox.end()
    await wait
    assert outbox.put(b"late") is None
    assert outbox.pop() is not None
    assert not outbox
    outbox.end(drop=True)
    assert outbox.pop() is None
