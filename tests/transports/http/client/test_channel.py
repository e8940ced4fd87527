"""The channel of an HTTP client: sessions, cancelling, what comes unasked, and the end."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from antiphon.channel import Frame
from antiphon.errors import ConfigError, ConnectionClosed
from antiphon.transports.http.client.channel import HttpClientChannel
from antiphon.transports.http.client.error_replies import BROKEN, Dial, SessionGone
from tests.support.web import ask, event, legacy, opened, receive, result, serving, stream, tell

MODERN = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}


async def test_the_session_and_the_revision_are_named_in_every_later_request():
    """After the handshake each POST, the GET and the DELETE carry both."""
    async with serving(legacy()) as site:
        channel = await opened(site)
        assert channel.session_id == "s-1"
        channel.send(ask(1))
        await receive(channel)
        await channel.close()
    assert [seen.method for seen in site.seen] == ["POST", "POST", "GET", "POST", "DELETE"]
    assert {seen.headers.get("Mcp-Session-Id") for seen in site.seen[1:]} == {"s-1"}
    assert {seen.headers.get("MCP-Protocol-Version") for seen in site.seen[1:]} == {"2025-06-18"}
    assert "Mcp-Session-Id" not in site.seen[0].headers


async def test_without_a_session_nothing_is_deleted():
    """A server that assigns none is told of no end."""

    async def answers(request, seen):
        return (
            result(seen.body["id"], {"protocolVersion": "2025-06-18"})
            if "id" in seen.body
            else web.Response(status=202)
        )

    async with serving(answers) as site:
        channel = await HttpClientChannel.open(Dial(url=site.url))
        channel.send(ask(0, "initialize"))
        await receive(channel)
        await channel.close()
    assert [seen.method for seen in site.seen] == ["POST"]


async def test_an_empty_session_id_is_none():
    """Some servers without sessions, and proxies, write the header in any case."""

    async def answers(request, seen):
        return result(0, {}, **{"Mcp-Session-Id": ""})

    async with serving(answers) as site:
        channel = await HttpClientChannel.open(Dial(url=site.url))
        for method in ("initialize", "tools/list"):
            channel.send(ask(0, method))
            assert "error" not in (await receive(channel))[0]
        await channel.close()
    assert all("Mcp-Session-Id" not in seen.headers for seen in site.seen)


async def test_a_session_id_that_is_none_is_refused():
    """Visible ASCII, says the specification; and it has a bound."""

    async def answers(request, seen):
        return result(0, {}, **{"Mcp-Session-Id": "x y"})

    async with serving(answers) as site:
        channel = await HttpClientChannel.open(Dial(url=site.url))
        channel.send(ask(0, "initialize"))
        (reply,) = await receive(channel)
        assert "session id" in reply["error"]["message"]
        await channel.close()


async def test_a_session_that_is_gone_ends_the_channel():
    """404: the request that met it gets a reply, and the channel says why it ended."""

    async def rest(request, seen):
        return web.json_response({"jsonrpc": "2.0", "error": {"code": -32001, "message": "?"}}, status=404)

    async with serving(legacy(rest)) as site:
        channel = await opened(site)
        channel.send(ask(1))
        (reply,) = await receive(channel)
        assert (reply["error"]["code"], reply["error"]["data"]["sessionGone"]) == (404, True)
        assert await channel.receive() == []
        assert isinstance(channel.closed_error(), SessionGone)
        assert channel.send(ask(2)) is None
        await channel.close()
    assert "DELETE" not in [seen.method for seen in site.seen]


@pytest.mark.parametrize(
    "said",
    ["Bad Request: No valid session ID provided", "Session not found", "Bad Request: Server not initialized", None],
)
async def test_a_session_that_is_gone_is_known_by_a_400_that_names_it(said):
    """Servers made from widespread examples answer so once they have been restarted, in JSON-RPC or as plain text."""
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": said}}

    async def rest(request, seen):
        return web.json_response(error, status=400) if said else web.Response(text="Invalid session ID", status=400)

    async with serving(legacy(rest)) as site:
        channel = await opened(site)
        channel.send(ask(1))
        (reply,) = await receive(channel)
        assert reply["error"]["data"]["sessionGone"] is True
        assert await channel.receive() == []
        await channel.close()


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (410, "Gone"),
        (401, "Unauthorized: Session not found"),
        (403, "Mcp-Session-Id principal mismatch"),
        (422, "Invalid session id"),
    ],
)
async def test_a_session_that_is_gone_is_known_by_other_statuses_that_say_so(status, said):
    """Servers and proxies that are in use answer so."""

    async def rest(request, seen):
        return web.Response(text=said, status=status)

    async with serving(legacy(rest)) as site:
        channel = await opened(site)
        channel.send(ask(1))
        (reply,) = await receive(channel)
        assert reply["error"]["data"]["sessionGone"] is True
        assert await channel.receive() == []
        await channel.close()


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (401, "Your session has expired: sign in again"),
        (403, "Forbidden"),
        (410, {"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "no such method"}}),
        (422, "a member is missing"),
        (500, "Session not found"),
        (503, "Too many sessions"),
    ],
)
async def test_a_status_that_is_not_about_the_session_leaves_it_as_it_is(status, said):
    """It is about the caller, the request or the server."""

    async def rest(request, seen):
        return web.Response(text=said, status=status) if isinstance(said, str) else web.json_response(said, status=410)

    async with serving(legacy(rest)) as site:
        channel = await opened(site)
        for id in (1, 2):
            channel.send(ask(id))
            assert (await receive(channel))[0]["error"].get("data", {}).get("sessionGone") is None
        await channel.close()


async def test_another_400_leaves_the_session_as_it_is():
    """The request was wrong, and the next one may be right."""

    async def rest(request, seen):
        return web.json_response({"jsonrpc": "2.0", "error": {"code": -32602, "message": "no such tool"}}, status=400)

    async with serving(legacy(rest)) as site:
        channel = await opened(site)
        for id in (1, 2):
            channel.send(ask(id))
            assert (await receive(channel))[0]["error"]["code"] == -32602
        await channel.close()


async def test_each_request_on_its_way_is_told_that_the_session_is_gone():
    """The server has refused it as well; and one that comes later was not even sent. All can be made again."""
    second = asyncio.Event()

    async def rest(request, seen):
        if seen.body["id"] == 2:
            await second.wait()
        return web.Response(status=404)

    async with serving(legacy(rest)) as site:
        channel = await opened(site)
        channel.send(ask(1))
        channel.send(ask(2))
        first = await receive(channel)
        channel.send(ask(3))
        unsent = await receive(channel)
        second.set()
        replies = first + unsent + await receive(channel)
        assert await channel.receive() == []
        await channel.close()
    assert [each["id"] for each in replies] == [1, 3, 2]
    assert all(each["error"]["data"] == {"httpStatus": 404, "sessionGone": True} for each in replies)
    assert "nothing was sent" in unsent[0]["error"]["message"]


async def test_a_request_that_is_never_answered_does_not_keep_a_lost_session():
    """It has a moment; then the channel ends, and whoever waits for it is told why."""

    async def rest(request, seen):
        if seen.body["id"] == 1:
            await asyncio.Event().wait()
        return web.Response(status=404)

    async with serving(legacy(rest)) as site:
        channel = await opened(site)
        channel.send(ask(1))
        await site.until(lambda seen: seen.body and seen.body.get("id") == 1)
        channel.send(ask(2))
        assert (await receive(channel))[0]["id"] == 2
        assert await channel.receive() == []
        assert "nobody knows" in str(channel.closed_error())
        await channel.close()


async def test_an_unknown_method_does_not_end_the_session():
    """Some servers say -32601 with status 404."""

    async def rest(request, seen):
        return web.json_response({"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "?"}}, status=404)

    async with serving(legacy(rest)) as site:
        channel = await opened(site)
        channel.send(ask(1))
        assert (await receive(channel))[0]["error"]["code"] == -32601
        channel.send(ask(2))
        assert (await receive(channel))[0]["error"]["code"] == -32601
        await channel.close()


async def test_a_session_that_is_gone_when_a_stream_is_resumed_ends_the_channel():
    """The call learns that its reply is lost, everybody else that the session is."""
    calling = asyncio.Event()

    async def rest(request, seen):
        calling.set()
        return await stream(request, event(None, id="1", retry=1))

    async def get(request, seen):
        return web.Response(status=404 if calling.is_set() else 405)

    async with serving(legacy(rest, get)) as site:
        channel = await opened(site)
        channel.send(ask(1))
        (reply,) = await receive(channel)
        assert reply["error"]["code"] == BROKEN
        assert await channel.receive() == []
        assert isinstance(channel.closed_error(), SessionGone)
        await channel.close()


async def test_an_ask_on_a_stream_is_answered_with_a_post():
    """The reply to the server's request is a message of its own."""

    async def rest(request, seen):
        response = await stream(request, event({"jsonrpc": "2.0", "id": "q", "method": "ping"}))
        await site.until(lambda each: each.body and "result" in each.body)
        await response.write(event({"jsonrpc": "2.0", "id": 1, "result": {}}))
        return response

    async with serving(legacy(rest)) as site:
        channel = await opened(site)
        channel.send(ask(1))
        assert (await receive(channel))[0]["method"] == "ping"
        reply = ask("q").data.replace(b'"method": "tools/list"', b'"result": {}')
        channel.send(type(ask(1))(reply))
        assert (await receive(channel))[0]["id"] == 1
        await channel.close()


@pytest.mark.parametrize("status", [429, 503])
async def test_an_answer_that_is_not_taken_yet_is_posted_again(status):
    """The server would wait for ever for an answer that may have cost a person time."""
    answered = asyncio.Event()
    refusals = iter([status])

    async def answers(request, seen):
        if "method" not in seen.body:
            refusal = next(refusals, None)
            if refusal is None:
                answered.set()
            return web.Response(status=refusal or 202)
        response = await stream(request, event({"jsonrpc": "2.0", "id": "a", "method": "sampling/createMessage"}))
        await answered.wait()
        await response.write(event({"jsonrpc": "2.0", "id": 7, "result": {}}))
        return response

    async with serving(answers) as site:
        channel = await HttpClientChannel.open(Dial(url=site.url))
        channel.send(ask(7))
        assert (await receive(channel))[0]["id"] == "a"
        channel.send(Frame(b'{"jsonrpc":"2.0","id":"a","result":{}}'))
        assert (await receive(channel))[0]["id"] == 7
        await channel.close()


async def test_a_modern_cancel_closes_the_stream_and_says_nothing():
    """2026-07-28: the disconnect is the message."""
    gone = asyncio.Event()

    async def answers(request, seen):
        response = await stream(request, event({"jsonrpc": "2.0", "method": "notifications/message"}))
        try:
            await asyncio.Event().wait()
        finally:
            gone.set()
        return response

    async with serving(answers) as site:
        channel = await HttpClientChannel.open(Dial(url=site.url))
        channel.send(ask(1, "tools/call", name="x", _meta=MODERN))
        await receive(channel)
        channel.send(tell("notifications/cancelled", requestId=1))
        await gone.wait()
        channel.send(tell("notifications/cancelled", requestId=1))
        await channel.close()
    assert len(site.seen) == 1


async def test_a_legacy_cancel_is_posted_and_then_the_stream_is_closed():
    """Earlier revisions do not read a disconnect as cancelling."""
    gone = asyncio.Event()

    async def rest(request, seen):
        try:
            await asyncio.Event().wait()
        finally:
            gone.set()

    async with serving(legacy(rest)) as site:
        channel = await opened(site)
        channel.send(ask(1))
        await site.until(lambda seen: seen.body and seen.body.get("id") == 1)
        channel.send(tell("notifications/cancelled", requestId=1))
        seen = await site.until(lambda seen: seen.body and seen.body.get("method") == "notifications/cancelled")
        assert seen.body["params"] == {"requestId": 1}
        await gone.wait()
        await channel.close()


async def test_a_cancelled_request_gets_no_answer_that_was_made_here():
    """The server may end its response before it has answered the cancellation; nobody waits for the reply any more."""
    ended = asyncio.Event()
    base = legacy()

    async def answers(request, seen):
        if seen.method == "POST" and seen.body.get("id") == 1:
            await site.until(lambda seen: seen.body and seen.body.get("method") == "notifications/cancelled")
            return web.Response(status=202)
        if seen.method == "POST" and seen.body.get("method") == "notifications/cancelled":
            await ended.wait()
        return await base(request, seen)

    async with serving(answers) as site:
        channel = await opened(site)
        channel.send(ask(1))
        await site.until(lambda seen: seen.body and seen.body.get("id") == 1)
        channel.send(tell("notifications/cancelled", requestId=1))
        async with asyncio.timeout(60):
            while 1 in channel._calls:
                await asyncio.wait([channel._calls[1][1]])
        ended.set()
        channel.send(ask(2))
        arrived = await receive(channel)
        await channel.close()
    assert [each["id"] for each in arrived] == [2]


async def test_modern_requests_open_no_listening_stream():
    """There is none in that era, and no session to end."""

    async def answers(request, seen):
        return result(seen.body["id"], {}, **{"Mcp-Session-Id": "x"})

    async with serving(answers) as site:
        channel = await HttpClientChannel.open(Dial(url=site.url))
        channel.send(ask(1, "server/discover", _meta=MODERN))
        await receive(channel)
        channel.send(ask(2, "tools/list", _meta=MODERN))
        await receive(channel)
        await channel.close()
    assert [seen.method for seen in site.seen] == ["POST", "POST"]
    assert "Mcp-Session-Id" not in site.seen[1].headers


async def test_a_handshake_after_a_failed_probe_is_plain():
    """Nothing modern remains in what a legacy server gets to see."""
    base = legacy()

    async def answers(request, seen):
        if seen.method == "POST" and seen.body.get("method") == "server/discover":
            return web.Response(status=400, text="what?")
        return await base(request, seen)

    async with serving(answers) as site:
        channel = await HttpClientChannel.open(Dial(url=site.url))
        channel.send(ask(1, "server/discover", _meta=MODERN))
        assert (await receive(channel))[0]["error"]["code"] == 400
        channel.send(ask(2, "initialize"))
        await receive(channel)
        await channel.send(tell("notifications/initialized"))
        await channel.close()
    assert not any("Mcp-Method" in seen.headers for seen in site.seen[1:])
    assert "MCP-Protocol-Version" not in site.seen[1].headers


async def test_closing_ends_calls_streams_and_receiving():
    """From any task, twice, while everything is open: nothing stays behind."""

    async def rest(request, seen):
        await asyncio.Event().wait()

    async def get(request, seen):
        await stream(request, event(None))
        await asyncio.Event().wait()

    async with serving(legacy(rest, get)) as site:
        before = asyncio.all_tasks()
        channel = await opened(site)
        channel.send(ask(1))
        receiving = asyncio.create_task(channel.receive())
        await site.until(lambda seen: seen.body and seen.body.get("id") == 1)
        await asyncio.gather(channel.close(), asyncio.create_task(channel.close()))
        assert await receiving == []
        assert type(channel.closed_error()) is ConnectionClosed
        assert "this side" in str(channel.closed_error())
        ours = {task for task in asyncio.all_tasks() - before if "antiphon" in task.get_coro().__qualname__}
        assert not ours
    assert site.seen[-1].method == "DELETE"


async def test_what_is_sent_before_the_end_still_goes_out():
    """A cancel that the connection sends while it closes reaches the server."""
    async with serving(legacy()) as site:
        channel = await opened(site)
        channel.send(tell("notifications/cancelled", requestId=99))
        await channel.close()
    assert [seen.body["method"] for seen in site.seen if seen.method == "POST"][-1] == "notifications/cancelled"


async def test_the_users_headers_go_with_every_request():
    """Keys and tenants; but what the protocol defines stays ours."""
    async with serving(legacy()) as site:
        channel = await opened(site, headers={"X-Key": "k", "accept": "text/html"})
        await channel.close()
    assert {seen.headers["X-Key"] for seen in site.seen} == {"k"}
    assert site.seen[0].headers.getall("Accept") == ["application/json, text/event-stream"]


@pytest.mark.parametrize("url", ["ftp://x/mcp", "localhost:8000", "http://", "http://u:secret@[bad/"])
async def test_an_address_that_is_none_is_refused(url):
    """Before anything is opened, and without showing it."""
    with pytest.raises(ConfigError, match="http or https") as refused:
        await HttpClientChannel.open(Dial(url=url))
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("header", [{"X Y": "1"}, {"X": "a\r\nB: c"}])
async def test_a_header_that_cannot_be_sent_is_refused(header):
    """Its value is not shown: it may be a key."""
    with pytest.raises(ConfigError, match="header"):
        await HttpClientChannel.open(Dial(url="http://localhost/mcp", headers=header))


async def test_what_comes_unasked_arrives_on_the_listening_stream():
    """It is open before the first request goes out, and goes on after its last event when it breaks."""
    poke = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}

    async def get(request, seen):
        if "Last-Event-ID" in seen.headers:
            assert seen.headers["Last-Event-ID"] == "g1"
            await stream(request, event({**poke, "again": True}))
            await asyncio.Event().wait()
        return await stream(request, event(poke, id="g1", retry=1))

    async with serving(legacy(get=get)) as site:
        channel = await opened(site)
        assert [seen.method for seen in site.seen] == ["POST", "POST", "GET"]
        assert await receive(channel, 2) == [poke, {**poke, "again": True}]
        await channel.close()


@pytest.mark.parametrize("status", [400, 404, 405, 500, 204])
async def test_a_server_without_a_listening_stream_is_fine(status):
    """It need not offer one, however it says so."""

    async def get(request, seen):
        return web.Response(status=status)

    async with serving(legacy(get=get)) as site:
        channel = await opened(site)
        channel.send(ask(1))
        assert (await receive(channel))[0]["id"] == 1
        await channel.close()
    assert [seen.method for seen in site.seen].count("GET") == 1


@pytest.mark.parametrize("status", [404, 410])
async def test_a_session_that_is_gone_shows_on_the_listening_stream(status):
    """A restart of the server is noticed without a call."""
    gets = iter(range(9))

    async def get(request, seen):
        return web.Response(status=status) if next(gets) else await stream(request, event(None, retry=1))

    async with serving(legacy(get=get)) as site:
        channel = await opened(site)
        assert await channel.receive() == []
        assert isinstance(channel.closed_error(), SessionGone)
        await channel.close()
