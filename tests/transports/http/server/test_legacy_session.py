"""Legacy sessions: their ids, their ends, and which message goes on which stream."""

from __future__ import annotations

import asyncio

import pytest
from msgspec import UNSET

from antiphon import Server
from antiphon.transports.http.server.legacy_session import EarlyCancellations, find_cancelled_id
from antiphon.wire.envelope import decode_envelope
from antiphon.wire.lists import readable_list
from antiphon.wire.roots import ListRootsResult
from tests.transports.http.server.driver import ask, begin, closing, listen, post
from tests.transports.http.server.fakes import Bench, call, initialize


@pytest.fixture
async def bench():
    """Make an application with fake peers, and close it at the end."""
    made = Bench(keep_alive=60)
    async with closing(made.app):
        yield made


async def open_session(bench, version="2025-11-25"):
    """Open a session and return the headers that name it."""
    opened = await post(bench.app, initialize(version))
    return {"mcp-session-id": opened.headers["mcp-session-id"]}


async def test_every_session_has_an_id_nobody_can_guess(bench):
    """Visible ASCII, 128 bits."""
    ids = {(await open_session(bench))["mcp-session-id"] for _ in range(10)}
    assert len(ids) == 10
    assert all(len(id) == 32 and id.isalnum() for id in ids)


async def test_requests_of_a_session_go_to_its_peer(bench):
    """And to no other."""
    first, second = await open_session(bench), await open_session(bench)
    await post(bench.app, call("echo", id="a"), **first)
    await post(bench.app, call("echo", id="b"), **second)
    assert [[message.id for message in peer.taken] for peer in bench.peers] == [[0, "a"], [0, "b"]]


async def test_without_an_id_it_is_400_and_with_an_unknown_one_404(bench):
    """2025-11-25, "Session Management"."""
    assert (await post(bench.app, call("echo"))).status == 400
    assert (await post(bench.app, call("echo"), mcp_session_id="x")).status == 404
    assert (await ask(bench.app, "GET")).status == 400
    assert (await ask(bench.app, "DELETE", mcp_session_id="x")).status == 404


async def test_a_deleted_session_is_gone(bench):
    """And its peer is closed."""
    session = await open_session(bench)
    assert (await ask(bench.app, "DELETE", **session)).status == 204
    assert bench.peer.is_over
    assert (await post(bench.app, call("echo"), **session)).status == 404
    assert (await ask(bench.app, "DELETE", **session)).status == 404


async def test_deleting_a_session_ends_what_it_has_open(bench):
    """The call gets a 404, the stream its end."""
    session = await open_session(bench)
    waiting, listening = begin(bench.app, call("wait"), **session), listen(bench.app, **session)
    await bench.waiting.wait()
    await ask(bench.app, "DELETE", **session)
    assert (await waiting.done()).status == 404
    assert (await listening.done()).complete.is_set()


async def test_a_handshake_that_fails_opens_no_session():
    """The error is said, and nothing is left."""
    bench = Bench(max_sessions=1)
    async with closing(bench.app) as app:
        response = await post(app, initialize("refused"))
        assert (response.status, response.json["error"]["code"]) == (200, -32602)
        assert "mcp-session-id" not in response.headers
        assert bench.peer.is_over
        assert (await post(app, initialize())).status == 200


async def test_another_principal_s_session_is_not_found():
    """An id alone opens nothing."""
    bench = Bench(check_token=lambda token: token)
    async with closing(bench.app) as app:
        opened = await post(app, initialize(), authorization="Bearer alice")
        session = {"mcp-session-id": opened.headers["mcp-session-id"]}
        assert (await post(app, call("echo"), **session, authorization="Bearer alice")).status == 200
        assert (await post(app, call("echo"), **session, authorization="Bearer bob")).status == 404


@pytest.mark.parametrize("version", ["2000-01-01", "latest"])
async def test_an_invalid_version_is_400(bench, version):
    """On every later request."""
    session = await open_session(bench)
    assert (await post(bench.app, call("echo"), **session, mcp_protocol_version=version)).status == 400
    assert (await ask(bench.app, "GET", **session, mcp_protocol_version=version)).status == 400


async def test_an_id_that_is_in_use_is_refused(bench):
    """And the first request goes on."""
    session = await open_session(bench)
    waiting = begin(bench.app, call("wait", id=1), **session)
    await bench.waiting.wait()
    second = await post(bench.app, call("echo", id=1), **session)
    assert (second.status, second.json["error"]["code"]) == (400, -32600)
    bench.peer.go.set()
    assert (await waiting.done()).json["result"] == "waited"


async def test_what_belongs_to_no_request_goes_on_the_get_stream(bench):
    """And nowhere else; it waits for a client that has none yet."""
    session = await open_session(bench)
    response = await post(bench.app, call("broadcast"), **session)
    assert (response.is_stream, response.json["result"]) == (False, "sent")
    listening = listen(bench.app, **session)
    await listening.response.until(b"list_changed")
    listening.disconnect()
    await listening.done()
    assert len(listening.response.messages) == 1


async def test_the_newest_get_has_the_stream(bench):
    """The one before may be dead without anyone knowing."""
    session = await open_session(bench)
    first = listen(bench.app, **session)
    await first.response.until(b"id: 0-0")
    second = listen(bench.app, **session)
    await first.done()
    await post(bench.app, call("broadcast"), **session)
    await second.response.until(b"list_changed")
    assert b"list_changed" not in first.response.body
    second.disconnect()
    await second.done()


async def test_a_call_whose_client_left_can_be_resumed(bench):
    """It goes on meanwhile, and only its own messages are sent again."""
    session = await open_session(bench)
    calling = begin(bench.app, call("tell_and_wait"), **session)
    await calling.response.until(b"before")
    last = calling.response.events[-1].id
    calling.disconnect()
    bench.peer.go.set()
    await calling.done()
    await post(bench.app, call("broadcast", id=2), **session)
    resumed = await listen(bench.app, **session, last_event_id=last).done()
    assert [each.get("result", each.get("params")) for each in resumed.messages] == [{"data": "after"}, "waited"]


async def test_a_call_that_is_released_is_polled(bench):
    """The server closes the connection, and the client comes back for the answer."""
    session = await open_session(bench)
    calling = begin(bench.app, call("wait"), **session)
    await bench.waiting.wait()
    bench.peer.channel.release(1)
    first = calling.response
    async with asyncio.timeout(30):
        await first.complete.wait()
    assert [(event.data, event.id, event.retry) for event in first.events] == [(b"", "1-0", 1000)]
    polling = listen(bench.app, **session, last_event_id="1-0")
    bench.peer.go.set()
    assert (await polling.done()).messages == [{"jsonrpc": "2.0", "id": 1, "result": "waited"}]
    await calling.done()


@pytest.mark.parametrize("id", ["9-0", "1-x", "nonsense", "", "1-" + "9" * 50])
async def test_what_cannot_be_resumed_is_400(bench, id):
    """Not 404: the session is fine."""
    session = await open_session(bench)
    assert (await ask(bench.app, "GET", **session, last_event_id=id)).status == 400


async def test_streams_that_were_read_are_forgotten_after_a_while(bench):
    """A long session does not grow."""
    session = await open_session(bench)
    for id in range(1, 50):
        await post(bench.app, call("tell", id=id), **session)
    held = bench.peer.channel
    assert len(held._streams) <= 33
    assert (await ask(bench.app, "GET", **session, last_event_id="1-0")).status == 400


async def test_a_client_that_resumes_a_stream_and_reads_nothing_keeps_no_others(bench):
    """Only the stream that is being resumed is kept beside the newest."""
    session = await open_session(bench)
    await post(bench.app, call("tell", id=1), **session)
    blocked = asyncio.Event()

    async def stall(_message):
        blocked.set()
        await asyncio.Event().wait()

    resuming = listen(bench.app, stall, **session, last_event_id="1-0")
    await blocked.wait()
    for id in range(2, 100):
        await post(bench.app, call("tell", id=id), **session)
    assert len(bench.peer.channel._streams) <= 34
    assert (await ask(bench.app, "GET", **session, last_event_id="2-0")).status == 400
    resuming.task.cancel()
    await asyncio.wait([resuming.task])


async def test_a_get_must_take_events(bench):
    """406 otherwise."""
    session = await open_session(bench)
    assert (await ask(bench.app, "GET", **session, accept="application/json")).status == 406


async def test_an_answer_that_cannot_be_read_is_told_to_whoever_waits(bench):
    """400 for the client, an error for the ask."""
    session = await open_session(bench)
    response = await post(bench.app, {"jsonrpc": "2.0", "id": 7, "error": "no object"}, **session)
    assert response.status == 400
    assert bench.peer.taken[-1].error.message == "The reply cannot be read"


@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18"])
async def test_answers_in_a_batch_that_cannot_be_read_are_told_to_whoever_waits(bench, version):
    """Whether the revision has batches or not; a request beside them may have the id of an answer."""
    session = await open_session(bench, version)
    body = [{"jsonrpc": "2.0", "id": 7, "error": "no object"}, {"jsonrpc": "2.0", "id": 8}, call("echo", id=7)]
    response = await post(bench.app, body, **session)
    assert response.status == (200 if version == "2025-03-26" else 400)
    failed = {message.id for message in bench.peer.taken if message.error is not UNSET}
    assert failed == {7, 8}
    assert any(message.method == "tools/call" for message in bench.peer.taken) is (version == "2025-03-26")


async def test_a_request_that_is_nearly_json_is_refused_by_its_id(bench):
    """Its caller waits for this id."""
    session = await open_session(bench)
    body = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"x":NaN}}}'
    response = await post(bench.app, body, **session)
    assert (response.status, response.json["id"], response.json["error"]["code"]) == (400, 7, -32700)


@pytest.mark.parametrize("spoilt", ["NaN", "[" * 200 + "]" * 200, "True"])
async def test_a_bad_entry_of_a_list_that_a_client_sends_costs_itself_only(bench, spoilt):
    """The other roots are read."""
    session = await open_session(bench)
    roots = f'[{{"uri":"file:///bad","_meta":{{"x":{spoilt}}}}},{{"uri":"file:///good"}}]'
    body = f'{{"jsonrpc":"2.0","id":7,"result":{{"roots":{roots}}}}}'.encode()
    assert (await post(bench.app, body, **session)).status == 202
    left_out: list[str] = []
    readable = readable_list(bench.peer.taken[-1].result, ListRootsResult, left_out.append)
    assert b"file:///good" in bytes(readable)
    assert left_out[0].startswith("roots[0] ('file:///bad')")


def cancel(id):
    """Make the notification that cancels a request."""
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}


@pytest.mark.parametrize("id", ["w", 7])
async def test_a_cancellation_may_overtake_its_request(bench, id):
    """On another connection: the request is not begun when it comes, and its id is free after that."""
    session = await open_session(bench)
    await post(bench.app, cancel(id), **session)
    response = await post(bench.app, call("wait", id=id), **session)
    assert (response.status, response.body) == (202, b"")
    assert id not in [message.id for message in bench.peer.taken]
    assert (await post(bench.app, call("echo", id=id), **session)).status == 200


async def test_a_thousand_of_them_leave_the_session_open(bench):
    """Each is remembered once; more than that, and the oldest are forgotten."""
    session = await open_session(bench)
    for number in range(1_100):
        await post(bench.app, cancel(number), **session)
    statuses = [(await post(bench.app, call("wait", id=number), **session)).status for number in range(100, 1_100)]
    assert set(statuses) == {202}
    assert (await post(bench.app, call("echo", id=0), **session)).status == 200


async def test_an_id_of_any_length_is_not_remembered(bench):
    """What nobody's client sends takes no memory."""
    session = await open_session(bench)
    await post(bench.app, cancel("x" * 129), **session)
    assert (await post(bench.app, call("echo", id="x" * 129), **session)).status == 200


async def test_an_old_cancellation_is_forgotten(bench, monkeypatch):
    """A client that counts anew may use the id again."""
    monkeypatch.setattr("antiphon.transports.http.server.legacy_session._SECONDS", -1.0)
    session = await open_session(bench)
    await post(bench.app, cancel("w"), **session)
    assert (await post(bench.app, call("echo", id="w"), **session)).status == 200


async def test_one_holds_for_one_request():
    """After that its id is free."""
    early = EarlyCancellations()
    assert not early.meet(1)
    early.note(1)
    assert not early.meet("1")
    assert early.meet(1)
    assert not early.meet(1)


async def test_the_oldest_makes_room():
    """A client that cancels what it never sends fills nothing."""
    early = EarlyCancellations()
    for id in range(1_001):
        early.note(id)
    early.note("x" * 129)
    assert [early.meet(id) for id in (0, 1, 1_000, "x" * 129)] == [False, True, True, False]


@pytest.mark.parametrize(
    ("said", "id"),
    [
        ('"method":"notifications/cancelled","params":{"requestId":7}', 7),
        ('"method":"notifications/cancelled","params":{"requestId":"a"}', "a"),
        ('"method":"notifications/cancelled","params":{"requestId":[1]}', None),
        ('"method":"notifications/cancelled"', None),
        ('"method":"notifications/progress","params":{"requestId":7}', None),
    ],
)
def test_a_message_says_which_request_it_cancels(said: str, id: int | str | None):
    """If it can be read."""
    assert find_cancelled_id(decode_envelope(f'{{"jsonrpc":"2.0",{said}}}'.encode())) == id


async def open_batches(app):
    """Open a session of the revision that has batches, and return the headers that name it."""
    opening = initialize("2025-03-26")
    opening["params"] |= {"capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    return {"mcp-session-id": (await post(app, opening)).headers["mcp-session-id"]}


@pytest.fixture
async def served():
    """Serve two tools: one that answers at once, and one that waits; yield the application and two events."""
    server, began, go = Server("s"), asyncio.Event(), asyncio.Event()

    @server.tool
    async def quick() -> str:
        return "quick"

    @server.tool
    async def slow() -> str:
        began.set()
        await go.wait()
        return "slow"

    async with closing(server.asgi()) as app:
        yield app, began, go


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("first", ["quick", "slow"])
async def test_a_cancellation_takes_no_reply_of_another_request_in_a_batch(served, first, times):
    """Not if its own request was answered already, and not if it comes twice."""
    app, began, go = served
    session = await open_batches(app)
    waiting = begin(app, [call(first, id=1), call("slow", id=2)], **session)
    await began.wait()
    for _ in range(times):
        await post(app, cancel(1), **session)
    go.set()
    assert [each["id"] for each in (await waiting.done()).json] == ([1, 2] if first == "quick" else [2])


@pytest.mark.parametrize("name", ["quick", "slow"])
async def test_a_batch_that_cancels_its_own_request_ends(served, name):
    """The request has no reply, the others have theirs."""
    app, _began, _go = served
    session = await open_batches(app)
    response = await post(app, [call(name, id=1), cancel(1), call("quick", id=2)], **session)
    assert [each["id"] for each in response.json] == [2]
    # JSON-RPC 2.0, section 6: the server "MUST NOT return an empty Array and should return nothing at all".
    alone = await post(app, [call(name, id=3), cancel(3)], **session)
    assert (alone.status, alone.body) == (202, b"")


async def test_a_cancellation_in_a_batch_ends_a_request_outside_of_it(served):
    """Its POST ends as if the cancellation had come alone."""
    app, began, _go = served
    session = await open_batches(app)
    waiting = begin(app, call("slow", id=1), **session)
    await began.wait()
    await post(app, [cancel(1), cancel(9)], **session)
    assert (await waiting.done()).status == 202
