"""Bodies are bounded in size and in time."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.protocol.http.rules import HttpRefusal
from antiphon.transports.http.server.asgi import GONE, Http, read_body
from tests.transports.http.server.driver import begin, closing, post
from tests.transports.http.server.fakes import Bench, call, initialize, modern_headers


def request(*messages, **headers):
    """Make a request whose ``receive`` gives these messages, each in another pass of the loop, and then nothing."""
    left = list(messages)

    async def receive():
        if len(left) < len(messages):
            await asyncio.sleep(0)
        if not left:
            await asyncio.Event().wait()
        return left.pop(0)

    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Http({"method": "POST", "path": "/", "headers": pairs}, receive, receive)


def piece(body, *, more=False):
    """Make an ASGI message."""
    return {"type": "http.request", "body": body, "more_body": more}


async def test_a_body_in_one_piece():
    """The usual case."""
    assert await read_body(request(piece(b"abc")), 3, 1) == b"abc"


async def test_a_body_in_pieces():
    """They are put together."""
    http = request(piece(b"a", more=True), piece(b"b", more=True), piece(b"c"))
    assert await read_body(http, 3, 1) == b"abc"


@pytest.mark.parametrize(
    ("pieces", "length"),
    [
        ([piece(b"abcd")], None),
        ([piece(b"ab", more=True), piece(b"cd", more=True)], None),
        ([], "4"),
        ([], "9" * 30),
        ([], "x"),
    ],
)
async def test_a_body_that_is_too_large_is_413(pieces, length):
    """As soon as that is known; nothing more is read."""
    headers = {} if length is None else {"content_length": length}
    refusal = await read_body(request(*pieces, **headers), 3, 1)
    assert isinstance(refusal, HttpRefusal) and refusal.status == 413


@pytest.mark.parametrize("first", [(), (piece(b"a", more=True),)])
async def test_a_body_that_does_not_come_is_408(first):
    """Neither its beginning nor its rest may be waited for forever."""
    refusal = await read_body(request(*first), 3, 0.01)
    assert isinstance(refusal, HttpRefusal) and refusal.status == 408


async def test_a_first_piece_that_takes_a_moment_is_waited_for():
    """Through whatever the server's ``receive`` waits for."""
    gate = asyncio.Event()

    async def receive():
        await gate.wait()
        await asyncio.sleep(0)
        return piece(b"late")

    asyncio.get_running_loop().call_soon(gate.set)
    assert await read_body(Http({"method": "POST", "path": "/", "headers": []}, receive, receive), 10, 1) == b"late"


@pytest.mark.parametrize("first", [(), (piece(b"a", more=True),)])
async def test_a_client_that_leaves_is_noticed(first):
    """Before or within its body."""
    assert await read_body(request(*first, {"type": "http.disconnect"}), 3, 1) is GONE


@pytest.fixture
async def bench():
    """Make an application with fake peers, and close it at the end."""
    made = Bench()
    async with closing(made.app):
        yield made


async def session(bench, version="2025-03-26"):
    """Open a session and return the headers that name it."""
    opened = await post(bench.app, initialize(version))
    return {"mcp-session-id": opened.headers["mcp-session-id"]}


async def test_the_replies_are_one_array(bench):
    """Of what was a request; what could not be read has its error there."""
    sent = await session(bench)
    batch = [call("echo", id=1), {"jsonrpc": "2.0", "method": "x"}, call("echo", id=2), 3]
    response = await post(bench.app, batch, **sent)
    assert sorted(str(each["id"]) for each in response.json) == ["1", "2", "None"]


async def test_a_batch_without_requests_is_accepted(bench):
    """202."""
    sent = await session(bench)
    response = await post(bench.app, [{"jsonrpc": "2.0", "method": "x"}] * 2, **sent)
    assert (response.status, response.body) == (202, b"")


async def test_with_other_messages_it_is_a_stream(bench):
    """Each reply is an event."""
    sent = await session(bench)
    response = await post(bench.app, [call("tell", id=1), call("echo", id=2)], **sent)
    assert [each.get("id") for each in response.messages if "id" in each] == [1, 2]
    assert response.complete.is_set()


async def test_the_slowest_is_waited_for(bench):
    """The others are served meanwhile."""
    sent = await session(bench)
    waiting = begin(bench.app, [call("wait", id=1), call("echo", id=2)], **sent)
    await bench.waiting.wait()
    bench.peer.go.set()
    assert {each["id"] for each in (await waiting.done()).json} == {1, 2}


@pytest.mark.parametrize(
    ("version", "batch"),
    [("2025-06-18", [call("echo")]), ("2025-03-26", []), ("2025-03-26", [call("echo", id=id) for id in range(257)])],
)
async def test_other_batches_are_refused(bench, version, batch):
    """Of another revision, empty ones, and very large ones."""
    sent = await session(bench, version)
    response = await post(bench.app, batch, **sent)
    assert (response.status, response.json["error"]["code"]) == (400, -32600)


async def test_a_batch_opens_no_session(bench):
    """2025-03-26: "The initialize request MUST NOT be part of a JSON-RPC batch"."""
    assert (await post(bench.app, [initialize("2025-03-26")])).status == 400
    assert (await post(bench.app, [call("echo")], **modern_headers())).status == 400
    assert bench.peers == []


async def test_an_id_twice_is_refused_once(bench):
    """The first is served."""
    sent = await session(bench)
    waiting = begin(bench.app, call("wait", id=1), **sent)
    await bench.waiting.wait()
    response = await post(bench.app, [call("echo", id=1), call("echo", id=2), call("echo", id=2)], **sent)
    assert sorted("error" in each for each in response.json) == [False, True, True]
    bench.peer.go.set()
    await waiting.done()


def cancel(id: int) -> dict[str, object]:
    """Make the notification that cancels a request."""
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}


async def test_a_cancellation_may_overtake_a_request_of_a_batch(bench):
    """That one is not begun; the others are served, and its id is free after that."""
    sent = await session(bench)
    await post(bench.app, cancel(1), **sent)
    response = await post(bench.app, [call("wait", id=1), call("echo", id=2)], **sent)
    assert [each["id"] for each in response.json] == [2]
    await post(bench.app, cancel(3), **sent)
    assert (await post(bench.app, [call("wait", id=3)], **sent)).status == 202
    assert [each["id"] for each in (await post(bench.app, [call("echo", id=1)], **sent)).json] == [1]


async def test_a_cancellation_in_a_batch_may_overtake_its_request(bench):
    """Wherever it stands; one of a request beside it is no early one."""
    sent = await session(bench)
    await post(bench.app, [cancel(1), {"jsonrpc": "2.0", "method": "x"}], **sent)
    assert (await post(bench.app, call("wait", id=1), **sent)).status == 202
