"""Bodies are bounded in size and in time."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.protocol.http.rules import Refusal
from antiphon.transports.http.server.asgi import AsgiHttp
from antiphon.transports.http.server.body import GONE, read_body


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
    return AsgiHttp({"method": "POST", "path": "/", "headers": pairs}, receive, receive)


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
    assert isinstance(refusal, Refusal) and refusal.status == 413


@pytest.mark.parametrize("first", [(), (piece(b"a", more=True),)])
async def test_a_body_that_does_not_come_is_408(first):
    """Neither its beginning nor its rest may be waited for forever."""
    refusal = await read_body(request(*first), 3, 0.01)
    assert isinstance(refusal, Refusal) and refusal.status == 408


async def test_a_first_piece_that_takes_a_moment_is_waited_for():
    """Through whatever the server's ``receive`` waits for."""
    gate = asyncio.Event()

    async def receive():
        await gate.wait()
        await asyncio.sleep(0)
        return piece(b"late")

    asyncio.get_running_loop().call_soon(gate.set)
    assert await read_body(AsgiHttp({"method": "POST", "path": "/", "headers": []}, receive, receive), 10, 1) == b"late"


@pytest.mark.parametrize("first", [(), (piece(b"a", more=True),)])
async def test_a_client_that_leaves_is_noticed(first):
    """Before or within its body."""
    assert await read_body(request(*first, {"type": "http.disconnect"}), 3, 1) is GONE
