"""HTTP+SSE, the server's side, behind uvicorn and met by our own client."""

from __future__ import annotations

import asyncio

import aiohttp
import msgspec
import pytest

from antiphon.channel import Frame
from antiphon.errors import ConnectionClosed
from antiphon.transports.http.client.error_replies import Dial
from antiphon.transports.sse.client import SseClientChannel
from antiphon.transports.sse.server import SseApp
from tests.support.asgi import running
from tests.support.web import ask, receive

JSON = {"Content-Type": "application/json"}


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
                channel.send(Frame(frame))
        self.why = str(channel.closed_error())
        self.ended.set()


async def test_what_is_posted_is_answered_on_the_stream():
    """The client's messages arrive, and ours go back; the end of the stream ends the session."""
    echo = Echo()
    async with running(SseApp(echo)) as host:
        channel = await SseClientChannel.open(Dial(url=f"http://{host}/sse", headers={"X-Key": "k"}))
        channel.send(ask(1))
        assert (await receive(channel))[0]["id"] == 1
        await channel.close()
        await echo.ended.wait()
    assert echo.met[0][1]["x-key"] == "k"
    assert "client closed" in echo.why


async def test_clients_do_not_hear_each_other():
    """Each stream has its own address."""
    async with running(SseApp(Echo())) as host:
        one = await SseClientChannel.open(Dial(url=f"http://{host}/sse"))
        two = await SseClientChannel.open(Dial(url=f"http://{host}/sse"))
        one.send(ask(1))
        two.send(ask(2))
        assert ((await receive(one))[0]["id"], (await receive(two))[0]["id"]) == (1, 2)
        await one.close()
        await two.close()


async def test_mounted_the_endpoint_has_the_prefix():
    """The client reads it as it is."""
    app = SseApp(Echo())

    async def mounted(scope, receive, send):
        await app({**scope, "root_path": "/api"} if scope["type"] == "http" else scope, receive, send)

    async with running(mounted) as host:
        channel = await SseClientChannel.open(Dial(url=f"http://{host}/api/sse"))
        channel.send(ask(1))
        assert (await receive(channel))[0]["id"] == 1
        await channel.close()


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/sse", {"Origin": "https://evil.example"}, 403),
        ("GET", "/sse", {"Host": "evil.example"}, 403),
        ("POST", "/sse", JSON, 405),
        ("GET", "/messages", {}, 405),
        ("GET", "/other", {}, 404),
        ("POST", "/messages", JSON, 404),
        ("POST", "/messages?session_id=guess", JSON, 404),
        ("POST", "/messages?session_id=guess", {"Content-Type": "text/plain"}, 415),
        ("POST", "/messages?session_id=guess", {**JSON, "Content-Encoding": "gzip"}, 415),
        ("POST", "/messages", {**JSON, "Origin": "https://evil.example"}, 403),
    ],
)
async def test_whoever_may_not_come_in_meets_no_handler(method, path, headers, status):
    """Foreign pages and names, wrong methods and paths, no session, a body that a page may send unasked."""
    echo = Echo()
    async with running(SseApp(echo)) as host, aiohttp.ClientSession() as session:
        response = await session.request(method, f"http://{host}{path}", headers=headers, data=b"{}")
        assert response.status == status
        await response.read()
    assert echo.met == []


async def test_a_session_belongs_to_the_principal_that_opened_it():
    """Another one who knows its address has no use for it."""
    app = SseApp(Echo(), check_token=lambda token: token if token != "bad" else None)
    async with running(app) as host, aiohttp.ClientSession() as session:
        channel = await SseClientChannel.open(Dial(url=f"http://{host}/sse", headers={"Authorization": "Bearer a"}))
        address = channel._line.web.url
        for token, status in (("b", 404), ("bad", 401), ("a", 202)):
            headers = {**JSON, "Authorization": f"Bearer {token}"}
            async with session.post(address, headers=headers, data=b"{}") as response:
                assert response.status == status
        await channel.close()


async def test_a_body_over_the_limit_is_refused():
    """413, before it is read."""
    async with running(SseApp(Echo(), max_body=100)) as host:
        channel = await SseClientChannel.open(Dial(url=f"http://{host}/sse"))
        channel.send(ask(1, "x" * 200))
        (reply,) = await receive(channel)
        assert reply["id"] == 1
        assert "error" in reply
        await channel.close()


async def test_the_number_of_streams_is_bounded():
    """One more is told to come later."""
    async with running(SseApp(Echo(), max_sessions=1)) as host:
        first = await SseClientChannel.open(Dial(url=f"http://{host}/sse"))
        with pytest.raises(ConnectionClosed, match="503"):
            await SseClientChannel.open(Dial(url=f"http://{host}/sse"))
        await first.close()


async def test_silence_is_kept_alive():
    """A comment now and then, that is no event."""
    async with running(SseApp(Echo(), keep_alive=0.01)) as host, aiohttp.ClientSession() as session:
        async with session.get(f"http://{host}/sse") as response:
            assert response.content_type == "text/event-stream"
            lines = [await response.content.readline() for _ in range(4)]
        assert lines[0] == b"event: endpoint\n"
        assert lines[3] == b":\n"


async def test_the_end_of_serving_ends_the_stream():
    """After the last frame."""

    async def farewell(channel, principal, headers):
        channel.send(Frame(b'"bye"'))

    async with running(SseApp(farewell)) as host:
        channel = await SseClientChannel.open(Dial(url=f"http://{host}/sse"))
        assert await channel.receive() == [b'"bye"']
        assert await channel.receive() == []
        await channel.close()


async def test_a_failing_server_ends_the_stream(caplog):
    """The log has the reason, the client does not."""

    async def fail(channel, principal, headers):
        raise RuntimeError("secret")

    async with running(SseApp(fail)) as host:
        channel = await SseClientChannel.open(Dial(url=f"http://{host}/sse"))
        assert await channel.receive() == []
        await channel.close()
    assert "secret" in caplog.text


async def test_ending_the_application_ends_its_streams():
    """As the lifespan does at shutdown; nobody new comes in."""
    echo = Echo()
    app = SseApp(echo)
    async with running(app) as host:
        channel = await SseClientChannel.open(Dial(url=f"http://{host}/sse"))
        await app.close()
        assert await channel.receive() == []
        with pytest.raises(ConnectionClosed, match="503"):
            await SseClientChannel.open(Dial(url=f"http://{host}/sse"))
        await channel.close()
    assert "this side" in echo.why


def cancel(id: int) -> dict[str, object]:
    """Make the notification that cancels a request."""
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}


CANCEL = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}'


async def echoed(*posted: bytes) -> list[object]:
    """Post messages, each once the one before was taken; return what was passed on, without the last."""
    echo = Echo()
    async with running(SseApp(echo)) as host, aiohttp.ClientSession() as session:
        channel = await SseClientChannel.open(Dial(url=f"http://{host}/sse"))
        for data in (*posted, ask("last").data):
            async with session.post(channel._line.web.url, headers=JSON, data=data) as response:
                assert response.status == 202
        passed: list[object] = []
        while not passed or passed[-1] != msgspec.json.decode(ask("last").data):
            passed += await receive(channel)
        await channel.close()
    return passed[:-1]


async def test_a_cancellation_may_overtake_its_request():
    """Each message has a connection of its own: the request is not begun when it comes, alone or in a batch."""
    one, two = ask(1).data, ask(2).data
    cancelled = msgspec.json.decode(CANCEL)
    assert await echoed(CANCEL, one) == [cancelled]
    assert await echoed(CANCEL, b"[%b]" % one) == [cancelled]
    assert await echoed(CANCEL, b"[%b,%b]" % (one, two)) == [cancelled, [msgspec.json.decode(two)]]


async def test_a_cancellation_holds_for_one_request_and_a_late_one_for_none():
    """The id may be used again; where its request was there before, nothing is remembered."""
    one = ask(1).data
    assert len(await echoed(CANCEL, one, one)) == 2
    assert len(await echoed(one, CANCEL, one)) == 3
