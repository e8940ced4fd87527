"""Sessions that a server forgets, and servers that answer nothing usable: every call ends, and says how."""

from __future__ import annotations

import asyncio
import os

import pytest
from aiohttp import web

from antiphon import CallTimeout, Client, ConnectionClosed, PeerError, Server
from antiphon.errors import LocalProtocolError
from antiphon.server.serving.network import server_app
from antiphon.transports.http.client.error_replies import BROKEN, UNUSABLE, SessionGone
from antiphon.wire.tools import ToolAnnotations
from tests.support.asgi import running
from tests.support.web import event, result, serving, stream

LEGACY = ["2025-03-26", "2025-06-18", "2025-11-25"]
INFO = {"name": "web", "version": "1"}


class Shop:
    """A server that is replaced by another one, which knows nothing of the sessions before."""

    def __init__(self):
        self.ran = []
        self.waiting = asyncio.Semaphore(0)
        self.never = asyncio.Event()
        self.first, self.second = (server_app(self.make(which)._service, "http", {}) for which in (1, 2))
        self.current = self.first

    def make(self, which):
        server = Server("shop")

        async def work() -> str:
            """Wait for ever, if it is the first server."""
            self.ran.append(which)
            if which == 1:
                self.waiting.release()
                await self.never.wait()
            return f"by {which}"

        @server.tool
        def quick() -> str:
            """Do something at once."""
            self.ran.append("quick")
            return f"by {which}"

        @server.resource("shop://stock")
        async def stock() -> str:
            """Read the stock."""
            return await work()

        server.tool(work, name="pay")
        server.tool(work, name="look", annotations=ToolAnnotations(read_only_hint=True))
        server.tool(work, name="put", annotations=ToolAnnotations(idempotent_hint=True))
        return server

    async def __call__(self, scope, receive, send):
        await self.current(scope, receive, send)

    async def close(self):
        self.never.set()
        await self.first.close()
        await self.second.close()
        self.current = self.second


@pytest.mark.parametrize("revision", LEGACY)
async def test_calls_open_beside_one_that_finds_the_session_gone(revision):
    """What changes nothing, or says so, is made again in the new session; what may have been done is reported."""
    shop = Shop()
    async with running(shop) as place, Client(f"http://{place}/mcp", revision=revision) as client:
        await client.list_tools()
        reading = asyncio.ensure_future(client.read_resource("shop://stock"))
        calls = [asyncio.ensure_future(client.call_tool(name)) for name in ("look", "put", "pay")]
        for _ in range(4):
            await shop.waiting.acquire()
        shop.current = shop.second
        assert (await client.call_tool("quick")).text == "by 2"
        assert (await reading).contents[0].text == "by 2"
        assert [(await call).text for call in calls[:2]] == ["by 2", "by 2"]
        with pytest.raises(SessionGone, match="nobody knows whether a call that was open was carried out"):
            await calls[2]
        assert (await client.call_tool("pay")).text == "by 2"
        await shop.close()
    assert shop.ran.count("quick") == 1


@pytest.mark.parametrize("revision", LEGACY)
async def test_many_calls_that_find_the_session_gone_are_each_made_once(revision):
    """Each was refused with 404, so each can be made again, whatever its tool does; they share one new session."""
    shop = Shop()
    async with running(shop) as place, Client(f"http://{place}/mcp", revision=revision) as client:
        shop.current = shop.second
        done = await asyncio.gather(*(client.call_tool("quick") for _ in range(20)))
        assert {each.text for each in done} == {"by 2"}
        await shop.close()
    assert shop.ran == ["quick"] * 20


async def test_closing_ends_calls_and_opens_nothing_again():
    """Whoever closes the client does not want another session, though the call could be made again."""
    shop = Shop()
    async with running(shop) as place:
        client = Client(f"http://{place}/mcp", revision="2025-11-25")
        await client.connect()
        reading = asyncio.ensure_future(client.read_resource("shop://stock"))
        await shop.waiting.acquire()
        await client.close()
        with pytest.raises(ConnectionClosed):
            await reading
        with pytest.raises(LocalProtocolError, match="async with"):
            await client.read_resource("shop://stock")
        await shop.close()
    assert shop.ran == [1]


def answering(call):
    """Make a server that opens sessions and answers ``tools/call`` by ``call(request, seen)``."""

    async def answers(request, seen):
        if seen.method != "POST":
            return web.Response(status=405)
        if seen.body.get("method") == "initialize":
            said = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": INFO}
            return result(seen.body["id"], said)
        if seen.body.get("method") == "server/discover":
            said = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "serverInfo": INFO}
            return result(seen.body["id"], {"resultType": "complete", "ttlMs": 0, "cacheScope": "public", **said})
        if "id" not in seen.body:
            return web.Response(status=202)
        return await call(request, seen) if seen.body["method"] == "tools/call" else result(seen.body["id"])

    return answers


async def silent(request, seen):
    """Take the request, and say nothing."""
    await asyncio.Event().wait()


async def dripping(request, seen):
    """Show signs of life for ever, and never reply."""
    response = await stream(request)
    while True:
        await response.write(b": alive\n\n")
        await asyncio.sleep(0.01)


async def resetting(request, seen):
    """Cut the connection before a byte of an answer."""
    request.transport.abort()
    return web.Response()


async def mad(request, seen):
    """Send bytes that are no events."""
    return await stream(request, os.urandom(5000).replace(b"\n", b"\r"), b"\xff\xfe\0data\0: {\n\n\n", b"data")


async def mumbling(request, seen):
    """Send events that hold no messages."""
    nonsense = (b"data: {]\n\n", b"data: \xff\n\n", b'data: "x"\n\n', b"data: [[[[[[[[[[\n\n", b"data: 5\n\n")
    stranger = event({"jsonrpc": "2.0", "id": "somebody's", "result": {}})
    return await stream(request, *nonsense, stranger)


async def endless(request, seen):
    """Begin an event, and never end the line."""
    response = await stream(request, b"data: ")
    while not request.transport.is_closing():
        await response.write(b"x" * 1_000_000)
    return response


async def bare(request, seen):
    """Send a page."""
    return web.Response(text="<html>Welcome</html>", content_type="text/html")


async def beating(request, seen):
    """Send heartbeats that are JSON and no messages, and then reply."""
    reply = event({"jsonrpc": "2.0", "id": seen.body["id"], "result": {"content": []}})
    return await stream(request, b"data: {}\n\n", b"data: null\n\n", b'data: {"type":"ping"}\n\n', reply)


async def test_a_heartbeat_that_is_no_message_fails_no_call():
    """A stream can hold such events beside the reply, and only its end says that there is none."""
    async with serving(answering(beating)) as site, Client(site.url, revision="2025-11-25") as client:
        assert (await client.call_tool("pay")).content == []


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize(
    ("call", "code"), [(resetting, BROKEN), (mad, BROKEN), (mumbling, UNUSABLE), (endless, UNUSABLE), (bare, UNUSABLE)]
)
async def test_an_answer_that_is_none_is_an_error_at_once(revision, call, code):
    """A typed one, that names the address; and the client goes on."""
    async with serving(answering(call)) as site, Client(site.url, revision=revision) as client:
        async with asyncio.timeout(30):
            with pytest.raises(PeerError, match="http://127") as raised:
                await client.call_tool("pay")
            await client.ping()
    assert raised.value.code == code


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("call", [silent, dripping])
async def test_a_server_that_never_replies_has_until_the_deadline(revision, call):
    """Signs of life are no reply."""
    async with serving(answering(call)) as site, Client(site.url, revision=revision) as client:
        with pytest.raises(CallTimeout, match=r"within 0\.2 s"):
            await client.call_tool("pay", timeout=0.2)


@pytest.mark.parametrize("scheme", ["http", "ws"])
@pytest.mark.parametrize("resets", [False, True])
async def test_what_only_accepts_connections_opens_no_session(scheme, resets):
    """It says nothing, or hangs up: the client does not wait for longer than it was told to."""
    writers = []

    async def meet(reader, writer):
        writers.append(writer)
        if resets:
            writer.transport.abort()

    server = await asyncio.start_server(meet, "127.0.0.1", 0)
    place = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        async with asyncio.timeout(30):
            with pytest.raises((CallTimeout, PeerError, ConnectionClosed)) as raised:
                # Who hangs up is noticed at once: there the time is only a limit.
                await Client(f"{scheme}://{place}/mcp", timeout=25 if resets else 0.5).connect()
    finally:
        for writer in writers:
            writer.transport.abort()
        server.close()
        await server.wait_closed()
    assert isinstance(raised.value, CallTimeout) is not resets
    if resets and scheme == "http":
        assert raised.value.code == BROKEN
