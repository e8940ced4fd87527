"""Connections that come no further are aborted, and those that do are left alone."""

from __future__ import annotations

import asyncio

import pytest
import uvicorn
from uvicorn.server import ServerState

from antiphon import Server
from antiphon.transports.http.server.connections import BoundedConnection, ConnectionLimits, Sweep, bound_connections
from tests.support.network import INITIALIZE, Bare, let_time_pass, listening, request_bytes, until

LIMITS = ConnectionLimits(head_timeout=10, stall=30)


class Transport:
    """What lies under a connection, as far as it is looked at."""

    def __init__(self):
        self.aborted = False
        self.closing = False
        self.left = 0

    def abort(self):
        self.aborted = True

    def is_closing(self):
        return self.closing

    def get_write_buffer_size(self):
        return self.left


class Stranger:
    """A connection of another kind, such as a WebSocket's: only its transport is looked at."""

    def __init__(self):
        self.transport = Transport()


@pytest.fixture
def swept():
    """Give a closing connection, and what sweeps it at a moment and tells whether it was aborted."""
    connection = Stranger()
    connection.transport.closing = True
    sweep = Sweep(LIMITS)

    def at(now):
        sweep([connection], now)
        return connection.transport.aborted

    return connection.transport, at


def test_what_is_closed_and_not_taken_is_aborted_after_a_while(swept):
    """Else its buffer would stay for ever."""
    transport, at = swept
    transport.left = 1_000_000
    assert [at(now) for now in (0, 15, 29.9, 30)] == [False, False, False, True]


def test_who_takes_enough_has_all_the_time(swept):
    """64 KiB in half a minute are enough; a little now and then is not."""
    transport, at = swept
    for step in range(10):
        transport.left = 1_000_000 - step * 65_536
        assert not at(step * 29)
    transport.left -= 1
    assert not at(9 * 29 + 1)
    transport.left -= 10
    assert at(9 * 29 + 31)


def test_a_connection_that_is_well_is_not_looked_at_again(swept):
    """Its time begins anew when it is not."""
    transport, at = swept
    transport.closing = False
    assert not at(0)
    assert not at(1000)
    transport.closing = True
    assert not at(1001)
    assert at(1031)


def test_the_class_of_connections_has_its_limits():
    """One class for each server."""
    small = bound_connections(ConnectionLimits(max_connections=1))
    assert small.limits.max_connections == 1
    assert BoundedConnection.limits.max_connections == ConnectionLimits().max_connections


async def test_whoever_works_on_is_not_cut_off():
    """In a request and in a stream nobody is hurried; between requests a connection may rest a while."""
    async with listening(Server("s")) as network:
        bare = await Bare.open(network.place)
        session = await bare.initialize()
        bare.send(request_bytes(b"", "GET", **session))
        await bare.reader.readuntil(b"id: 0-0")
        other = await Bare.open(network.place)
        other.send(request_bytes(INITIALIZE))
        assert (await other.response())[0] == 200
        let_time_pass(network, 4.9)
        assert len(network.server_state.connections) == 2
        let_time_pass(network, 3600)
        assert await other.ended() == b""
        await until(lambda: len(network.server_state.connections) == 1)
        for each in (bare, other):
            each.vanish()
        await until(lambda: not network.server_state.connections)


async def test_the_head_of_the_next_request_has_its_own_time():
    """What was sent before does not count."""
    async with listening(Server("s"), head_timeout=5.0) as network:
        bare = await Bare.open(network.place)
        for _ in range(20):
            bare.send(request_bytes(INITIALIZE, x_long="x" * 10_000))
            assert (await bare.response())[0] == 200
        bare.send(b"POST ")
        await until(lambda: next(iter(network.server_state.connections)).is_idle)
        let_time_pass(network, 4.9)
        assert network.server_state.connections
        let_time_pass(network, 5.0)
        assert await bare.ended() == b""


async def test_requests_that_come_together_are_answered_in_order():
    """Pipelined: the next is served when the one before has its response."""
    async with listening(Server("s")) as network:
        bare = await Bare.open(network.place)
        bare.send(request_bytes(INITIALIZE) + request_bytes(INITIALIZE, path="/other") + request_bytes(INITIALIZE))
        assert [(await bare.response())[0] for _ in range(3)] == [200, 404, 200]
        bare.vanish()


async def test_a_path_may_be_escaped():
    """It is the same path."""
    async with listening(Server("s")) as network:
        bare = await Bare.open(network.place)
        bare.send(request_bytes(INITIALIZE, path="/m%63p?a=1"))
        assert (await bare.response())[0] == 200
        bare.vanish()


async def test_a_header_that_decides_may_not_come_twice():
    """In whatever spelling: a proxy may have used the other value."""
    async with listening(Server("s")) as network:
        bare = await Bare.open(network.place)
        bare.send(request_bytes(INITIALIZE, mcp_method="initialize", MCP_METHOD="ping"))
        status, _, said = await bare.response()
        assert status == 400
        assert b"mcp-method comes twice" in said
        bare.vanish()


async def test_an_application_sees_all_values_of_a_header_in_their_order():
    """Those that came first, too."""
    seen = []

    async def application(scope, receive, send):
        seen.extend(value for name, value in scope["headers"] if name == b"x-a")
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    connection, _ = connect(application)
    connection.data_received(b"GET / HTTP/1.1\r\nhost: a\r\nx-a: 1\r\nX-A: 2\r\nx-b: 0\r\nx-a: 3\r\n\r\n")
    await asyncio.gather(*connection.tasks)
    assert seen == [b"1", b"2", b"3"]


async def test_a_head_and_its_body_are_written_as_one():
    """A call of the system is a tenth of what a request costs."""
    connection, wire = connect(responding(b"hello", headers=[(b"content-length", b"5")]))
    connection.data_received(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
    await asyncio.gather(*connection.tasks)
    (written,) = wire.written
    assert written.startswith(b"HTTP/1.1 200 OK\r\n") and written.endswith(b"\r\n\r\nhello")


async def test_a_large_body_is_not_copied_behind_its_head():
    """Its own write costs less than the copy."""
    large = bytes(1 << 20)
    connection, wire = connect(responding(large, headers=[(b"content-length", b"%d" % len(large))]))
    connection.data_received(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
    await asyncio.gather(*connection.tasks)
    assert [len(part) for part in wire.written[1:]] == [len(large)]
    assert wire.written[0].endswith(b"\r\n\r\n")


async def test_a_head_does_not_wait_for_a_body_that_is_late():
    """The client of a stream learns at once that it is open; parts that follow are written as they come."""
    connection, wire = connect(responding(None, b"first", b"second"))
    connection.data_received(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
    await until(lambda: wire.written)
    assert wire.written[0].endswith(b"\r\n\r\n") and b"first" not in wire.written[0]
    await asyncio.gather(*connection.tasks)
    assert b"".join(wire.written[1:]) == b"5\r\nfirst\r\n6\r\nsecond\r\n0\r\n\r\n"


@pytest.mark.parametrize("method", [b"HEAD", b"GET"])
async def test_responses_without_a_body_come_in_their_order(method):
    """Also where the next request is there already, and the last one closes the connection."""
    request = method + b" / HTTP/1.1\r\nhost: a\r\n"
    connection, wire = connect(responding(b"", headers=[(b"content-length", b"0")]))
    connection.data_received((request + b"\r\n") * 2 + request + b"connection: close\r\n\r\n")
    await until(lambda: wire.closed_after is not None)
    assert wire.closed_after == b"".join(wire.written)
    assert wire.closed_after.count(b"HTTP/1.1 200 OK") == 3
    assert wire.closed_after.endswith(b"connection: close\r\n\r\n")


async def test_a_head_that_is_held_is_dropped_with_its_connection():
    """A write to what is closed is an error in uvloop."""
    connection, wire = connect(responding(None, b"late"))
    connection.data_received(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
    await asyncio.sleep(0)
    wire.closed_after = b""
    await asyncio.gather(*connection.tasks)
    assert not [part for part in wire.written if part.startswith(b"HTTP/1.1")]


def responding(*parts, headers=()):
    """Make an application that responds with these parts; it waits a little for each ``None``, which is none."""

    async def application(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for left, part in zip(reversed(range(len(parts))), parts, strict=True):
            if part is None:
                await asyncio.sleep(0.01)
            else:
                await send({"type": "http.response.body", "body": part, "more_body": left > 0})

    return application


def connect(application):
    """Give an application a connection of ours, and the transport below."""
    config = uvicorn.Config(application, lifespan="off", log_config=None, proxy_headers=False)
    config.load()
    connection, wire = bound_connections(ConnectionLimits())(config, ServerState(), {}), Wire()
    connection.connection_made(wire)
    return connection, wire


class Wire(asyncio.Transport):
    """A transport to a client that reads all that is written."""

    def __init__(self):
        super().__init__()
        self.written = []
        self.closed_after = None
        """All that was written when it was closed."""

    def write(self, data):
        self.written.append(bytes(data))

    def close(self):
        self.closed_after = b"".join(self.written)

    def is_closing(self):
        return self.closed_after is not None

    def pause_reading(self):
        pass

    resume_reading = pause_reading
