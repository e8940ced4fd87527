"""One request and its response, as the application and the wire see them."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace

import pytest
from uvicorn.protocols.http.flow_control import FlowControl

from antiphon.transports.http.server.cycle import CommonHeaders, Cycle


class Wire:
    """A transport that keeps what is written."""

    def __init__(self):
        self.writes = []
        self.closed = False

    def write(self, data):
        self.writes.append(bytes(data))

    def close(self):
        self.closed = True

    def is_closing(self):
        return self.closed


def cycle(*, method="POST", keep_alive=True, expects_continue=False):
    """Make a cycle; what it writes is in its ``transport``, its ends are counted in ``ends``."""
    wire = Wire()
    ends = []
    connection = SimpleNamespace(
        transport=wire,
        flow=FlowControl(wire),
        server_state=SimpleNamespace(default_headers=[(b"date", b"today")]),
        common=CommonHeaders(),
        tasks=set(),
        on_response_complete=lambda: ends.append(1),
    )
    headers = {b"expect": b"100-Continue"} if expects_continue else {}
    made = Cycle(method, "/", "", b"", [], headers, connection, keep_alive)
    return made, wire, ends


def head(*headers, status=200):
    """Make the message that begins a response."""
    return {"type": "http.response.start", "status": status, "headers": list(headers)}


def body(data=b"", *, more=False):
    """Make the message that goes on with it."""
    return {"type": "http.response.body", "body": data, "more_body": more}


def sized(size):
    """Write the header of a body's length."""
    return (b"content-length", b"%d" % size)


async def test_a_response_of_known_length_is_one_write():
    """Head and body together."""
    made, wire, ends = cycle()
    await made.send(head(sized(2)))
    assert not wire.writes
    await made.send(body(b"ok"))
    assert wire.writes == [b"HTTP/1.1 200 OK\r\ndate: today\r\ncontent-length: 2\r\n\r\nok"]
    assert ends == [1] and made.response_complete and not wire.closed


async def test_a_large_body_is_not_copied():
    """It has a write of its own."""
    made, wire, _ = cycle()
    data = bytes(100_000)
    await made.send(head(sized(len(data))))
    await made.send(body(data))
    assert [len(each) > 1000 for each in wire.writes] == [False, True]


async def test_a_response_of_unknown_length_goes_in_chunks():
    """The head goes at once: a client waits for it."""
    made, wire, _ = cycle()
    await made.send(head())
    assert wire.writes[0].endswith(b"transfer-encoding: chunked\r\n\r\n")
    await made.send(body(b"abc", more=True))
    await made.send(body(b"", more=True))
    await made.send(body(b"d"))
    assert wire.writes[1:] == [b"3\r\nabc\r\n", b"1\r\nd\r\n0\r\n\r\n"]


@pytest.mark.parametrize("status", [204, 304])
async def test_what_has_no_body_has_no_chunks(status):
    """Else the next response would be read as this one's body."""
    made, wire, _ = cycle()
    await made.send(head(status=status))
    await made.send(body())
    assert b"chunked" not in b"".join(wire.writes) and wire.writes[-1].endswith(b"\r\n\r\n")
    assert made.response_complete


async def test_head_has_no_body():
    """Its headers are those of GET."""
    made, wire, _ = cycle(method="HEAD")
    await made.send(head(sized(5)))
    await made.send(body(b"hello"))
    assert b"".join(wire.writes).endswith(b"content-length: 5\r\n\r\n")


@pytest.mark.parametrize("headers", [[], [(b"connection", b"close")]])
async def test_the_connection_is_closed_where_one_of_both_wants_it(headers):
    """And the client is told, once."""
    made, wire, _ = cycle(keep_alive=bool(headers))
    await made.send(head(sized(0), *headers))
    await made.send(body())
    assert b"".join(wire.writes).count(b"connection: close\r\n") == 1
    assert wire.closed


@pytest.mark.parametrize("data", [b"abc", b"a"])
async def test_a_body_of_another_length_is_an_error(data):
    """The client would wait, or read on in the next response."""
    made, wire, _ = cycle()
    await made.send(head(sized(2)))
    with pytest.raises(RuntimeError, match="Content-Length"):
        await made.send(body(data))
    assert not made.response_complete and not wire.writes


@pytest.mark.parametrize(
    ("name", "value"), [(b"x-a", b"1\r\nx-b: 2"), (b"x a", b"1"), (b"", b"1"), (b"x\n", b"1"), (b"x", b"\0")]
)
async def test_a_header_that_would_be_read_as_something_else_is_not_sent(name, value):
    """Nothing of it, also when it is tried again, or in one step."""
    made, wire, _ = cycle()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="Invalid HTTP header"):
            await made.send(head((name, value)))
        with pytest.raises(RuntimeError, match="Invalid HTTP header"):
            made.respond(200, ((name, value),), b"")
    assert not wire.writes


async def test_messages_out_of_order_are_errors():
    """A body before its head, two heads, anything after the end."""
    made, _, _ = cycle()
    with pytest.raises(RuntimeError):
        await made.send(body())
    await made.send(head(sized(0)))
    with pytest.raises(RuntimeError):
        await made.send(head())
    await made.send(body())
    with pytest.raises(RuntimeError):
        await made.send(body())


async def test_nothing_is_sent_to_who_is_gone():
    """And nobody minds."""
    made, wire, _ = cycle()
    made.disconnected = True
    await made.send(head())
    await made.send(body())
    assert not wire.writes


async def test_a_body_that_is_here_is_received_at_once():
    """All that has arrived, in one message."""
    made, _, _ = cycle()
    assert made.feed(b"ab") == 2
    assert made.feed(b"cd") == 4
    made.feed(b"e")
    made.more_body = False
    assert await made.receive() == {"type": "http.request", "body": b"abcde", "more_body": False}


async def test_who_receives_waits_for_what_comes():
    """A part of the body, then the end of the client."""
    made, _, _ = cycle()
    waiting = asyncio.ensure_future(made.receive())
    await asyncio.sleep(0)
    made.feed(b"a")
    assert await waiting == {"type": "http.request", "body": b"a", "more_body": True}
    waiting = asyncio.ensure_future(made.receive())
    await asyncio.sleep(0)
    assert not waiting.done()
    made.disconnected = True
    made.note()
    assert await waiting == {"type": "http.disconnect"}
    assert await made.receive() == {"type": "http.disconnect"}


async def test_after_the_response_nothing_is_received():
    """Whoever still waits learns it."""
    made, _, _ = cycle()
    made.feed(b"x")
    await made.receive()
    waiting = asyncio.ensure_future(made.receive())
    await asyncio.sleep(0)
    await made.send(head(sized(0)))
    await made.send(body())
    assert await waiting == {"type": "http.disconnect"}


async def test_a_client_that_asks_whether_to_go_on_is_told():
    """Once the body is wanted; not after the response has begun."""
    made, wire, _ = cycle(expects_continue=True)
    made.feed(b"x")
    await made.receive()
    await made.send(head(sized(1)))
    assert wire.writes == [b"HTTP/1.1 100 Continue\r\n\r\n"]


async def test_an_application_that_fails_is_answered_for(caplog):
    """With 500, and its connection is closed; the error is logged."""

    async def app(http):
        raise ValueError("no")

    made, wire, _ = cycle()
    with caplog.at_level(logging.ERROR, "uvicorn.error"):
        await made.run(app)
    assert wire.writes[0].startswith(b"HTTP/1.1 500 ") and wire.writes[0].endswith(b"Internal Server Error")
    assert wire.closed and "ValueError" in caplog.text


@pytest.mark.parametrize("messages", [[], [head(sized(1))], [head(), body(b"a", more=True)]])
async def test_an_application_that_says_too_little_has_its_connection_closed(messages):
    """The client would wait for ever."""

    async def app(http):
        for message in messages:
            await http.send(message)

    made, wire, _ = cycle()
    await made.run(app)
    assert wire.closed


async def test_what_an_application_sends_after_it_has_failed_is_dropped():
    """The connection is closed within the response, and the end of what follows is no end of another one."""

    async def app(http):
        await http.send(head())
        raise ValueError("no")

    made, wire, ends = cycle()
    await made.run(app)
    before = list(wire.writes)
    await made.send(body(b"late"))
    assert not made.write(b"late", last=True)
    assert wire.closed and wire.writes == before and not ends


async def test_a_task_leaves_the_table_when_it_is_done():
    """A server that stops waits for those in it."""

    async def app(http):
        assert len(tasks) == 1
        await http.send(head(sized(0)))
        await http.send(body())

    made, _, ends = cycle()
    tasks = made._connection.tasks
    made.task = asyncio.ensure_future(made.run(app))
    tasks.add(made.task)
    await made.task
    assert not tasks and ends == [1]
