"""A request over HTTP gets a reply, whatever the server does."""

from __future__ import annotations

import asyncio
import json

import pytest
from aiohttp import web

from antiphon.errors import PeerError
from antiphon.protocol.http.sse import Event
from antiphon.transports.http.client.channel import HttpClientChannel
from antiphon.transports.http.client.error_replies import (
    BROKEN,
    UNREACHABLE,
    UNUSABLE,
    Dial,
    has_session_gone,
    http_status,
    is_not_streamable,
)
from antiphon.transports.http.client.post import Cursor
from antiphon.wire.envelope import ErrorObject, from_wire
from tests.support.web import ask, event, receive, result, serving, stream, tell

MODERN = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}


def modern(id, method="tools/list", **params):
    """A request that names its revision."""
    return ask(id, method, _meta=MODERN, **params)


async def one_reply(answers, frame=None, **options):
    """Send one request to a server that answers so, and return the reply."""
    async with serving(answers) as site:
        channel = await HttpClientChannel.open(Dial(url=site.url, **options))
        try:
            channel.send(frame or ask(7))
            (reply,) = await receive(channel)
            return reply, site
        finally:
            await channel.close()


def error_in(reply) -> PeerError:
    """The exception that a caller gets."""
    return from_wire(ErrorObject(**reply["error"]))


async def test_a_json_answer_is_the_reply():
    """The simple case: one POST that accepts both kinds of answer, one object back."""

    async def answers(request, seen):
        return result(seen.body["id"], {"tools": []})

    reply, site = await one_reply(answers)
    assert reply == {"jsonrpc": "2.0", "id": 7, "result": {"tools": []}}
    assert site.seen[0].method == "POST"
    assert site.seen[0].headers["Accept"] == "application/json, text/event-stream"
    assert site.seen[0].headers["Content-Type"] == "application/json"


async def test_an_event_stream_brings_messages_and_then_the_reply():
    """What comes before the reply is delivered in order; priming events, comments and other events are no messages."""
    note = {"jsonrpc": "2.0", "method": "notifications/progress"}
    done = {"jsonrpc": "2.0", "id": 7, "result": {}}

    async def answers(request, seen):
        return await stream(
            request, event(None, id="0"), b": alive\n\n", event({"odd": 1}, name="other"), event(note), event(done)
        )

    async with serving(answers) as site:
        channel = await HttpClientChannel.open(Dial(url=site.url))
        channel.send(ask(7))
        assert await receive(channel, 2) == [note, done]
        await channel.close()


@pytest.mark.parametrize("cut", [1, 2])
async def test_a_reply_counts_although_its_stream_ends_without_an_empty_line(cut):
    """The message is whole, so nothing can be missing of it."""

    async def answers(request, seen):
        return await stream(request, event({"jsonrpc": "2.0", "id": 7, "result": {"tools": []}})[:-cut])

    assert (await one_reply(answers))[0]["result"] == {"tools": []}


async def test_half_a_reply_at_the_end_of_a_stream_is_none():
    """It is asked for again where the server lets streams be resumed, and the id of half an event does not count."""
    done = {"jsonrpc": "2.0", "id": 7, "result": {"tools": []}}
    first = event({"jsonrpc": "2.0", "method": "notifications/progress"}, id="1", retry=1)
    later = []

    async def answers(request, seen):
        if seen.method == "GET":
            later.append(seen.headers["Last-Event-ID"])
            return await stream(request, event(done, id="2"))
        return await stream(request, first, event(done, id="2")[:-5])

    async with serving(answers) as site:
        channel = await HttpClientChannel.open(Dial(url=site.url))
        channel.send(ask(7))
        assert (await receive(channel, 2))[1] == done
        await channel.close()
    assert later == ["1"]


async def test_requests_at_once_do_not_wait_for_each_other():
    """A slow call does not hold back a quick one."""
    go = asyncio.Event()

    async def answers(request, seen):
        if seen.body["id"] == 1:
            await go.wait()
        return result(seen.body["id"])

    async with serving(answers) as site:
        channel = await HttpClientChannel.open(Dial(url=site.url))
        channel.send(ask(1))
        channel.send(ask(2))
        assert (await receive(channel))[0]["id"] == 2
        go.set()
        assert (await receive(channel))[0]["id"] == 1
        await channel.close()


@pytest.mark.parametrize("streamed", [False, True])
async def test_one_connection_serves_calls_that_follow_each_other(streamed):
    """Connections are kept and used again, after JSON and after a stream."""

    async def answers(request, seen):
        if streamed:
            return await stream(request, event({"jsonrpc": "2.0", "id": seen.body["id"], "result": {}}))
        return result(seen.body["id"])

    async with serving(answers) as site:
        channel = await HttpClientChannel.open(Dial(url=site.url))
        for id in range(5):
            channel.send(ask(id))
            await receive(channel)
            # The end of a stream comes after its last event.
            while channel._calls:
                await asyncio.wait([task for _, task in channel._calls.values()])
        assert len({seen.peer for seen in site.seen}) == 1
        await channel.close()


async def test_a_refusal_with_a_json_rpc_error_is_that_error():
    """The body of a status counts more than the status; an id that is missing is ours."""

    async def answers(request, seen):
        return web.json_response({"jsonrpc": "2.0", "error": {"code": -32022, "message": "no"}, "id": None}, status=400)

    reply, _ = await one_reply(answers)
    assert reply == {"jsonrpc": "2.0", "id": 7, "error": {"code": -32022, "message": "no"}}


DATE = "Sun, 29 Nov 2026 21:00:00 GMT"


@pytest.mark.parametrize(
    ("status", "when", "shown"), [(429, "30", "30"), (503, DATE, DATE), (500, "a" * 900, "a" * 200)]
)
async def test_a_refusal_says_when_the_server_takes_the_request_again(status, when, shown):
    """Whatever the server writes there, it is a short text."""

    async def answers(request, seen):
        return web.Response(status=status, headers={"Retry-After": when})

    reply, _ = await one_reply(answers)
    assert reply["error"]["data"] == {"httpStatus": status, "retryAfter": shown}


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 429, 500, 503])
async def test_a_refusal_without_one_says_status_address_and_first_line(status):
    """Nothing of credentials, query or the rest of the body is in it."""

    async def answers(request, seen):
        return web.Response(status=status, text="sorry \x1b[2Jnot today\nTraceback ...")

    async with serving(answers) as site:
        channel = await HttpClientChannel.open(
            Dial(url=site.url.replace("http://", "http://me:secret@") + "?key=hidden")
        )
        channel.send(ask(7))
        (reply,) = await receive(channel)
        await channel.close()
    error = error_in(reply)
    assert error.code == status == http_status(error)
    assert f"{site.url} answered HTTP {status}" in error.message
    assert "sorry [2Jnot today" in error.message
    assert not any(word in error.message for word in ("secret", "hidden", "Traceback", "\x1b"))
    assert ("Authorization" in error.message) == (status in (401, 403))
    assert is_not_streamable(error) == (status in (400, 404, 405))
    assert not has_session_gone(error)


async def test_a_page_of_html_is_not_repeated():
    """Proxies answer with pages; their markup helps nobody."""

    async def answers(request, seen):
        return web.Response(status=502, text="<html>bad</html>", content_type="text/html")

    assert "html" not in error_in((await one_reply(answers))[0]).message


@pytest.mark.parametrize(
    ("kind", "body", "shown"),
    [
        ("text/html", "<p>hello", "no event stream"),
        ("text/plain", "the database is down\nat line 1", "no event stream: the database is down"),
        ("application/json", "[]", "the request: []"),
        (
            "application/json",
            '{"jsonrpc":"2.0","id":8,"result":{}}',
            'the request: {"jsonrpc":"2.0","id":8,"result":{}}',
        ),
        ("application/json", '{"jsonrpc":"2.0","id":7,', 'the request: {"jsonrpc":"2.0","id":7,'),
        ("application/json", '{"error":"the database is down"}', 'the request: {"error":"the database is down"}'),
        ("application/json", "", "the request"),
    ],
)
async def test_an_answer_that_is_no_reply_is_an_error(kind, body, shown):
    """Another type, somebody else's reply, half a message: the caller is told what, and does not wait."""

    async def answers(request, seen):
        return web.Response(text=body, content_type=kind)

    error = error_in((await one_reply(answers))[0])
    assert error.code == UNUSABLE
    assert error.message.endswith(shown)


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_reply_that_was_created_is_a_reply(streamed):
    """MCP names no status; a framework whose POST answers 201 unless told otherwise is common."""

    async def answers(request, seen):
        message = {"jsonrpc": "2.0", "id": seen.body["id"], "result": {"tools": []}}
        if not streamed:
            return web.json_response(message, status=201)
        return web.Response(status=201, body=event(message), content_type="text/event-stream")

    assert (await one_reply(answers))[0]["result"] == {"tools": []}


@pytest.mark.parametrize("end", ["", "\n", "\n\n"])
async def test_json_that_is_called_an_event_stream_is_a_reply(end):
    """As servers do that choose the type by what the client accepts, and then send JSON as it is."""

    async def answers(request, seen):
        message = json.dumps({"jsonrpc": "2.0", "id": seen.body["id"], "result": {"tools": []}})
        return web.Response(text=message + end, content_type="text/event-stream")

    assert (await one_reply(answers))[0]["result"] == {"tools": []}


async def test_a_request_that_is_only_accepted_is_an_error():
    """202 is for messages without a reply."""

    async def answers(request, seen):
        return web.Response(status=202)

    assert "202" in error_in((await one_reply(answers))[0]).message


async def test_an_error_about_no_id_is_the_reply():
    """A server that could not read our id can mean only this request."""

    async def answers(request, seen):
        return web.json_response({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "what?"}})

    reply, _ = await one_reply(answers)
    assert (reply["id"], reply["error"]["code"]) == (7, -32700)


@pytest.mark.parametrize("streamed", [False, True])
async def test_what_is_too_large_is_refused(streamed):
    """The limit holds for a body and for one event, and is what is held at most."""

    async def answers(request, seen):
        big = {"jsonrpc": "2.0", "id": 7, "result": {"x": "y" * 200_000}}
        return await stream(request, event(big)) if streamed else web.json_response(big)

    error = error_in((await one_reply(answers, max_frame=1000))[0])
    assert error.code == UNUSABLE


async def test_an_unreachable_server_was_sent_nothing():
    """No connection: the request may be repeated by anybody."""
    async with serving(None) as site:
        pass
    channel = await HttpClientChannel.open(Dial(url=site.url))
    channel.send(ask(7))
    (reply,) = await receive(channel)
    await channel.close()
    error = error_in(reply)
    assert error.code == UNREACHABLE
    assert site.url in error.message


async def test_a_connection_that_breaks_before_the_answer_is_broken():
    """Nobody knows whether the request was carried out."""

    async def answers(request, seen):
        request.transport.abort()
        return web.Response()

    error = error_in((await one_reply(answers))[0])
    assert error.code == BROKEN


@pytest.mark.parametrize("frame", [ask(7), modern(7)])
async def test_a_stream_that_breaks_without_an_event_id_is_broken(frame):
    """There is nothing to resume from."""

    async def answers(request, seen):
        response = await stream(request, event({"jsonrpc": "2.0", "method": "notifications/message"}))
        request.transport.abort()
        return response

    async with serving(answers) as site:
        channel = await HttpClientChannel.open(Dial(url=site.url))
        channel.send(frame)
        _, reply = await receive(channel, 2)
        assert error_in(reply).code == BROKEN
        await channel.close()


async def test_a_modern_stream_is_never_resumed():
    """2026-07-28: "Resumable SSE streams via Last-Event-ID are not supported"."""

    async def answers(request, seen):
        return await stream(request, event(None, id="1", retry=1))

    reply, site = await one_reply(answers, modern(7))
    assert error_in(reply).code == BROKEN
    assert [seen.method for seen in site.seen] == ["POST"]


@pytest.mark.parametrize("abrupt", [False, True])
async def test_a_legacy_stream_is_resumed_after_its_last_event(abrupt):
    """Closed or cut, the stream goes on where it ended; the reply comes on the new one."""
    note = {"jsonrpc": "2.0", "method": "notifications/progress"}

    async def answers(request, seen):
        if seen.method == "POST":
            response = await stream(request, event(note, id="a-1", retry=1))
            if abrupt:
                request.transport.abort()
            return response
        assert seen.headers["Last-Event-ID"] == "a-1"
        return await stream(request, event({"jsonrpc": "2.0", "id": 7, "result": {}}, id="a-2"))

    async with serving(answers) as site:
        channel = await HttpClientChannel.open(Dial(url=site.url))
        channel.send(ask(7))
        assert [each.get("id") for each in await receive(channel, 2)] == [None, 7]
        await channel.close()
    assert [seen.method for seen in site.seen] == ["POST", "GET"]


async def test_the_time_the_server_names_is_waited():
    """2025-11-25: "The client MUST respect the retry field"."""
    times = []

    async def answers(request, seen):
        times.append(asyncio.get_running_loop().time())
        if seen.method == "POST":
            return await stream(request, event(None, id="1", retry=300))
        return await stream(request, event({"jsonrpc": "2.0", "id": 7, "result": {}}))

    await one_reply(answers)
    # uvloop's clock counts milliseconds.
    assert times[1] - times[0] >= 0.29


async def test_a_server_may_be_polled_many_times():
    """Each reconnect that brings nothing is no failure while the server sets the pace."""
    polls = iter(range(100))

    async def answers(request, seen):
        if seen.method == "POST":
            return await stream(request, event(None, id="1", retry=1))
        if next(polls) < 12:
            return await stream(request)
        return await stream(request, event({"jsonrpc": "2.0", "id": 7, "result": {}}))

    reply, _ = await one_reply(answers)
    assert reply["result"] == {}


@pytest.mark.parametrize("status", [429, 503])
async def test_a_failing_reconnect_is_tried_again(status):
    """A server that restarts answers 503 for a while; 429 means that there were too many, and asks for patience."""
    tries = iter(range(100))

    async def answers(request, seen):
        if seen.method == "POST":
            return await stream(request, event(None, id="1", retry=1))
        if next(tries) < 1:
            return web.Response(status=status)
        return await stream(request, event({"jsonrpc": "2.0", "id": 7, "result": {}}))

    reply, _ = await one_reply(answers)
    assert reply["result"] == {}


async def test_a_refused_resume_ends_the_call():
    """405: this server keeps no events."""

    async def answers(request, seen):
        if seen.method == "POST":
            return await stream(request, event(None, id="1", retry=1))
        return web.Response(status=405)

    error = error_in((await one_reply(answers))[0])
    assert error.code == BROKEN
    assert "tools/list" in error.message


async def test_modern_headers_say_what_the_body_says():
    """Method, name and revision travel outside as well, encoded where a header could not carry them."""

    async def answers(request, seen):
        return result(seen.body["id"])

    def compute(tool, arguments):
        return {"Mcp-Param-X": tool + str(json.loads(arguments)["n"])}

    async with serving(answers) as site:
        channel = await HttpClientChannel.open(Dial(url=site.url, param_headers=compute))
        frames = [
            modern(1, "tools/call", name="add", arguments={"n": 5}),
            modern(2, "resources/read", uri="test://ü"),
            modern(3, "prompts/get", name="p"),
            modern(4, "completion/complete", name="not named"),
        ]
        for frame in frames:
            channel.send(frame)
            await receive(channel)
        await channel.close()
    headers = [seen.headers for seen in site.seen]
    assert [h["Mcp-Method"] for h in headers] == ["tools/call", "resources/read", "prompts/get", "completion/complete"]
    assert [h.get("Mcp-Name") for h in headers] == ["add", "=?base64?dGVzdDovL8O8?=", "p", None]
    assert {h["MCP-Protocol-Version"] for h in headers} == {"2026-07-28"}
    assert [h.get("Mcp-Param-X") for h in headers] == ["add5", None, None, None]


async def test_an_argument_that_fits_no_header_is_refused_here():
    """Nothing is sent."""
    from antiphon.errors import LocalProtocolError

    def compute(tool, arguments):
        raise LocalProtocolError("n: too large")

    reply, site = await one_reply(None, modern(1, "tools/call", name="add"), param_headers=compute)
    assert reply["error"] == {"code": -32602, "message": "n: too large"}
    assert site.seen == []


async def test_a_large_request_goes_out_whole():
    """Also when it is redirected first."""
    text = "x" * 3_000_000

    async def answers(request, seen):
        if seen.path == "/mcp":
            return web.Response(status=307, headers={"Location": "/there"})
        return result(1, {"size": len(seen.body["params"]["text"])})

    reply, _ = await one_reply(answers, ask(1, "tools/call", text=text))
    assert reply["result"]["size"] == len(text)


async def test_legacy_requests_have_no_modern_headers():
    """They come from a message that names its revision; this one does not."""

    async def answers(request, seen):
        return result(7)

    _, site = await one_reply(answers, ask(7, "tools/call", name="x"))
    assert not {"Mcp-Method", "Mcp-Name", "MCP-Protocol-Version"} & set(site.seen[0].headers)


@pytest.mark.parametrize(("ids", "held"), [([7], True), ([1, 7], True), ([1], False)])
async def test_a_batch_may_hold_the_reply(ids, held):
    """2025-03-26: the answer to a POST may be an array."""

    async def answers(request, seen):
        return web.json_response([{"jsonrpc": "2.0", "id": id, "result": {}} for id in ids])

    reply, _ = await one_reply(answers)
    assert isinstance(reply, list) == held


async def test_notifications_do_not_disturb():
    """A message without a reply makes no frame, even if it is refused."""

    async def answers(request, seen):
        return (
            web.Response(status=202 if "id" not in seen.body else 200, text="x")
            if seen.body["method"] == "n"
            else result(1)
        )

    async with serving(answers) as site:
        channel = await HttpClientChannel.open(Dial(url=site.url))
        assert channel.send(tell("n")) is None
        channel.send(ask(1))
        assert (await receive(channel))[0]["id"] == 1
        await channel.close()


def test_the_last_id_counts():
    """An event without one leaves it, an empty one takes it back."""
    cursor = Cursor()
    cursor.note(Event(b"", id="1"))
    cursor.note(Event(b"x"))
    assert cursor.last_id == "1"
    cursor.note(Event(b"x", id=""))
    assert cursor.last_id is None


@pytest.mark.parametrize("id", ["ä", "a\tb", "x" * 2000])
def test_an_id_that_fits_no_header_is_no_place_to_resume(id):
    """And the one before would be the wrong place."""
    cursor = Cursor()
    cursor.note(Event(b"", id="1"))
    cursor.note(Event(b"", id=id))
    assert cursor.last_id is None


def test_failures_lengthen_the_wait_up_to_a_bound():
    """Without a word of the server's it begins short."""
    cursor = Cursor()
    delays = []
    for cursor.failures in range(12):
        delays.append(cursor.delay)
    assert delays == sorted(delays)
    assert (delays[0], delays[-1]) == (0.1, 30.0)


def test_the_servers_time_is_a_lower_bound():
    """Failures may lengthen it, nothing shortens it; zero does not mean at once."""
    cursor = Cursor()
    cursor.note(Event(b"", retry=500))
    assert cursor.delay == 0.5
    cursor.failures = 6
    assert cursor.delay == 6.4
    cursor.note(Event(b"", retry=0))
    assert cursor.delay == 0.02


def test_an_accepted_reconnect_is_no_failure_if_the_server_sets_the_pace():
    """Else a server that ends every stream at once would never be left alone."""
    quiet, steady = Cursor(), Cursor()
    steady.note(Event(b"", retry=10))
    for cursor in (quiet, steady):
        cursor.failures = 5
        cursor.answered()
    assert (quiet.failures, steady.failures) == (5, 0)


def test_a_server_that_is_gone_is_given_up_within_half_a_minute():
    """All the waits of a resume that fails, together; a restart takes less."""
    from antiphon.transports.http.client import post

    cursor = Cursor()
    waits = []
    for cursor.failures in range(post._MAX_FAILURES):
        waits.append(cursor.delay)
    assert 20 < sum(waits) < 30
