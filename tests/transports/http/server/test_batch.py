"""Batches: of one revision only, and answered in one response."""

from __future__ import annotations

import pytest

from tests.transports.http.server.driver import Instant, Open, Response, begin, closing, post
from tests.transports.http.server.fakes import Bench, call, initialize, modern_headers


@pytest.fixture(autouse=True, params=[Response, Instant])
def _server(request, monkeypatch):
    """Be any server, and then ours."""
    monkeypatch.setattr(Open, "responses", request.param)


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
