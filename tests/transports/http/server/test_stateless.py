"""Modern requests: peers are used again when nothing of a request is left in them."""

from __future__ import annotations

import asyncio

import pytest

from tests.transports.http.server.driver import begin, closing, post
from tests.transports.http.server.fakes import Bench, modern, modern_headers


@pytest.fixture
async def bench():
    """Make an application with fake peers, and close it at the end."""
    made = Bench()
    async with closing(made.app):
        yield made


def send(bench, name, id=1, **more):
    """Begin a call of a tool."""
    return begin(bench.app, modern(name, id), **modern_headers(name=name), **more)


async def test_one_peer_serves_one_request_after_the_other(bench):
    """With the headers of each."""
    for number in range(3):
        await send(bench, "echo", x_number=str(number)).done()
        assert bench.peer.headers["X-Number"] == str(number)
    assert len(bench.peers) == 1


async def test_two_at_once_have_two_peers(bench):
    """Strangers choose the same ids."""
    first, second = send(bench, "wait"), send(bench, "wait")
    await bench.waiting.wait()
    await asyncio.sleep(0)
    for peer in bench.peers:
        peer.go.set()
    assert [(await each.done()).json["result"] for each in (first, second)] == ["waited", "waited"]
    assert len(bench.peers) == 2


async def test_a_peer_that_waited_is_used_again(bench):
    """Its reply was JSON, so nothing of the request is left; a handler that kept the headers keeps its own."""
    waiting = send(bench, "wait", x_number="1")
    await bench.waiting.wait()
    kept = bench.peer.headers
    bench.peer.go.set()
    await waiting.done()
    await send(bench, "echo", x_number="2").done()
    assert len(bench.peers) == 1
    assert (kept["X-Number"], bench.peer.headers["X-Number"]) == ("1", "2")


async def test_a_peer_that_streamed_is_not_used_again(bench):
    """It is closed: what its handler may still send belongs to nobody else."""
    await send(bench, "tell_and_wait").response.until(b"before")
    bench.peer.go.set()
    await send(bench, "echo", id=2).done()
    assert len(bench.peers) == 2


async def test_principals_do_not_share_peers():
    """Who is served decides what may be done."""
    bench = Bench(check_token=lambda token: token)
    async with closing(bench.app):
        for name in ("alice", "bob", "alice"):
            await send(bench, "echo", authorization=f"Bearer {name}").done()
    assert [peer.principal for peer in bench.peers] == ["alice", "bob"]


async def test_a_message_of_another_request_is_dropped(bench):
    """It "MUST relate to the originating client request"."""
    response = await send(bench, "broadcast").done()
    assert (response.is_stream, response.json["result"]) == (False, "sent")


async def test_what_comes_after_the_reply_reaches_nobody(bench):
    """Neither this client nor the next."""
    first = await send(bench, "echo").done()
    bench.peer.say(1, "late")
    second = await send(bench, "echo", id=2).done()
    assert b"late" not in first.body + second.body
    assert not second.is_stream


async def test_a_notification_is_accepted(bench):
    """202 without a body."""
    response = await post(bench.app, {"jsonrpc": "2.0", "method": "notifications/x"}, **modern_headers())
    assert (response.status, response.body) == (202, b"")


async def test_a_session_id_is_ignored(bench):
    """2026-07-28: "ignore it, and do not mint or echo session IDs"."""
    response = await send(bench, "echo", mcp_session_id="whatever").done()
    assert (response.status, "mcp-session-id" in response.headers) == (200, False)
