"""A protected server where one connection carries many messages, and behind middleware: it opens no more than else."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import asynccontextmanager

import aiohttp
import pytest

from antiphon import Client, Frame, OAuth
from antiphon.auth import Caller, TokenAnswer
from antiphon.errors import InsufficientScope, Unauthorized
from antiphon.transports.http.server.entrance import schedule_expiry
from antiphon.transports.queued import memory_pair
from tests.auth.server.protected import protected, shop
from tests.support.issuer import Issuer
from tests.support.network import INITIALIZE, INITIALIZED, call, until

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
            # In any order: what runs in a thread is answered when it has run.
            answers = {each["id"]: each for each in [await events.next() for _ in range(3)]}
            assert {id: "result" in each for id, each in answers.items()} == {1: False, 2: True, 3: False}
            assert answers[1]["error"] == {
                "code": 403,
                "message": "Insufficient scope: orders:read needed",
                "data": {"requiredScopes": [READ]},
            }
            assert (await post_to(server, place, server.issuer.token(sub="bob"), call("whoami"))).status == 404
            assert (await post_to(server, place, "nonsense", call("whoami"))).status == 401


class Ends:
    """Notes what is to be called when tokens end."""

    def __init__(self, monkeypatch, place):
        self.timers = []
        self.calls = []
        monkeypatch.setattr(f"antiphon.transports.{place}.schedule_expiry", self)

    def __call__(self, caller, expire):
        timer = schedule_expiry(caller, expire)
        self.timers.append(timer)
        self.calls.append(expire)
        return timer


async def test_an_event_stream_ends_with_its_newest_token(monkeypatch):
    """It lives as long as messages come with tokens that do, and an older one does not shorten that."""
    ends = Ends(monkeypatch, "sse.server.entrance")
    async with protected(transport="sse") as server:
        now = time.time()
        async with open_stream(server, server.issuer.token(exp=now + 600)) as (place, events):
            await post_to(server, place, server.issuer.token(exp=now + 900), INITIALIZE)
            assert "result" in await events.next()
            await post_to(server, place, server.issuer.token(exp=now + 700), INITIALIZED)
            assert [timer.cancelled() for timer in ends.timers] == [True, False, True]
            ends.calls[1]()
            assert [event async for event in events.rest()] == []


async def test_a_listening_stream_ends_with_its_token(monkeypatch):
    """What was opened with it does not go on when it has expired."""
    ends = Ends(monkeypatch, "http.server.post_exchange")
    async with protected() as server:
        bearer = {"authorization": f"Bearer {server.issuer.token()}"}
        params = {"notifications": {"toolsListChanged": True}}
        opened = asyncio.create_task(server.modern("subscriptions/listen", None, params, **bearer))
        await until(lambda: ends.calls)
        ends.calls[0]()
        answer = await opened
    assert answer.status == 200
    assert b"acknowledged" in answer.body


async def test_the_stream_of_a_session_ends_with_its_token(monkeypatch):
    """The one that a legacy client opens with GET."""
    ends = Ends(monkeypatch, "http.server.legacy_session")
    async with protected() as server:
        token = server.issuer.token()
        session = await server.session(token)
        headers = {**session, "authorization": f"Bearer {token}", "accept": "text/event-stream", "host": "localhost"}
        opened = asyncio.create_task(server.send("GET", server.url, headers))
        await until(lambda: ends.calls)
        ends.calls[0]()
        assert (await opened).status == 200
        assert (await server.legacy(session, token)).status == 200


async def test_a_web_socket_ends_with_its_token(monkeypatch):
    """With a code that says why, and without a token it is not opened."""
    ends = Ends(monkeypatch, "websocket.server.entrance")
    async with protected(transport="websocket") as server:
        url = server.url.replace("http", "ws", 1)
        async with aiohttp.ClientSession() as web:
            headers = {"authorization": f"Bearer {server.issuer.token()}"}
            async with web.ws_connect(url, headers=headers, protocols=["mcp"]) as socket:
                await until(lambda: ends.calls)
                ends.calls[0]()
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


# --- channels of one's own --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "allowed"),
    [
        ({}, True),
        ({"caller": Caller("ann", frozenset({READ}))}, True),
        ({"caller": Caller("ann")}, False),
        ({"principal": "ann"}, False),
        ({"headers": {}}, False),
    ],
    ids=["local", "wide", "narrow", "without scopes", "of a network"],
)
async def test_whoever_brings_a_channel_says_whose_it_is(given, allowed):
    """Only a client about whom nothing is said is local, and may all."""
    theirs, ours = memory_pair()
    serving = asyncio.create_task(shop().serve(ours, **given))
    answers = []
    for message in (INITIALIZE, INITIALIZED, call("orders", 7)):
        theirs.send(Frame(json.dumps(message).encode()))
        if "id" in message:
            answers += [json.loads(frame) for frame in await theirs.receive()]
    await theirs.close()
    await serving
    assert ("result" in answers[-1]) is allowed


@pytest.mark.parametrize("transport", ["http", "sse", "websocket"])
async def test_our_client_is_let_in_over_every_transport(transport):
    """By a function that gives a token, asked again where the first one was refused; never with another's."""
    async with protected(transport=transport) as server:
        given = []

        async def give():
            given.append("stale" if not given else server.issuer.token(scope=READ))
            return given[-1]

        url = server.url.replace("http", "ws", 1) if transport == "websocket" else server.url
        async with Client(url, auth=give) as client:
            assert "sub:ann" in (await client.call_tool("whoami")).content[0].text
            assert (await client.call_tool("orders")).content[0].text == "two"
        assert given[0] == "stale"
        assert len(given) >= 2
        with pytest.raises(Unauthorized, match=r"HTTP 401: the token given in auth= was refused") as caught:
            async with Client(url, auth="nonsense"):
                pass
        assert "nonsense" not in str(caught.value)
        with pytest.raises(Unauthorized, match=r"HTTP 401.*antiphon login URL"):
            async with Client(url):
                pass


@pytest.mark.parametrize("transport", ["http", "sse", "websocket"])
async def test_our_client_signs_in_over_every_transport(transport):
    """What opens a stream or a WebSocket signs in as a POST does; a POST that lacks a scope asks for it."""
    asked = []

    class Given:
        """A grant that gives what is asked for."""

        name, grant_type, needs_person = "given", "given", True

        async def obtain(self, wanted):
            asked.append(wanted.scopes)
            return TokenAnswer(access_token=issuer.token(scope=wanted.scope or "none"))

    async with Issuer().open() as issuer:
        issuer.metadata = {"token_endpoint": f"{issuer.url}/token", "code_challenge_methods_supported": ["S256"]}
        async with protected(issuer, transport=transport, metadata_url=f"{issuer.url}/resource") as server:
            described = {"resource": server.url, "authorization_servers": [issuer.url]}
            issuer.bodies["/resource"] = 200, json.dumps(described).encode()
            url = server.url.replace("http", "ws", 1) if transport == "websocket" else server.url
            async with Client(url, auth=OAuth(client_id="ours", grant=Given())) as client:
                if transport == "http":
                    assert (await client.call_tool("orders")).content[0].text == "two"
                else:
                    # No response with a status is left for it, so the caller learns what is missing.
                    with pytest.raises(InsufficientScope, match=READ):
                        await client.call_tool("orders")
    assert asked == ([(), (READ,)] if transport == "http" else [()])


@pytest.mark.parametrize("transport", ["http", "sse", "websocket"])
async def test_a_scope_that_is_missing_is_the_same_error_over_every_transport(transport):
    """Also if it is missing for the stream or the WebSocket itself."""
    async with protected(transport=transport, scopes=[READ]) as server:
        url = server.url.replace("http", "ws", 1) if transport == "websocket" else server.url
        with pytest.raises(InsufficientScope, match="HTTP 403"):
            async with Client(url, auth=server.issuer.token(scope="other")):
                pass
