"""A stream and its carriers: order, bounds, back-pressure, resuming."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.protocol.http.sse import EventParser
from antiphon.transports.http.server.asgi import Http
from antiphon.transports.http.server.event_store import EventCursor, MemoryEventStore
from antiphon.transports.http.server.sse_response import Carrier, ResponseStream
from tests.transports.http.server.driver import Response, scope_of


def resumable(*, priming=False):
    """Make a stream whose events are kept."""
    return ResponseStream(EventCursor(MemoryEventStore(), "key", "1", priming))


def carrier_to(send, keep_alive=60.0):
    """Make a carrier that sends with this."""
    return Carrier(Http(scope_of("GET", {}), send, send), keep_alive)


def carry(stream, *, after=None, send=None, keep_alive=60.0):
    """Begin to carry a stream; return the carrier, what it sent, and its task."""
    response = Response()
    carrier = carrier_to(send or response.take, keep_alive=keep_alive)
    return carrier, response, asyncio.ensure_future(stream.carry(carrier, after=after))


def data_of(response):
    """Return the data of the events a client got."""
    return [event.data for event in response.events if event.data]


async def test_what_was_put_in_before_comes_first():
    """A frame may be earlier than its carrier."""
    stream = ResponseStream()
    stream.put(b"1")
    _, response, task = carry(stream)
    stream.put(b"2")
    await response.until(b"2")
    stream.put(b"3", last=True)
    await task
    assert data_of(response) == [b"1", b"2", b"3"]
    assert response.complete.is_set()


async def test_with_a_carrier_on_its_way_nothing_is_dropped_and_without_it_the_oldest_is():
    """A client that is there has time to read; one that is not cannot fill the memory."""
    carrier = carrier_to(Response().take)
    for expected, kept in ((True, 2000), (False, 1000)):
        stream = ResponseStream()
        stream.expect(carrier)
        if not expected:
            stream.unexpect(carrier)
        for _ in range(2000):
            stream.put(b"1")
        assert len(stream._frames) == kept
        assert stream.is_carried is expected


async def test_what_nobody_reads_is_told_once_and_then_counted(caplog):
    """A client that never reads cannot fill the log either; the count is told when it reads again, or at the end."""
    ended, read = ResponseStream(), ResponseStream()
    for stream in (ended, read):
        for _ in range(50_000):
            stream.put(b"1")
    assert [record.message for record in caplog.records] == [
        "nobody reads a stream: its oldest messages are dropped"
    ] * 2
    caplog.clear()
    ended.finish()
    read.put(b"2", last=True)
    _, response, task = carry(read)
    await task
    assert [record.message for record in caplog.records] == [
        "49000 messages of a stream that nobody read were dropped",
        "49001 messages of a stream that nobody read were dropped",
    ]
    assert data_of(response)[-1] == b"2"


async def test_after_the_last_frame_nothing_goes_in():
    """The reply ends a stream."""
    stream = ResponseStream()
    stream.put(b"1", last=True)
    stream.put(b"2")
    _, response, task = carry(stream)
    await task
    assert data_of(response) == [b"1"]


@pytest.mark.parametrize("got", [0, 1, 2, 3])
async def test_a_client_that_comes_back_misses_nothing_and_gets_nothing_twice(got):
    """Wherever its connection was cut."""
    stream = resumable()
    carrier, response, task = carry(stream)
    for number in (b"1", b"2", b"3"):
        stream.put(number)
    await response.until(b"3")
    carrier.stop(lost=True)
    await task
    stream.put(b"4", last=True)
    _, rest, task = carry(stream, after=got)
    await task
    assert data_of(response)[:got] + data_of(rest) == [b"1", b"2", b"3", b"4"]
    assert [event.id for event in rest.events] == [f"1-{number}" for number in range(got + 1, 5)]


async def test_what_was_complete_can_be_had_again():
    """The reply itself may be what was lost."""
    stream = resumable(priming=True)
    stream.put(b"1", last=True)
    await carry(stream)[2]
    _, again, task = carry(stream, after=0)
    await task
    assert data_of(again) == [b"1"]
    assert again.events[0].id == "1-0"


async def test_a_new_carrier_ends_the_one_before():
    """Each message goes to one of them."""
    stream = resumable()
    stream.put(b"1")
    _, first, first_task = carry(stream)
    await first.until(b"1")
    _, second, second_task = carry(stream, after=1)
    await first_task
    stream.put(b"2", last=True)
    await second_task
    assert (data_of(first), data_of(second)) == ([b"1"], [b"2"])
    assert first.complete.is_set()


async def test_three_carriers_in_a_row():
    """The one in the middle has its end before it began."""
    stream = resumable()
    tasks = [carry(stream, after=0) for _ in range(3)]
    stream.put(b"1", last=True)
    await asyncio.gather(*(task for _, _, task in tasks))
    assert data_of(tasks[-1][1]) == [b"1"]


async def test_letting_go_ends_the_response_and_not_the_stream():
    """The client polls for the rest."""
    stream = resumable(priming=True)
    _, first, task = carry(stream)
    await first.until(b"id: 1-0")
    stream.let_go()
    await task
    assert first.complete.is_set()
    stream.put(b"1", last=True)
    _, second, task = carry(stream, after=0)
    await task
    assert data_of(second) == [b"1"]


async def test_silence_is_filled_with_comments():
    """They are no events."""
    stream = ResponseStream()
    _, response, task = carry(stream, keep_alive=0.001)
    await response.until(b":\n\n:\n\n:\n\n")
    stream.put(b"1", last=True)
    await task
    assert data_of(response) == [b"1"]


async def test_a_client_that_does_not_read_makes_senders_wait():
    """Until it reads on."""
    stream = ResponseStream()
    gate = asyncio.Event()

    async def send(_message):
        await gate.wait()

    _, _, task = carry(stream, send=send)
    await asyncio.sleep(0)
    waits = [stream.put(b"x" * 100_000) for _ in range(4)]
    assert [wait is None for wait in waits] == [True, True, False, False]
    gate.set()
    async with asyncio.timeout(30):
        await waits[-1]
    stream.finish()
    await task


async def test_senders_do_not_wait_for_a_client_that_is_gone():
    """What they send waits for it instead."""
    stream = resumable()
    gate = asyncio.Event()

    async def send(_message):
        await gate.wait()
        raise ConnectionResetError

    _, _, task = carry(stream, send=send)
    await asyncio.sleep(0)
    for _ in range(3):
        wait = stream.put(b"x" * 100_000)
    gate.set()
    await task
    async with asyncio.timeout(30):
        await wait
    assert not stream.is_carried


async def test_what_waits_for_nobody_is_bounded():
    """The oldest goes; the reply stays."""
    stream = ResponseStream()
    for number in range(2000):
        stream.put(b"%d" % number)
    stream.put(b"x" * 2_000_000, last=True)
    _, response, task = carry(stream)
    await task
    assert [len(data) for data in data_of(response)] == [2_000_000]


async def test_a_stream_can_end_without_a_reply():
    """What it was for was cancelled."""
    stream = ResponseStream()
    _, response, task = carry(stream)
    stream.finish()
    await task
    assert EventParser().feed(response.body) == []
    assert response.complete.is_set()


async def test_a_client_that_reads_nothing_loses_its_connection():
    """Where senders do not wait, memory would fill."""
    stream = ResponseStream()
    gate = asyncio.Event()

    async def send(_message):
        await gate.wait()

    carrier, _, task = carry(stream, send=send)
    await asyncio.sleep(0)
    frame = b"x" * (1 << 20)
    for _ in range(40):
        stream.put(frame)
    assert carrier.stopped
    gate.set()
    await task


async def test_what_comes_during_a_keep_alive_comment_is_sent_after_it():
    """It wakes nobody, since the carrier is not waiting then."""
    response, commenting, go = Response(), asyncio.Event(), asyncio.Event()

    async def send(message):
        if message.get("body", b"").startswith(b":") and not go.is_set():
            commenting.set()
            await go.wait()
        await response.take(message)

    stream = ResponseStream()
    _, _, task = carry(stream, send=send, keep_alive=0.001)
    await commenting.wait()
    stream.put(b"1", last=True)
    go.set()
    async with asyncio.timeout(30):
        await task
    assert data_of(response) == [b"1"]
