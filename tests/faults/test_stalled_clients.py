"""Clients that are slow on purpose, a hundred of each kind, hold up nobody else, and do not stay for ever."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket

import pytest

from antiphon import Client, Context, Server
from tests.support.network import (
    INITIALIZE,
    INITIALIZED,
    META,
    Bare,
    call,
    let_deadlines_pass,
    let_time_pass,
    listening,
    modern_call,
    moment,
    request_bytes,
    until,
)

SLOW = 100
CALLS = 100
HUGE = 400_000
ROOM = 4096
LONG = 3600
"""Seconds after which nobody is waited for any more."""

LOUD = {**META, "io.modelcontextprotocol/logLevel": "info"}


def make_server():
    """Make a server with much to say."""
    server = Server("loud", version="1")
    server.flooding = 0

    @server.tool
    def echo(text: str) -> str:
        """Say it again."""
        return text

    @server.tool
    def huge() -> str:
        """Say a lot at once."""
        return "x" * HUGE

    @server.tool
    async def flood(ctx: Context) -> str:
        """Say a lot, bit by bit."""
        server.flooding += 1
        try:
            for _ in range(1000):
                await ctx.info("x" * 10_000)
        finally:
            server.flooding -= 1
        return "said"

    return server


@contextlib.asynccontextmanager
async def serving(transport="http", **options):
    """Serve it, with little room in the sockets."""
    server = make_server()
    async with listening(server, transport, **options) as network:
        for each in network.servers[0].sockets:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 32 * 1024)
        network.server = server
        yield network


async def is_served(url, revision="auto"):
    """Do what a client does that has nothing to do with the others."""
    async with Client(url, revision=revision) as client:
        for number in range(CALLS):
            assert (await client.call_tool("echo", {"text": str(number)})).text == str(number)


async def all_ended(slow):
    """Wait until every connection of these has ended."""
    async with asyncio.timeout(30):
        await asyncio.gather(*(each.ended() for each in slow))


def is_full(connection):
    """Tell whether more waits to be sent than should."""
    return connection.flow.write_paused


async def test_who_reads_nothing_of_a_huge_result_holds_up_nobody():
    """Its connection ends when it has read nothing for long enough."""
    async with serving() as network:
        slow = [await Bare.open(network.place, ROOM) for _ in range(SLOW)]
        for each in slow:
            each.send(modern_call("huge"))
        await until(lambda: sum(map(is_full, network.server_state.connections)) == SLOW)
        await is_served(f"http://{network.place}/mcp")
        assert sum(map(is_full, network.server_state.connections)) == SLOW
        let_time_pass(network, LONG)
        await all_ended(slow)


async def test_who_reads_nothing_of_a_stream_holds_up_nobody():
    """At 2026-07-28 its call ends with its connection."""
    async with serving() as network:
        slow = [await Bare.open(network.place, ROOM) for _ in range(SLOW)]
        names = {"mcp_protocol_version": "2026-07-28", "mcp_method": "tools/call", "mcp_name": "flood"}
        for each in slow:
            each.send(request_bytes(call("flood", meta=LOUD), **names))
        await until(lambda: sum(map(is_full, network.server_state.connections)) == SLOW)
        await is_served(f"http://{network.place}/mcp")
        assert network.server.flooding == SLOW
        let_time_pass(network, LONG)
        await all_ended(slow)
        await until(lambda: network.server.flooding == 0)


async def test_who_reads_nothing_of_an_event_stream_holds_up_nobody():
    """HTTP+SSE: the session ends with the stream."""
    count = SLOW // 4
    async with serving("sse") as network:
        slow = [await Bare.open(network.place, ROOM) for _ in range(count)]
        for each in slow:
            each.send(request_bytes(b"", "GET", "/sse"))
            where = await endpoint_of(each)
            post = await Bare.open(network.place)
            for message in (INITIALIZE, INITIALIZED, call("flood")):
                post.send(request_bytes(message, path=where))
                assert (await post.response())[0] == 202
            post.vanish()
        await until(lambda: sum(map(is_full, network.server_state.connections)) == count)
        await is_served(f"http://{network.place}/sse", "2024-11-05")
        assert network.server.flooding == count
        let_time_pass(network, LONG)
        await all_ended(slow)
        await until(lambda: network.server.flooding == 0)


async def endpoint_of(bare):
    """Read the address that an event stream begins with."""
    await bare.head()
    event = await bare.reader.readuntil(b"\n\n")
    return event.partition(b"data: ")[2].split(b"\n")[0].decode()


def text_frame(message):
    """Write a WebSocket frame of a client; a mask of zeros changes nothing."""
    body = json.dumps(message).encode().ljust(126)
    return b"\x81\xfe" + len(body).to_bytes(2, "big") + bytes(4) + body


async def test_who_reads_nothing_of_a_websocket_holds_up_nobody(monkeypatch):
    """It counts as gone after a while, and its connection ends."""
    count = SLOW // 4
    monkeypatch.setattr("antiphon.transports.websocket.server._STALL", float(LONG))
    upgrade = {"connection": "Upgrade", "upgrade": "websocket", "sec_websocket_version": "13"}
    async with serving("websocket") as network:
        slow = [await Bare.open(network.place, ROOM) for _ in range(count)]
        for each in slow:
            key = {"sec_websocket_key": "dGhlIHNhbXBsZSBub25jZQ=="}
            each.send(request_bytes(b"", "GET", "/ws", **upgrade, **key, content_length=None))
            assert (await each.head())[0] == 101
            for message in (INITIALIZE, INITIALIZED, call("flood")):
                each.send(text_frame(message))
        await until(lambda: network.server.flooding == count)
        await is_served(f"ws://{network.place}/ws", "2025-11-25")
        assert network.server.flooding == count
        let_deadlines_pass(LONG)
        await until(lambda: network.server.flooding == 0)
        let_time_pass(network, LONG)
        await all_ended(slow)


async def test_who_sends_a_body_a_byte_at_a_time_holds_up_nobody():
    """Others are served while all of them go on."""
    async with serving(body_timeout=float(LONG)) as network:
        slow = [await Bare.open(network.place) for _ in range(SLOW)]
        dripping = asyncio.ensure_future(asyncio.gather(*map(drip, slow)))
        await is_served(f"http://{network.place}/mcp")
        assert not any(each.reader._buffer or each.reader.at_eof() for each in slow)
        for each in slow:
            each.vanish()
        await dripping


async def test_who_sends_a_body_a_byte_at_a_time_is_cut_off():
    """It is told that this takes too long, and its connection ends if it goes on."""
    async with serving(body_timeout=0.5) as network:
        slow = [await Bare.open(network.place) for _ in range(SLOW)]
        dripping = asyncio.ensure_future(asyncio.gather(*map(drip, slow)))
        async with asyncio.timeout(30):
            assert {(await each.response())[0] for each in slow} == {408}
            # What they send on is not read as a request, and takes no more time than a head may.
            while network.server_state.connections:
                let_time_pass(network, LONG)
                await moment()
            await dripping


async def drip(bare):
    """Send a byte at a time until nobody takes it any more."""
    bare.send(request_bytes(b"", content_length="100000"))
    while not bare.writer.is_closing():
        bare.send(b" ")
        with contextlib.suppress(OSError):
            await bare.writer.drain()
        await moment()


HALF = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-"


@pytest.mark.parametrize(
    ("first", "sent"), [(b"", b""), (b"", HALF), (modern_call("echo", text="x"), HALF)], ids=["nothing", "half", "more"]
)
async def test_who_connects_and_sends_no_request_holds_up_nobody(first, sent):
    """Nothing, half a head, or half a head after a request: it is cut off."""
    async with serving() as network:
        slow = [await Bare.open(network.place) for _ in range(SLOW)]
        for each in slow:
            each.send(first)
            if first:
                assert (await each.response())[0] == 200
            each.send(sent)
        await until(lambda: len(network.server_state.connections) == SLOW)
        await is_served(f"http://{network.place}/mcp")
        assert len(network.server_state.connections) >= SLOW
        let_time_pass(network, LONG)
        await all_ended(slow)


async def test_a_connection_too_many_is_closed_and_the_others_are_served():
    """When one of them leaves, there is room again."""
    async with serving(max_connections=3) as network:
        url = f"http://{network.place}/mcp"
        idle = [await Bare.open(network.place) for _ in range(2)]
        await until(lambda: len(network.server_state.connections) == 2)
        await is_served(url)
        await until(lambda: len(network.server_state.connections) == 2)
        idle.append(await Bare.open(network.place))
        await until(lambda: len(network.server_state.connections) == 3)
        assert await (await Bare.open(network.place)).ended() == b""
        idle.pop().vanish()
        await until(lambda: len(network.server_state.connections) == 2)
        await is_served(url)
        for each in idle:
            each.vanish()


@pytest.mark.parametrize("start", [b"POST /mcp HTTP/1.1\r\nX-Long: ", b"GET /", b"POST /mcp HTTP/1.1\r\n"])
async def test_a_head_without_end_is_cut_off(start):
    """Whatever is endless in it."""
    async with serving() as network:
        bare = await Bare.open(network.place)
        bare.send(start)
        line = b"X-More: more\r\n" if start.endswith(b"\n") else b"a" * 1000
        with contextlib.suppress(OSError):
            for _ in range(100_000):
                bare.send(line)
                await bare.writer.drain()
        assert b"200" not in await bare.ended()
        await is_served(f"http://{network.place}/mcp")
