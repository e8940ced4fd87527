"""A connection goes to the process in which its session lives, with the request that has said so."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from antiphon import Server
from antiphon.server import MemoryCluster
from antiphon.transports.http.server.connections import MAX_MOVED
from tests.support.network import Bare, call, listening, modern_call, request_bytes, until


class Two:
    """Two replicas as workers of one port: ``bare`` is a connection that was given to the second."""

    def __init__(self, home: Any, other: Any, bare: Bare, go: asyncio.Event) -> None:
        self.home, self.other, self.bare, self.go = home, other, bare, go
        self.session: dict[str, str] = {}
        self.given: list[bytes] = []

    def place(self) -> tuple[int, int]:
        """Count the connections of both."""
        return len(self.home.server_state.connections), len(self.other.server_state.connections)

    async def echoes(self, text: str) -> None:
        """Read the answer to an echo."""
        status, _, body = await self.bare.response()
        assert (status, text.encode() in body) == (200, True), body

    def echo(self, text: str, id: int = 1) -> bytes:
        """Write a request of the session."""
        return request_bytes(call("echo", id, text=text), **self.session)


@pytest.fixture
async def two() -> AsyncGenerator[Two]:
    """Start both, and open a session at the first."""
    cluster, go = MemoryCluster(), asyncio.Event()
    async with AsyncExitStack() as stack:
        started: list[Any] = []
        for _ in range(2):
            server = Server("s", keys=[b"k" * 32], cluster=MemoryCluster(beside=cluster), tool_rate=None)

            @server.tool
            async def echo(text: str) -> str:
                """Return it."""
                return text

            @server.tool
            async def wait() -> str:
                """Return when it is told to."""
                await go.wait()
                return "gone"

            started.append(await stack.enter_async_context(listening(server)))
        home, other = started
        ours = socket.create_server(("127.0.0.1", 0))
        stack.enter_context(ours)
        bare = await Bare.open(f"127.0.0.1:{ours.getsockname()[1]}")
        stack.callback(bare.vanish)
        made = Two(home, other, bare, go)
        tasks: list[asyncio.Task[None]] = []

        def give(connection: socket.socket, request: bytes, replica: str) -> bool:
            made.given.append(request)
            tasks.append(asyncio.ensure_future(home.take(connection.dup(), request)))
            return True

        other.give = give
        first = await Bare.open(home.place)
        made.session = await first.initialize()
        first.vanish()
        loop = asyncio.get_running_loop()
        ours.setblocking(False)
        accepted, _ = await loop.sock_accept(ours)
        await other.take(accepted)
        await until(lambda: made.place() == (0, 1))
        yield made
        await asyncio.gather(*tasks)


async def test_a_connection_goes_home_with_its_first_request(two: Two) -> None:
    """All that follow are served there, and the first process has nothing to do with them."""
    two.bare.send(two.echo("one"))
    await two.echoes("one")
    await until(lambda: two.place() == (1, 0))
    two.bare.send(two.echo("two"))
    await two.echoes("two")
    two.bare.send(request_bytes(b"", "DELETE", **two.session))
    assert (await two.bare.response())[0] == 204
    assert len(two.given) == 1


async def test_a_stream_goes_home(two: Two) -> None:
    """The request that opens it has no body."""
    two.bare.send(request_bytes(b"", "GET", **two.session))
    await two.bare.reader.readuntil(b"id: 0-0")
    assert two.place() == (1, 0)


@pytest.mark.parametrize(
    "headers",
    [{"transfer_encoding": "chunked", "content_length": None}, {"expect": "100-continue"}],
    ids=["chunked", "expect"],
)
async def test_how_a_body_arrives_does_not_matter(two: Two, headers: dict[str, Any]) -> None:
    """It goes on whole, with its length."""
    request = two.echo("one")
    head, _, body = request_bytes(b"", **two.session, **headers).partition(b"\r\n\r\n")
    body = request.partition(b"\r\n\r\n")[2]
    if "expect" in headers:
        two.bare.send(head.replace(b"content-length: 0", b"content-length: %d" % len(body)) + b"\r\n\r\n")
        assert await two.bare.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        two.bare.send(body)
    else:
        two.bare.send(head + b"\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
    await two.echoes("one")
    assert two.place() == (1, 0)
    [given] = two.given
    assert given.endswith(b"content-length: %d\r\n\r\n%b" % (len(body), body))
    assert [word for word in (b"chunked", b"100-continue") if word in given] == []


async def test_a_large_request_is_passed_on_by_itself(two: Two) -> None:
    """The connection stays, until a smaller one comes."""
    text = "x" * MAX_MOVED
    two.bare.send(two.echo(text))
    await two.echoes(text)
    assert (two.place(), two.given) == ((0, 1), [])
    two.bare.send(two.echo("one"))
    await two.echoes("one")
    await until(lambda: two.place() == (1, 0))


async def test_a_connection_with_more_than_one_request_stays(two: Two) -> None:
    """They are answered in order, by being passed on; the last one may take it along."""
    two.bare.send(two.echo("one") + two.echo("two", 2))
    await two.echoes("one")
    await two.echoes("two")
    assert len(two.given) == 1
    assert b"two" in two.given[0]


async def test_a_connection_that_nobody_takes_stays(two: Two) -> None:
    """The request is passed on by itself, and the connection is read again."""
    two.other.server_state.connections.copy().pop().give = lambda *_: False
    for text in ("one", "two"):
        two.bare.send(two.echo(text))
        await two.echoes(text)
    assert two.place() == (0, 1)


async def test_a_request_that_was_moved_is_not_moved_again(two: Two) -> None:
    """Else two processes that disagree about a home would send it to and fro."""
    moved: list[str] = []

    def give(_connection: socket.socket, _request: bytes, replica: str) -> bool:
        moved.append(replica)
        return False

    with socket.create_server(("127.0.0.1", 0)) as ours:
        bare = await Bare.open(f"127.0.0.1:{ours.getsockname()[1]}")
        accepted, _ = ours.accept()
        two.other.give = give
        await two.other.take(accepted, two.echo("one"))
        assert (await bare.response())[0] == 200
        assert moved == []
        bare.send(two.echo("two"))
        assert (await bare.response())[0] == 200
        assert len(moved) == 1
        bare.vanish()


async def test_who_leaves_gives_back_what_is_silent(two: Two) -> None:
    """A connection that has never sent anything, or rests between two requests, is closed by nobody."""
    two.other.leave(30)
    await until(lambda: two.place() == (1, 0))
    two.bare.send(modern_call("echo", text="one"))
    await two.echoes("one")
    assert two.given == [b""]


async def test_who_leaves_gives_a_connection_back_after_its_response(two: Two) -> None:
    """It stays open, and no request is lost."""
    two.bare.send(modern_call("echo", text="one"))
    await two.echoes("one")
    two.bare.send(modern_call("wait"))
    await until(lambda: bool(two.other.server_state.tasks))
    two.other.leave(30)
    app = two.other.config.app._endpoint
    await until(lambda: app._draining)
    two.go.set()
    status, headers, body = await two.bare.response()
    assert (status, b"gone" in body, "connection" in headers) == (200, True, False)
    two.bare.send(modern_call("echo", text="two"))
    await two.echoes("two")
    assert two.place() == (1, 0)


async def test_who_leaves_serves_what_has_begun_to_arrive(two: Two) -> None:
    """The rest of a head that was read in part cannot be read elsewhere."""
    request = modern_call("echo", text="one")
    two.bare.send(request[:20])
    [connection] = two.other.server_state.connections
    await until(lambda: bool(connection._head))
    two.other.leave(30)
    await until(lambda: connection.is_given_back)
    two.bare.send(request[20:])
    await two.echoes("one")
    await until(lambda: two.place() == (1, 0))
    assert two.given == [b""]


async def test_who_leaves_can_be_hurried(two: Two) -> None:
    """Once there is no time, open requests end."""
    two.bare.send(modern_call("wait"))
    await until(lambda: bool(two.other.server_state.tasks))
    two.other.leave(3600)
    app = two.other.config.app._endpoint
    await until(lambda: app._draining)
    two.other.leave(0)
    assert (await two.bare.response())[0] == 503
    await until(lambda: two.place()[1] == 0)
