"""What a cycle does in one step: the same on the wire as with messages, or nothing."""

from __future__ import annotations

import pytest

from tests.transports.http.server.test_cycle import body, cycle, head, sized

EVENTS = ((b"content-type", b"text/event-stream"),)


async def wire_of(*messages, **options):
    """Send messages; return what was written."""
    made, wire, _ = cycle(**options)
    for message in messages:
        await made.send(message)
    return b"".join(wire.writes), wire.closed


@pytest.mark.parametrize("keep_alive", [True, False])
@pytest.mark.parametrize("size", [0, 2, 100_000])
async def test_a_whole_response_is_as_with_messages(keep_alive, size):
    """Head, length, end of the connection where it ends; a large body is not copied."""
    made, wire, ends = cycle(keep_alive=keep_alive)
    data = b"x" * size
    assert made.respond(200, ((b"A", b"b"),), data)
    sent = b"".join(wire.writes)
    expected, closed = await wire_of(head((b"A", b"b"), sized(size)), body(data), keep_alive=keep_alive)
    assert sorted(sent.split(b"\r\n")) == sorted(expected.split(b"\r\n"))
    assert (sent[-size:] if size else b"", wire.closed) == (data, closed)
    assert ends == [1] and made.response_complete
    assert len(wire.writes) == (2 if size > 65_536 else 1)
    assert (await made.receive())["type"] == "http.disconnect"


async def test_a_stream_is_as_with_messages():
    """In chunks, each as it comes."""
    made, wire, ends = cycle()
    assert made.begin(200, EVENTS) and len(wire.writes) == 1
    assert made.write(b"one", last=False) and not ends
    assert made.write(b"two", last=True) and ends == [1]
    expected, _ = await wire_of(head(*EVENTS), body(b"one", more=True), body(b"two"))
    assert b"".join(wire.writes) == expected


async def test_each_response_has_the_headers_of_its_time():
    """Uvicorn makes a new list each second; responses of one connection are encoded with the one that is current."""
    made, wire, _ = cycle()
    assert made.respond(200, (), b"")
    again, other, _ = cycle()
    again._connection.common = made._connection.common
    again._connection.server_state.default_headers = [(b"date", b"tomorrow")]
    assert again.respond(200, (), b"")
    assert b"date: today\r\n" in wire.writes[0]
    assert b"date: tomorrow\r\n" in other.writes[0] and b"today" not in other.writes[0]


async def test_what_was_begun_at_once_can_go_on_with_messages():
    """A client that does not keep up is waited for with these."""
    made, wire, _ = cycle()
    made.begin(200, EVENTS)
    await made.send(body(b"one", more=True))
    await made.send(body())
    assert wire.writes[1:] == [b"3\r\none\r\n", b"0\r\n\r\n"]


def is_gone(made):
    """The client is not there any more."""
    made.disconnected = True


def is_slow(made):
    """The client does not take what it is sent."""
    made._connection.flow.pause_writing()


def has_response(made):
    """There is one already."""
    made.respond(200, (), b"")


@pytest.mark.parametrize("happens", [is_gone, is_slow, has_response])
async def test_what_cannot_be_sent_now_is_not_sent(happens):
    """Whoever sends it does so with messages, which know what to do."""
    made, wire, _ = cycle()
    happens(made)
    before = list(wire.writes)
    assert not made.respond(200, (), b"x")
    assert not made.begin(200, ())
    assert not made.write(b"x", last=True)
    assert wire.writes == before


async def test_head_has_no_body():
    """So its response is not sent whole."""
    made, _, _ = cycle(method="HEAD")
    assert not made.respond(200, (), b"x")


async def test_a_head_that_cannot_be_written_leaves_room_for_an_error():
    """Nothing has begun."""
    made, wire, _ = cycle()
    with pytest.raises(RuntimeError, match="Invalid HTTP header"):
        made.respond(200, ((b"a", b"\n"),), b"x")
    assert not wire.writes and not made.response_started


async def test_a_body_is_taken_once_all_of_it_is_here():
    """And only once, and only if it is not too large."""
    made, _, _ = cycle()
    assert made.feed(b"ab") == 2
    assert made.take_body(10) is None
    made.more_body = False
    made.note()
    assert made.take_body(1) is None
    assert made.take_body(2) == b"ab"
    assert made.take_body(2) is None


async def test_a_body_of_a_client_that_is_gone_is_received():
    """Its end is a message of its own."""
    made, _, _ = cycle()
    made.feed(b"ab")
    made.feed_end()
    made.disconnected = True
    assert made.take_body(10) is None


async def test_who_has_sent_the_whole_body_is_not_told_to():
    """RFC 9110, section 10.1.1: a server may omit it once it has the content."""
    made, wire, _ = cycle(expects_continue=True)
    made.feed(b"ab")
    assert made.take_body(10) is None
    made.feed_end()
    assert made.take_body(10) == b"ab" and not wire.writes


async def test_reading_goes_on_once_a_large_body_was_taken():
    """Else nobody would see the client leave."""
    made, wire, _ = cycle()
    resumed = []
    wire.pause_reading, wire.resume_reading = lambda: None, lambda: resumed.append(1)
    made.feed(bytes(100_000))
    made.more_body = False
    made._connection.flow.pause_reading()
    assert len(made.take_body(1_000_000)) == 100_000
    assert resumed == [1]
