"""WebSocket, the client's side."""

from __future__ import annotations

import asyncio
import json

import pytest
from aiohttp import WSMsgType, web

from antiphon.channel import Frame
from antiphon.errors import ConfigError, ConnectionClosed
from antiphon.transports.http.client.error_replies import Dial
from antiphon.transports.websocket.client import WebSocketClientChannel
from tests.support.web import ask, receive, serving


class Echo:
    """Sends everything back; keeps what it saw."""

    def __init__(self):
        self.got = []
        self.socket = None
        self.closed = asyncio.Event()

    async def __call__(self, request, seen):
        self.socket = web.WebSocketResponse(protocols=("mcp",), max_msg_size=0)
        await self.socket.prepare(request)
        async for message in self.socket:
            self.got.append((message.type, message.data))
            if message.data == '"close"':
                await self.socket.close(code=1001)
            else:
                await self.socket.send_str(message.data)
        self.closed.set()
        return self.socket


def ws(site):
    """The address of the site for a WebSocket."""
    return site.url.replace("http", "ws", 1)


async def test_frames_travel_as_text_in_order():
    """The subprotocol is asked for, headers go along."""
    echo = Echo()
    async with serving(echo) as site:
        channel = await WebSocketClientChannel.open(Dial(url=ws(site), headers={"X-Key": "k"}))
        for id in range(20):
            channel.send(ask(id))
        assert [each["id"] for each in await receive(channel, 20)] == list(range(20))
        await channel.close()
        await echo.closed.wait()
    assert {kind for kind, _ in echo.got} == {WSMsgType.TEXT}
    assert site.seen[0].headers["Sec-WebSocket-Protocol"] == "mcp"
    assert site.seen[0].headers["X-Key"] == "k"


async def test_what_is_queued_goes_out_before_the_end():
    """Closing writes first."""
    echo = Echo()
    async with serving(echo) as site:
        channel = await WebSocketClientChannel.open(Dial(url=ws(site)))
        for id in range(5):
            channel.send(ask(id))
        await channel.close()
        await echo.closed.wait()
    assert [json.loads(data)["id"] for _, data in echo.got] == list(range(5))


async def test_a_slow_peer_makes_the_sender_wait():
    """And lets it go on when it has read."""
    echo = Echo()
    async with serving(echo) as site:
        channel = await WebSocketClientChannel.open(Dial(url=ws(site)))
        assert channel.send(Frame(b'"x"')) is None
        wait = channel.send(Frame(b'"' + b"y" * 300_000 + b'"'))
        assert wait is not None
        await wait
        assert len(await receive(channel, 2)) == 2
        await channel.close()


async def test_the_end_is_said():
    """With its code; sending after it is silent."""
    async with serving(Echo()) as site:
        channel = await WebSocketClientChannel.open(Dial(url=ws(site)))
        channel.send(Frame(b'"close"'))
        assert await channel.receive() == []
        assert "1001" in str(channel.closed_error())
        assert channel.send(ask(1)) is None
        await channel.close()


async def test_a_connection_that_is_cut_is_the_end():
    """Without a word of the server's."""

    async def answers(request, seen):
        socket = web.WebSocketResponse(protocols=("mcp",))
        await socket.prepare(request)
        await socket.receive()
        request.transport.abort()
        return socket

    async with serving(answers) as site:
        channel = await WebSocketClientChannel.open(Dial(url=ws(site)))
        channel.send(ask(1))
        assert await channel.receive() == []
        assert ws(site) in str(channel.closed_error())
        await channel.close()


async def test_a_message_over_the_limit_ends_the_channel():
    """It cannot be skipped: the socket is closed."""
    async with serving(Echo()) as site:
        channel = await WebSocketClientChannel.open(Dial(url=ws(site), max_frame=1000))
        channel.send(Frame(b'"' + b"y" * 2000 + b'"'))
        assert await channel.receive() == []
        assert "larger than the limit" in str(channel.closed_error())
        await channel.close()


async def test_a_server_without_websocket_is_said():
    """With the status it gave."""

    async def answers(request, seen):
        return web.Response(status=404)

    async with serving(answers) as site:
        with pytest.raises(ConnectionClosed, match="404"):
            await WebSocketClientChannel.open(Dial(url=ws(site)))


async def test_a_redirect_to_another_origin_is_not_followed():
    """Headers may be secrets."""

    async def answers(request, seen):
        return web.Response(status=307, headers={"Location": "http://localhost:1/"})

    async with serving(answers) as site:
        with pytest.raises(ConnectionClosed, match="another origin"):
            await WebSocketClientChannel.open(Dial(url=ws(site)))


async def test_an_unreachable_server_is_said():
    """Without a traceback of the library's."""
    async with serving(None) as site:
        pass
    with pytest.raises(ConnectionClosed, match="cannot open a WebSocket"):
        await WebSocketClientChannel.open(Dial(url=ws(site)))


@pytest.mark.parametrize(("url", "headers"), [("http://x", {}), ("ws://x", {"a b": "c"})])
async def test_what_cannot_be_used_is_refused(url, headers):
    """Before anything is opened."""
    with pytest.raises(ConfigError):
        await WebSocketClientChannel.open(Dial(url=url, headers=headers))


async def test_closing_twice_ends_receiving():
    """From any task."""
    async with serving(Echo()) as site:
        channel = await WebSocketClientChannel.open(Dial(url=ws(site)))
        receiving = asyncio.create_task(channel.receive())
        await asyncio.sleep(0)
        await asyncio.gather(channel.close(), channel.close())
        assert await receiving == []
