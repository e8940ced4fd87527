"""HTTP+SSE, the client's side: one stream in, posts out."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from antiphon import Client
from antiphon.errors import ConfigError, ConnectionClosed, RemoteProtocolError
from antiphon.transports.http.client.error_replies import Dial
from antiphon.transports.sse.client import SseClientChannel
from tests.support.web import ask, event, receive, serving, stream, tell


def raw(name, data):
    """An event whose data is no JSON."""
    return f"event: {name}\ndata: {data}\n\n".encode()


class Old:
    """A server of 2024-11-05 that answers every request on the stream."""

    def __init__(self, endpoint="/messages?s=1", post=None):
        self.endpoint = endpoint
        self.post = post
        self.request = None
        self.response = None
        self.end = asyncio.Event()

    async def __call__(self, request, seen):
        if seen.method == "GET":
            self.request = request
            self.response = await stream(request, raw("endpoint", self.endpoint))
            await self.end.wait()
            return self.response
        if self.post is not None:
            return await self.post(request, seen)
        if "id" in seen.body:
            await self.response.write(event({"jsonrpc": "2.0", "id": seen.body["id"], "result": {}}, name="message"))
        return web.Response(status=202, text="Accepted")


async def test_the_stream_names_where_to_post_and_brings_the_reply():
    """A relative address counts from the stream's; headers go with both."""
    async with serving(Old("messages?s=1")) as site:
        channel = await SseClientChannel.open(Dial(url=site.url, headers={"X-Key": "k"}))
        channel.send(ask(1))
        assert (await receive(channel))[0] == {"jsonrpc": "2.0", "id": 1, "result": {}}
        await channel.send(tell("notifications/initialized"))
        await channel.close()
    assert [(seen.method, seen.path) for seen in site.seen] == [
        ("GET", "/mcp"),
        ("POST", "/messages"),
        ("POST", "/messages"),
    ]
    assert {seen.headers["X-Key"] for seen in site.seen} == {"k"}


@pytest.mark.parametrize("endpoint", ["http://example.com/messages", "//other/messages", "https://127.0.0.1/m"])
async def test_an_endpoint_of_another_origin_is_refused(endpoint):
    """Our messages and headers are meant for this server alone."""

    async def refuse(request, seen):
        return web.Response(status=405)

    async with serving(Old(endpoint, post=refuse)) as site:
        with pytest.raises(RemoteProtocolError, match="another origin"):
            await SseClientChannel.open(Dial(url=site.url))
        with pytest.raises(RemoteProtocolError, match="another origin"):
            # A client that tries Streamable HTTP first says this, too, and not what that was refused with.
            await Client(site.url).connect()


@pytest.mark.parametrize("status", [404, 405, 200])
async def test_what_is_no_event_stream_is_said(status):
    """The ladder ends here: the message says what came instead."""

    async def answers(request, seen):
        return web.Response(status=status, text="nothing here")

    async with serving(answers) as site:
        with pytest.raises(ConnectionClosed, match=f"HTTP {status}"):
            await SseClientChannel.open(Dial(url=site.url))


async def test_a_stream_that_ends_without_an_endpoint_is_said():
    """No address, no channel."""

    async def answers(request, seen):
        return await stream(request, event({"hello": 1}))

    async with serving(answers) as site:
        with pytest.raises(ConnectionClosed, match="without naming an endpoint"):
            await SseClientChannel.open(Dial(url=site.url))


async def test_the_end_of_the_stream_is_the_end_of_the_channel():
    """There is nothing to resume in that revision; what came before is received."""
    old = Old()
    async with serving(old) as site:
        channel = await SseClientChannel.open(Dial(url=site.url))
        await old.response.write(event({"last": 1}))
        old.end.set()
        assert await receive(channel) == [{"last": 1}]
        assert await channel.receive() == []
        assert "ended its event stream" in str(channel.closed_error())
        assert channel.send(ask(1)) is None
        await channel.close()


async def test_a_stream_that_is_cut_is_the_end_of_the_channel():
    """What had not come whole is lost."""
    old = Old()

    async with serving(old) as site:
        channel = await SseClientChannel.open(Dial(url=site.url))
        await old.response.write(event({"first": 1}) + b'data: {"half":')
        assert await receive(channel) == [{"first": 1}]
        old.request.transport.abort()
        assert await channel.receive() == []
        assert site.url in str(channel.closed_error())
        await channel.close()


async def test_an_event_that_never_ends_is_the_end_of_the_channel():
    """It is not held for ever; the reason says whose it was."""
    old = Old()
    async with serving(old) as site:
        channel = await SseClientChannel.open(Dial(url=site.url, max_frame=1000))
        await old.response.write(b"data: " + b"x" * 100_000)
        assert await channel.receive() == []
        assert site.url in str(channel.closed_error())
        assert "larger than" in str(channel.closed_error())
        await channel.close()


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [(500, "boom", 500), (400, '{"jsonrpc":"2.0","error":{"code":-32600,"message":"m"},"id":null}', -32600)],
)
async def test_a_refused_post_is_the_reply_to_its_request(status, body, code):
    """The caller is told at once."""

    async def post(request, seen):
        return web.Response(status=status, text=body)

    async with serving(Old(post=post)) as site:
        channel = await SseClientChannel.open(Dial(url=site.url))
        channel.send(ask(3))
        (reply,) = await receive(channel)
        assert (reply["id"], reply["error"]["code"]) == (3, code)
        await channel.close()


async def test_closing_from_anywhere_leaves_nothing():
    """Twice, while receiving."""
    async with serving(Old()) as site:
        channel = await SseClientChannel.open(Dial(url=site.url))
        receiving = asyncio.create_task(channel.receive())
        await asyncio.sleep(0)
        await asyncio.gather(channel.close(), channel.close())
        assert await receiving == []
        assert "this side" in str(channel.closed_error())


async def test_an_address_that_is_none_is_refused():
    """As over Streamable HTTP."""
    with pytest.raises(ConfigError):
        await SseClientChannel.open(Dial(url="ws://x/sse"))
