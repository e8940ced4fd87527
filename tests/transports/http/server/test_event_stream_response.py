"""A stream and its carriers: order, bounds, back-pressure, resuming."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.protocol.http.sse import EventParser
from antiphon.transports.http.server.asgi import AsgiHttp
from antiphon.transports.http.server.event_store import EventCursor, MemoryEventStore
from antiphon.transports.http.server.event_stream_response import ResponseStream
from antiphon.transports.http.server.sse_response import Carrier
from tests.transports.http.server.driver import InstantHttp, Response, scope_of


def resumable(*, priming=False):
    """Make a stream whose events are kept."""
    return ResponseStream(EventCursor(MemoryEventStore(), "key", "1", priming))


def carrier_to(send, server=None, keep_alive=60.0):
    """Make a carrier that sends with this."""
    parts = scope_of("GET", {}), send, send
    return Carrier(AsgiHttp(*parts) if server is None else InstantHttp(server, *parts), keep_alive)


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


class Server:
    """Sends in one step, until it is full."""

    def __init__(self):
        self.sent = []
        self.is_full = False
        self.messages = []

    async def send(self, message):
        self.messages.append(message)

    def begin(self, status, headers, first=b""):
        self.sent.append((status, dict(headers)[b"content-type"]))
        if first:
            self.sent.append((first, False))
        return True

    def write(self, data, *, last):
        if not self.is_full:
            self.sent.append((data, last))
        return not self.is_full


async def test_a_server_that_can_is_given_events_without_messages():
    """Where it cannot, the message says the same."""
    server, stream = Server(), ResponseStream()
    stream.put(b"1")
    task = asyncio.ensure_future(stream.carry(carrier_to(server.send, server)))
    await asyncio.sleep(0)
    server.is_full = True
    stream.put(b"2", last=True)
    await task
    assert server.sent == [(200, b"text/event-stream"), (b"data: 1\n\n", False)]
    assert server.messages == [{"type": "http.response.body", "body": b"data: 2\n\n", "more_body": False}]


def pass_through(stream):
    """Pass a stream through; return the server, the carrier, and what carries it on when it has to be slow."""
    server, tasks = Server(), []
    carrier = carrier_to(server.send, server)

    def slow_down():
        tasks.append(asyncio.ensure_future(stream.carry_on(carrier)))

    assert stream.pass_through(carrier, slow_down)
    return server, carrier, tasks


async def test_what_is_passed_through_needs_no_task():
    """And can be had again."""
    stream = resumable(priming=True)
    server, _, tasks = pass_through(stream)
    stream.put(b"1")
    stream.put(b"2", last=True)
    assert server.sent[2:] == [(b"id: 1-1\ndata: 1\n\n", False), (b"id: 1-2\ndata: 2\n\n", True)]
    assert (stream.complete, stream.is_carried, tasks, server.messages) == (True, False, [], [])
    _, again, task = carry(stream, after=0)
    await task
    assert data_of(again) == [b"1", b"2"]


async def test_the_first_frame_goes_with_the_head():
    """One write, and it can be had again like every other."""
    stream, server = resumable(priming=True), Server()
    assert stream.pass_through(carrier_to(server.send, server), list, b"1")
    opening = b"id: 1-0\nretry: 1000\ndata: \n\n"
    assert server.sent[1:] == [(opening + b"id: 1-1\ndata: 1\n\n", False)]
    stream.put(b"2", last=True)
    _, again, task = carry(stream, after=0)
    await task
    assert data_of(again) == [b"1", b"2"]


async def test_what_cannot_be_passed_on_is_carried_by_a_task():
    """In order, once, and without a sign of life that nobody needs."""
    stream = resumable()
    server, _, tasks = pass_through(stream)
    stream.put(b"1")
    server.is_full = True
    stream.put(b"2")
    stream.put(b"3", last=True)
    (task,) = tasks
    await task
    assert server.messages == [
        {"type": "http.response.body", "body": b"id: 1-2\ndata: 2\n\nid: 1-3\ndata: 3\n\n", "more_body": False}
    ]


async def test_silence_that_is_too_long_is_broken():
    """By whoever says that it is: from then on a task carries it."""
    stream = ResponseStream()
    server, carrier, tasks = pass_through(stream)
    stream.slow_down()
    stream.slow_down()
    await asyncio.sleep(0)
    assert server.sent[-1] == (b":\n\n", False) and len(tasks) == 1
    stream.let_go()
    await tasks[0]
    assert carrier.stopped


@pytest.mark.parametrize("is_full", [False, True])
async def test_what_is_passed_through_ends_without_a_last_frame(is_full):
    """Its request was cancelled."""
    stream = ResponseStream()
    server, carrier, tasks = pass_through(stream)
    server.is_full = is_full
    stream.finish()
    await asyncio.gather(*tasks)
    await carrier.wait_ended()
    assert server.sent[1:] == ([] if is_full else [(b"", True)])
    assert [message["body"] for message in server.messages] == ([b""] if is_full else [])


async def test_a_carrier_takes_over_from_what_is_passed_through():
    """A client that lost its connection may be back before anybody knows."""
    stream = resumable()
    _, before, tasks = pass_through(stream)
    stream.put(b"1")
    _, response, task = carry(stream, after=0)
    await before.wait_ended()
    stream.put(b"2", last=True)
    await asyncio.gather(task, *tasks)
    assert data_of(response) == [b"1", b"2"]


async def test_what_has_waited_is_not_passed_through():
    """Nor is what a store keeps that may have to wait."""

    class Elsewhere(MemoryEventStore):
        pass

    stream = ResponseStream()
    stream.put(b"1")
    assert not stream.pass_through(carrier_to(Server().send), list)
    assert not ResponseStream(EventCursor(Elsewhere(), "key", "1", False)).pass_through(carrier_to(Server().send), list)
    assert not ResponseStream().pass_through(carrier_to(Response().take), list)


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
