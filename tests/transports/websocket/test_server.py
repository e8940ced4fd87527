"""WebSocket, the server's side, behind uvicorn and met by our own client."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from antiphon.channel import Frame, Oversized
from antiphon.errors import ConnectionClosed, Unauthorized
from antiphon.transports.http.client.error_replies import Dial
from antiphon.transports.websocket.client import WebSocketClientChannel
from antiphon.transports.websocket.server import WebSocketApp
from tests.support.asgi import running


class Echo:
    """Sends back what comes, and keeps what it was told of the client."""

    def __init__(self):
        self.met = []
        self.ended = asyncio.Event()
        self.why = ""

    async def __call__(self, channel, caller, headers):
        self.met.append((caller, headers))
        while frames := await channel.receive():
            for frame in frames:
                channel.send(Frame(b"too large" if isinstance(frame, Oversized) else frame))
        self.why = str(channel.closed_error())
        self.ended.set()


async def test_frames_travel_both_ways_in_order():
    """And the headers of the handshake are known."""
    echo = Echo()
    async with running(WebSocketApp(echo)) as host:
        channel = await WebSocketClientChannel.open(Dial(url=f"ws://{host}/ws", headers={"X-Key": "k"}))
        sent = [b'"%d"' % n for n in range(50)]
        for data in sent:
            channel.send(Frame(data))
        got = []
        while len(got) < len(sent):
            got += await channel.receive()
        assert got == sent
        await channel.close()
        await echo.ended.wait()
    assert echo.met[0][0] is None
    assert echo.met[0][1]["x-key"] == "k"
    assert "client closed" in echo.why


async def test_a_frame_over_the_limit_is_reported_and_the_next_is_fine():
    """The session goes on."""
    async with running(WebSocketApp(Echo(), max_frame=10)) as host:
        channel = await WebSocketClientChannel.open(Dial(url=f"ws://{host}/ws"))
        channel.send(Frame(b'"longer than that"'))
        channel.send(Frame(b'"short"'))
        got = []
        while len(got) < 2:
            got += await channel.receive()
        assert got == [b"too large", b'"short"']
        await channel.close()


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/ws", {"Origin": "https://evil.example"}, "403"),
        ("/ws", {"Host": "evil.example"}, "403"),
        ("/other", {}, "403"),
        ("/ws", {"Authorization": "Bearer wrong"}, "401"),
        ("/ws", {}, "401"),
    ],
)
async def test_whoever_may_not_come_in_meets_no_handler(path, headers, status):
    """Foreign page, foreign name, wrong path, wrong token, no token."""
    echo = Echo()
    right = {} if "Authorization" in headers or (path, headers) == ("/ws", {}) else {"Authorization": "Bearer t"}
    app = WebSocketApp(echo, check_token=lambda token: "me" if token == "t" else None)
    async with running(app) as host:
        with pytest.raises(Unauthorized if status == "401" else ConnectionClosed, match=status):
            await WebSocketClientChannel.open(Dial(url=f"ws://{host}{path}", headers={**headers, **right}))
    assert echo.met == []


async def test_a_token_gives_the_principal():
    """As its hook says."""
    echo = Echo()
    async with running(WebSocketApp(echo, check_token=lambda token: f"user of {token}")) as host:
        channel = await WebSocketClientChannel.open(Dial(url=f"ws://{host}/ws", headers={"Authorization": "Bearer t"}))
        await channel.close()
        await echo.ended.wait()
    assert echo.met[0][0].principal == "user of t"


async def test_another_subprotocol_is_refused():
    """Whoever speaks something else is told before anything is said."""
    async with running(WebSocketApp(Echo())) as host, aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await session.ws_connect(f"ws://{host}/ws", protocols=("graphql-ws",))


async def test_the_subprotocol_is_confirmed():
    """RFC 6455, section 4.2.2."""
    async with running(WebSocketApp(Echo())) as host, aiohttp.ClientSession() as session:
        socket = await session.ws_connect(f"ws://{host}/ws", protocols=("mcp",))
        assert socket.protocol == "mcp"
        await socket.close()


async def test_a_plain_request_is_told_to_upgrade():
    """426, not a hang."""
    async with running(WebSocketApp(Echo())) as host, aiohttp.ClientSession() as session:
        response = await session.get(f"http://{host}/ws")
        assert response.status == 426
        await response.read()


async def test_the_number_of_sockets_is_bounded():
    """One more is refused; when one leaves, there is room."""
    echo = Echo()
    async with running(WebSocketApp(echo, max_open=1)) as host:
        first = await WebSocketClientChannel.open(Dial(url=f"ws://{host}/ws"))
        with pytest.raises(ConnectionClosed, match="403"):
            await WebSocketClientChannel.open(Dial(url=f"ws://{host}/ws"))
        await first.close()
        await echo.ended.wait()


async def test_closing_says_goodbye_after_the_last_frame():
    """What was sent arrives; the client sees the code of a server that leaves."""

    async def farewell(channel, principal, headers):
        channel.send(Frame(b'"bye"'))

    async with running(WebSocketApp(farewell)) as host:
        channel = await WebSocketClientChannel.open(Dial(url=f"ws://{host}/ws"))
        assert await channel.receive() == [b'"bye"']
        assert await channel.receive() == []
        assert "1001" in str(channel.closed_error())
        await channel.close()


async def test_a_failing_server_closes_the_socket(caplog):
    """The log has the reason, the client does not."""

    async def fail(channel, principal, headers):
        raise RuntimeError("secret")

    async with running(WebSocketApp(fail)) as host:
        channel = await WebSocketClientChannel.open(Dial(url=f"ws://{host}/ws"))
        assert await channel.receive() == []
        assert "secret" not in str(channel.closed_error())
        await channel.close()
    assert "secret" in caplog.text


async def test_ending_the_application_ends_its_sockets():
    """As the lifespan does at shutdown."""
    echo = Echo()
    app = WebSocketApp(echo)
    async with running(app) as host:
        channel = await WebSocketClientChannel.open(Dial(url=f"ws://{host}/ws"))
        channel.send(Frame(b"1"))
        await channel.receive()
        await app.close()
        assert await channel.receive() == []
        with pytest.raises(ConnectionClosed):
            await WebSocketClientChannel.open(Dial(url=f"ws://{host}/ws"))
        await channel.close()
    assert "this side" in echo.why
