"""Streamable HTTP from end to end: a real server behind uvicorn, and a client that writes its requests itself."""

from __future__ import annotations

import asyncio
import contextlib
import json

import aiohttp
import pytest
import uvicorn

from antiphon import Client, Context, Server
from antiphon.protocol.http.sse import EventParser
from antiphon.transports.http.server.app import HttpApp

ACCEPT = {"accept": "application/json, text/event-stream"}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"sampling": {}},
}


def make_server():
    """Make a server with a few tools."""
    server = Server("catalogue", version="1")

    @server.tool
    def echo(text: str) -> str:
        """Say it again."""
        return text

    @server.tool
    async def count(ctx: Context, to: int) -> str:
        """Count, and tell."""
        for number in range(to):
            await ctx.progress(number + 1, to)
        return "done"

    @server.tool
    async def ask(question: str, ctx: Context) -> str:
        """Ask the client's model."""
        return (await ctx.sample(question, max_tokens=10)).text

    return server


class Endpoint:
    """A server's address, and a client for it."""

    def __init__(self, server, app, url, http):
        self.server = server
        self.app = app
        self.url = url
        self.http = http

    @contextlib.asynccontextmanager
    async def open(self, message, **headers):
        """Post a message and give the response as soon as it begins."""
        sent = {**ACCEPT, **{name.replace("_", "-"): value for name, value in headers.items()}}
        async with asyncio.timeout(30), self.http.post(self.url, json=message, headers=sent) as response:
            yield response

    async def post(self, message, **headers):
        """Post a message; return the status and the messages of the response."""
        async with self.open(message, **headers) as response:
            return response.status, messages(response, await response.read())

    async def modern(self, method, name, id=1, **params):
        """Send a modern request."""
        message = {"jsonrpc": "2.0", "id": id, "method": method, "params": {"name": name, "_meta": META, **params}}
        return await self.post(message, mcp_protocol_version="2026-07-28", mcp_method=method, mcp_name=name)

    async def initialize(self, version="2025-11-25"):
        """Open a session; return the headers that name it."""
        params = {"protocolVersion": version, "capabilities": {"sampling": {}}, "clientInfo": CLIENT}
        async with self.open(request(0, "initialize", **params)) as response:
            session = {"mcp_session_id": response.headers["mcp-session-id"], "mcp_protocol_version": version}
        await self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, **session)
        return session


CLIENT = {"name": "test", "version": "1"}


def request(id, method, **params):
    """Make a request."""
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def messages(response, body):
    """Return the messages of a response, of either kind."""
    if response.content_type == "text/event-stream":
        return [json.loads(event.data) for event in EventParser().feed(body) if event.data]
    return [json.loads(body)] if body else []


@contextlib.asynccontextmanager
async def serving(app):
    """Run uvicorn on a free port of the loopback interface."""
    config = uvicorn.Config(app, port=0, log_level="warning", loop="none", lifespan="off", timeout_graceful_shutdown=2)
    # A connection may rest for longer than uvicorn's five seconds on a busy machine, and would be closed just as a
    # request is written to it.
    config.timeout_keep_alive = 600
    server = uvicorn.Server(config)
    running = asyncio.ensure_future(server.serve())
    while not server.started:
        await asyncio.wait([running], timeout=0.01)
        assert not running.done()
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        await app.close()
        server.should_exit = True
        await running


@pytest.fixture
async def endpoint():
    """Serve a real server over HTTP."""
    server = make_server()

    def connect(channel, principal, headers, modern):
        peer = server._service.connect(channel)
        peer.principal, peer.headers = principal, headers
        return peer

    app = HttpApp(connect)
    async with server._service.serving(), serving(app) as url, aiohttp.ClientSession() as http:
        yield Endpoint(server, app, url, http)


async def test_a_legacy_session(endpoint):
    """Handshake, calls, end."""
    session = await endpoint.initialize()
    status, replies = await endpoint.post(request(1, "tools/call", name="echo", arguments={"text": "hi"}), **session)
    assert (status, replies[0]["result"]["content"][0]["text"]) == (200, "hi")
    headers = {"mcp-session-id": session["mcp_session_id"]}
    async with endpoint.http.delete(endpoint.url, headers=headers) as response:
        assert response.status == 204
    assert (await endpoint.post(request(2, "ping"), **session))[0] == 404


async def test_modern_calls(endpoint):
    """No handshake, no session."""
    status, replies = await endpoint.modern("tools/call", "echo", arguments={"text": "hi"})
    assert (status, replies[0]["result"]["content"][0]["text"]) == (200, "hi")
    status, replies = await endpoint.modern("tools/call", "count", arguments={"to": 0})
    assert (status, replies[0]["result"]["resultType"]) == (200, "complete")


@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18", "2025-11-25"])
async def test_progress_comes_before_the_reply(endpoint, version):
    """On the stream of the call."""
    session = await endpoint.initialize(version)
    params = {"name": "count", "arguments": {"to": 3}, "_meta": {"progressToken": "p"}}
    _, replies = await endpoint.post(request(1, "tools/call", **params), **session)
    assert [each.get("params", {}).get("progress") for each in replies] == [1, 2, 3, None]
    assert replies[-1]["result"]["content"][0]["text"] == "done"


async def test_a_legacy_ask_is_answered_in_a_post_of_its_own(endpoint):
    """While the call's stream is open."""
    session = await endpoint.initialize()
    parser = EventParser()
    async with endpoint.open(request(1, "tools/call", name="ask", arguments={"question": "?"}), **session) as response:
        async for chunk in response.content.iter_any():
            for event in parser.feed(chunk):
                message = json.loads(event.data or b"{}")
                if message.get("method") == "sampling/createMessage":
                    answer = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "42"}}
                    await endpoint.post({"jsonrpc": "2.0", "id": message["id"], "result": answer}, **session)
    assert message["result"]["content"][0]["text"] == "42"


async def test_a_modern_ask_is_a_round(endpoint):
    """The answer comes with the retry, which any peer may serve."""
    _, replies = await endpoint.modern("tools/call", "ask", arguments={"question": "?"})
    result = replies[0]["result"]
    assert result["resultType"] == "input_required"
    key = next(iter(result["inputRequests"]))
    answer = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "42"}}
    more = {"inputResponses": {key: answer}, "requestState": result["requestState"]}
    _, replies = await endpoint.modern("tools/call", "ask", id=2, arguments={"question": "?"}, **more)
    assert replies[0]["result"]["content"][0]["text"] == "42"


@pytest.mark.parametrize("method", ["initialize", "ping", "logging/setLevel", "no/such"])
async def test_a_method_that_is_not_modern_is_404(endpoint, method):
    """With -32601."""
    status, replies = await endpoint.modern(method, "x")
    assert (status, replies[0]["error"]["code"]) == (404, -32601)


async def test_an_unknown_modern_version_is_400(endpoint):
    """With those that are spoken."""
    meta = {**META, "io.modelcontextprotocol/protocolVersion": "v999.0.0"}
    message = request(1, "tools/list", _meta=meta)
    status, replies = await endpoint.post(message, mcp_protocol_version="v999.0.0", mcp_method="tools/list")
    assert (status, replies[0]["error"]["code"], replies[0]["error"]["data"]["requested"]) == (400, -32022, "v999.0.0")


async def test_a_hundred_at_once(endpoint):
    """Each has its own answer, in both eras."""
    session = await endpoint.initialize()
    legacy = (
        endpoint.post(request(id, "tools/call", name="echo", arguments={"text": str(id)}), **session)
        for id in range(1, 51)
    )
    modern = (endpoint.modern("tools/call", "echo", id, arguments={"text": str(id)}) for id in range(1, 51))
    answers = await asyncio.gather(*legacy, *modern)
    texts = [replies[0]["result"]["content"][0]["text"] for _, replies in answers]
    assert texts == [str(id) for id in range(1, 51)] * 2


async def test_a_session_that_is_left_open_does_not_hold_up_the_end(endpoint):
    """A GET stream and its session end with the server."""
    session = await endpoint.initialize()
    headers = {"accept": "text/event-stream", "mcp-session-id": session["mcp_session_id"]}
    async with endpoint.http.get(endpoint.url, headers=headers) as response:
        assert response.status == 200
        await endpoint.app.close()
        assert b"id: 0-0" in await response.read()


@pytest.mark.parametrize("cut", [1, 2, 3, 4])
async def test_a_call_that_is_cut_is_resumed_without_loss(endpoint, cut):
    """At every message boundary, with nothing missing and nothing twice."""
    session = await endpoint.initialize()
    params = {"name": "count", "arguments": {"to": 3}, "_meta": {"progressToken": "p"}}
    parser, got = EventParser(), []
    async with endpoint.open(request(1, "tools/call", **params), **session) as response:
        while len(got) < cut:
            got += parser.feed(await response.content.readany())
        response.close()
    del got[cut:]
    headers = {"accept": "text/event-stream", "mcp-session-id": session["mcp_session_id"], "last-event-id": got[-1].id}
    async with endpoint.http.get(endpoint.url, headers=headers) as response:
        got += EventParser().feed(await response.read())
    told = [json.loads(event.data) for event in got if event.data]
    assert [each.get("params", {}).get("progress") for each in told] == [1, 2, 3, None]
    assert [event.id for event in got if event.data] == [f"1-{number}" for number in range(1, 5)]


async def test_a_handler_may_close_the_stream_of_its_call(endpoint):
    """The response ends without a result; the client comes back, and loses nothing."""
    proceed = asyncio.Event()

    @endpoint.server.tool
    async def slow(ctx: Context) -> str:
        """Let the client go, and work on."""
        ctx.close_stream()
        await proceed.wait()
        return "done"

    session = await endpoint.initialize()
    async with endpoint.open(request(1, "tools/call", name="slow"), **session) as response:
        (priming,) = EventParser().feed(await response.read())
    proceed.set()
    headers = {"accept": "text/event-stream", "mcp-session-id": session["mcp_session_id"], "last-event-id": priming.id}
    async with endpoint.http.get(endpoint.url, headers=headers) as response:
        *_, event = EventParser().feed(await response.read())
    assert json.loads(event.data)["result"]["content"][0]["text"] == "done"


async def test_closing_the_stream_does_nothing_where_it_would_end_the_call():
    """As in memory, and at 2026-07-28."""
    server = make_server()

    @server.tool
    async def slow(ctx: Context) -> str:
        """Want to let the client go."""
        ctx.close_stream()
        return "done"

    async with Client(server) as client:
        assert (await client.call_tool("slow")).text == "done"


class Endless:
    """Tools that never end by themselves: one that can ask, and one that cannot."""

    def __init__(self, server):
        self.started, self.cancelled = asyncio.Event(), asyncio.Event()

        @server.tool
        async def with_context(ctx: Context) -> str:
            """Wait for the end."""
            return await self.wait()

        @server.tool
        async def without() -> str:
            """Wait for the end."""
            return await self.wait()

    async def wait(self):
        self.started.set()
        try:
            return await asyncio.Event().wait()
        finally:
            self.cancelled.set()


both = pytest.mark.parametrize("tool", ["with_context", "without"])


@both
async def test_a_modern_client_that_leaves_cancels_the_handler(endpoint, tool):
    """Its work ends; the server goes on."""
    endless = Endless(endpoint.server)
    calling = asyncio.ensure_future(endpoint.modern("tools/call", tool, arguments={}))
    async with asyncio.timeout(30):
        await endless.started.wait()
        calling.cancel()
        await endless.cancelled.wait()
    assert (await endpoint.modern("tools/call", "echo", arguments={"text": "hi"}))[0] == 200


@both
async def test_a_legacy_call_is_cancelled_by_a_notification(endpoint, tool):
    """Its POST gets a response all the same."""
    endless = Endless(endpoint.server)
    session = await endpoint.initialize()
    calling = asyncio.ensure_future(endpoint.post(request(9, "tools/call", name=tool, arguments={}), **session))
    async with asyncio.timeout(30):
        await endless.started.wait()
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}}
        assert (await endpoint.post(cancel, **session))[0] == 202
        assert await calling == (202, [])
    assert endless.cancelled.is_set()


@both
async def test_closing_ends_calls_that_do_not_end(endpoint, tool):
    """In either era; their clients get a response."""
    endless = Endless(endpoint.server)
    calling = asyncio.ensure_future(endpoint.modern("tools/call", tool, arguments={}))
    async with asyncio.timeout(30):
        await endless.started.wait()
        await endpoint.app.close()
        assert (await calling)[0] == 503
