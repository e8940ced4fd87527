"""One POST: JSON whenever nothing but the reply has to be sent, and else a stream."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.transports.http.server.asgi import Http
from antiphon.transports.http.server.entrance import EndpointSettings
from antiphon.transports.http.server.post_exchange import Exchange
from antiphon.transports.http.server.sse_response import Carrier, ResponseStream
from tests.transports.http.server.driver import Response, begin, closing, listen, post, scope_of
from tests.transports.http.server.fakes import Bench, call, initialize, modern, modern_headers


@pytest.fixture
async def bench():
    """Make an application with fake peers that soon loses patience, and close it at the end."""
    made = Bench(patience=0.01, keep_alive=0.01)
    async with closing(made.app):
        yield made


async def session(app, version="2025-11-25"):
    """Open a session and return the headers that name it."""
    opened = await post(app, initialize(version))
    return {"mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": version}


async def test_the_first_message_that_is_no_reply_makes_it_a_stream(bench):
    """In order, unbuffered, and ended by the reply."""
    response = await post(bench.app, modern("tell"), **modern_headers(name="tell"))
    assert (response.status, response.is_stream, response.headers["x-accel-buffering"]) == (200, True, "no")
    assert [each.get("result", each.get("params")) for each in response.messages] == [
        {"data": "one"},
        {"data": "two"},
        "told",
    ]
    assert all(event.id is None for event in response.events)


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_what_is_said_in_one_breath_is_not_lost(bench, era):
    """The response that carries it has not begun yet, and is awaited all the same: nothing is dropped."""
    if era == "legacy":
        response = await post(bench.app, call("babble", times=3000), **await session(bench.app))
    else:
        response = await post(bench.app, modern("babble", times=3000), **modern_headers(name="babble"))
    said = [each["params"]["data"] for each in response.messages if "params" in each]
    assert said == [str(number) for number in range(3000)]


async def test_a_reply_that_comes_later_is_json_all_the_same(bench):
    """Nothing else had to be sent."""
    response = await post(bench.app, modern("later"), **modern_headers(name="later"))
    assert (response.is_stream, response.json["result"]) == (False, "late")


@pytest.mark.parametrize(("code", "status"), [(-32601, 404), (-32021, 400), (-32602, 200), (-32603, 200)])
async def test_a_modern_error_has_the_status_of_its_code(bench, code, status):
    """As long as nothing was sent before."""
    response = await post(bench.app, modern("fail", code=code), **modern_headers(name="fail"))
    assert (response.status, response.json["error"]["code"]) == (status, code)


async def test_a_legacy_error_is_an_answer_like_any_other(bench):
    """200."""
    sent = await session(bench.app)
    response = await post(bench.app, call("fail", code=-32601), **sent)
    assert (response.status, response.json["error"]["code"]) == (200, -32601)


async def test_a_call_that_takes_time_is_kept_alive(bench):
    """It becomes a stream with a comment now and then, and an event to come back to."""
    sent = await session(bench.app)
    waiting = begin(bench.app, call("wait"), **sent)
    await waiting.response.until(b":\n\n:\n\n")
    bench.peer.go.set()
    response = await waiting.done()
    assert response.messages == [{"jsonrpc": "2.0", "id": 1, "result": "waited"}]
    assert (response.events[0].data, response.events[0].retry) == (b"", 1000)


async def test_older_clients_get_no_event_without_data(bench):
    """They would take it for a message; ids they know."""
    sent = await session(bench.app, "2025-06-18")
    response = await post(bench.app, call("tell"), **sent)
    assert all(event.data and event.id for event in response.events)


async def test_an_ask_goes_on_the_stream_of_its_call(bench):
    """And the answer in a POST of its own."""
    sent = await session(bench.app)
    asking = begin(bench.app, call("ask"), **sent)
    await asking.response.until(b"sampling/createMessage")
    answer = await post(bench.app, {"jsonrpc": "2.0", "id": 7, "result": "me"}, **sent)
    assert (answer.status, answer.body) == (202, b"")
    assert (await asking.done()).messages[-1]["result"] == "me"


async def test_a_modern_client_that_leaves_cancels_its_request(bench):
    """2026-07-28: "MUST be treated by the server as cancellation of that request"."""
    waiting = begin(bench.app, modern("wait"), **modern_headers(name="wait"))
    await bench.waiting.wait()
    waiting.disconnect()
    response = await waiting.done()
    assert bench.peer.withdrawn == [1]
    assert response.status == 0


async def test_a_modern_client_that_leaves_its_stream_cancels_too(bench):
    """Nothing more is sent."""
    waiting = begin(bench.app, modern("tell_and_wait"), **modern_headers(name="tell_and_wait"))
    await waiting.response.until(b"before")
    waiting.disconnect()
    response = await waiting.done()
    assert bench.peer.withdrawn == [1]
    assert b"waited" not in response.body


async def test_a_legacy_client_that_leaves_cancels_nothing(bench):
    """2025-11-25: "Disconnection SHOULD NOT be interpreted as the client cancelling its request"."""
    sent = await session(bench.app)
    waiting = begin(bench.app, call("wait"), **sent)
    await bench.waiting.wait()
    waiting.disconnect()
    bench.peer.go.set()
    await waiting.done()
    assert bench.peer.withdrawn == []


async def test_a_call_that_is_cancelled_still_gets_a_response():
    """Without a body: there is no reply."""
    bench = Bench()
    async with closing(bench.app) as app:
        sent = await session(app)
        muted = begin(app, call("mute", id=5), **sent)
        await bench.waiting.wait()
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}
        assert (await post(app, cancel, **sent)).status == 202
        bench.peer.go.set()
        response = await muted.done()
    assert (response.status, response.body) == (202, b"")


async def test_a_stream_whose_call_is_cancelled_ends(bench):
    """Without a reply."""
    sent = await session(bench.app)
    muted = begin(bench.app, call("mute", id=5), **sent)
    await muted.response.until(b":\n\n")
    await post(bench.app, {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}, **sent)
    bench.peer.go.set()
    response = await muted.done()
    assert (response.messages, response.complete.is_set()) == ([], True)


@pytest.mark.parametrize("params", [{}, {"requestId": 6}, {"requestId": [1]}, [1]])
async def test_a_cancellation_of_nothing_is_accepted(bench, params):
    """It may have come too late."""
    sent = await session(bench.app)
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
    assert (await post(bench.app, cancel, **sent)).status == 202


async def test_with_json_only_nothing_becomes_a_stream():
    """What belongs to a call is heard on the GET stream, if there is one."""
    bench = Bench(json_only=True, patience=0.0)
    async with closing(bench.app) as app:
        sent = await session(app)
        response = await post(app, call("tell"), **sent, accept="application/json")
        stateless = await post(app, modern("tell"), **modern_headers(name="tell"), accept="application/json")
    assert response.json["result"] == stateless.json["result"] == "told"


async def test_subscriptions_are_streams_and_kept_alive(bench):
    """Until the client leaves."""
    listening = begin(
        bench.app,
        {"jsonrpc": "2.0", "id": "sub", "method": "subscriptions/listen", "params": modern("x")["params"]},
        **modern_headers("subscriptions/listen"),
    )
    await listening.response.until(b":\n\n:\n\n")
    assert listening.response.messages[0]["method"] == "notifications/subscriptions/acknowledged"
    listening.disconnect()
    await listening.done()
    assert bench.peer.withdrawn == ["sub"]


async def test_a_reply_that_comes_after_the_client_left_waits_for_it(bench):
    """Also where the handler has ended before."""
    sent = await session(bench.app)
    calling = begin(bench.app, call("tell_later"), **sent)
    await calling.response.until(b"before")
    calling.disconnect()
    bench.peer.reply(1, "late")
    await calling.done()
    resumed = await listen(bench.app, **sent, last_event_id="1-1").done()
    assert [each["result"] for each in resumed.messages] == ["late"]


class Kept(Exchange, kw_only=True):
    """An exchange whose stream outlives it."""

    kept: ResponseStream

    def new_stream(self) -> ResponseStream:
        """Give the stream."""
        return self.kept


def http_to(response: Response) -> Http:
    """Make a request that is answered there."""
    return Http(scope_of("POST", {}), response.take, response.take)


async def test_a_client_comes_back_to_a_stream_whose_task_was_cancelled_before_it_started():
    """It waits until nothing more is sent by the first response, and there nothing ever was."""
    stream, second = ResponseStream(), Response()
    exchange = Kept(http_to(Response()), EndpointSettings(), kept=stream)
    resumed = asyncio.create_task(stream.carry(Carrier(http_to(second), keep_alive=60.0)))
    asyncio.get_running_loop().call_soon(exchange.let_go)
    exchange.start_stream()
    stream.put(b"1", last=True)
    async with asyncio.timeout(60):
        await resumed
    assert [event.data for event in second.events] == [b"1"]
