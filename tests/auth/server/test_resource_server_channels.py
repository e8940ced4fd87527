"""A protected server where one connection carries many messages, and behind middleware: it opens no more than else."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import asynccontextmanager

import aiohttp
import pytest

from tests.auth.server.protected import protected, shop
from tests.support.network import INITIALIZE, call

READ = "orders:read"


async def test_each_message_of_an_event_stream_goes_by_its_own_token():
    """A wider one opens what that of the stream did not; one of somebody else finds no session."""
    async with protected(transport="sse") as server:
        narrow, wide = server.issuer.token(), server.issuer.token(scope=READ)
        async with open_stream(server, narrow) as (place, events):
            await post_to(server, place, narrow, INITIALIZE)
            await events.next()
            for id, token in ((1, narrow), (2, wide), (3, narrow)):
                assert (await post_to(server, place, token, call("orders", id))).status == 202
            answers = [await events.next() for _ in range(3)]
            assert [("result" in each, each["id"]) for each in answers] == [(False, 1), (True, 2), (False, 3)]
            assert answers[0]["error"] == {
                "code": 403,
                "message": "Insufficient scope",
                "data": {"requiredScopes": [READ]},
            }
            assert (await post_to(server, place, server.issuer.token(sub="bob"), call("whoami"))).status == 404
            assert (await post_to(server, place, "nonsense", call("whoami"))).status == 401


async def test_an_event_stream_ends_with_its_newest_token():
    """It lives as long as messages come with tokens that do, and no longer."""
    async with protected(transport="sse", leeway=0) as server:
        now = time.time()
        async with open_stream(server, server.issuer.token(exp=now + 1.2)) as (place, events):
            await post_to(server, place, server.issuer.token(exp=now + 2.2), INITIALIZE)
            assert "result" in await events.next()
            async with asyncio.timeout(30):
                assert [event async for event in events.rest()] == []
            assert time.time() >= now + 2.1


async def test_a_web_socket_ends_with_its_token():
    """With a code that says why, and without a token it is not opened."""
    async with protected(transport="websocket", leeway=0) as server:
        url = server.url.replace("http", "ws", 1)
        async with aiohttp.ClientSession() as web:
            headers = {"authorization": f"Bearer {server.issuer.token(exp=time.time() + 1.2)}"}
            async with web.ws_connect(url, headers=headers, protocols=["mcp"]) as socket, asyncio.timeout(30):
                assert (await socket.receive()).type == aiohttp.WSMsgType.CLOSE
                assert socket.close_code == 3000
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await web.ws_connect(url)
    assert refused.value.status == 401
    assert "resource_metadata=" in refused.value.headers["www-authenticate"]


class Events:
    """The messages of an event stream, one after the other."""

    def __init__(self, response):
        self._lines = response.content

    async def text(self):
        """Return the data of the next event; nothing at the end."""
        async for line in self._lines:
            if line.startswith(b"data: "):
                return line[6:].decode().strip()
        return ""

    async def next(self):
        """Return the next message."""
        return json.loads(await self.text())

    async def rest(self):
        """Yield all that comes until the stream ends."""
        while text := await self.text():
            yield text


@asynccontextmanager
async def open_stream(server, token):
    """Open an event stream; yield the address to post to, and its messages."""
    headers = {"authorization": f"Bearer {token}", "accept": "text/event-stream", "host": "localhost"}
    async with aiohttp.ClientSession() as web, web.get(server.url, headers=headers) as response:
        assert response.status == 200
        events = Events(response)
        yield server.origin + await events.text(), events


async def post_to(server, place, token, message):
    """Post a message of an event stream's client."""
    headers = {"content-type": "application/json", "host": "localhost", "authorization": f"Bearer {token}"}
    return await server.send("POST", place, headers, message)


# --- with middleware --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_middleware_opens_nothing(revision):
    """What a token does not allow is refused behind it as before it, also under another name."""
    server = shop()

    @server.middleware
    async def rename(request, call_next):
        if getattr(request.params, "name", None) == "whoami":
            request = request.replace(name="orders")
        return await call_next(request)

    async with protected(server=server) as target:
        narrow, wide = target.issuer.token(), target.issuer.token(scope=READ)
        if revision == "2026-07-28":
            answers = [await target.tool(name, token) for token in (narrow, wide) for name in ("orders", "whoami")]
        else:
            session = await target.session(narrow)
            answers = [
                await target.legacy(session, token, name) for token in (narrow, wide) for name in ("orders", "whoami")
            ]
    assert [answer.status for answer in answers] == [403, 403, 200, 200]
    assert answers[1].challenge[1]["scope"] == READ
    assert answers[3].text == "two"
